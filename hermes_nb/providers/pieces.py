"""Text that comes in pieces."""

from __future__ import annotations

from typing import Any

from hermes_nb.vocabulary.texts import mended


class Pieces:
    """Text in pieces; characters that a server cut in two (surrogate pairs) are joined again."""

    __slots__ = ("_held", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._held = ""

    def add(self, piece: str) -> str:
        """Take a piece; gives what can be shown of it."""
        if self._held or not piece.isascii():
            piece, self._held = self._held + piece, ""
            if "\ud800" <= piece[-1] <= "\udbff":
                piece, self._held = piece[:-1], piece[-1]
            piece = mended(piece)
        self._parts.append(piece)
        return piece

    def __str__(self) -> str:
        return "".join(self._parts) + mended(self._held)

    def __bool__(self) -> bool:
        return bool(self._parts)


def cleaned(value: Any) -> Any:
    """A value of JSON, which is to go back as it came, with all its texts mended."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, dict):
        return {mended(key): cleaned(item) for key, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, list) else value
