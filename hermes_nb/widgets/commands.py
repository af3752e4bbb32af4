"""What a browser may say: a few known messages with bounds; everything else is nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TEXT = 16_000
"""Characters of a steer; a front end can be made to send anything."""

_NUMBERS = {"fetch": ("rows", "bars"), "size": ("height",)}
_KINDS = frozenset({"steer", "interrupt", "boundary", "pause", "step", "resume", "ping", "record", "gone", *_NUMBERS})
_MOST = 2**31
_FIELDS = 6


@dataclass(frozen=True, slots=True)
class Command:
    """One message of the panel's front end, checked.

    Attributes:
        kind: What is asked for.
        id: The front end's number of it, for the answer.
        text: Of a steer.
        numbers: Of a fetch: how many rows and bars are there already; of a size: the height in pixels.
    """

    kind: str
    id: int = 0
    text: str = ""
    numbers: tuple[int, ...] = ()


def parse(message: object) -> Command | None:
    """The command in a message; None if there is none."""
    if not isinstance(message, dict) or len(message) > _FIELDS:
        return None
    kind, number, text = message.get("kind"), message.get("id", 0), message.get("text", "")
    if not isinstance(kind, str) or kind not in _KINDS or not _is_number(number):
        return None
    if not isinstance(text, str) or len(text) > TEXT or (kind == "steer" and not text.strip()):
        return None
    wanted = _NUMBERS.get(kind, ())
    numbers = tuple(message[name] for name in wanted if _is_number(message.get(name)))
    if len(numbers) != len(wanted):
        return None
    return Command(kind, number, text, numbers)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
