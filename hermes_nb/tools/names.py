"""The tool that a model means by a name that is spelled a little differently."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CLOSE_ENOUGH = 0.7
"""How alike two words must be (difflib's ratio). Compared word by word: over the whole name `delete_user` and
`create_user` would pass for one another."""

LONG_ENOUGH = 5
"""Letters that one of two words must have to be taken for the other: `read` and `head` are two words."""


def closest(name: str, known: Iterable[str]) -> str:
    """The one known name that `name` stands for; empty if there is none, or more than one.

    Forgiven are: case, separators, camelCase, a namespace in front (`functions.search`), what follows a quote or an
    angle bracket, a suffix `_tool`, and misspelt words.
    """
    wanted = words(name)
    if not wanted:
        return ""
    by_words = {candidate: words(candidate) for candidate in known}
    same = [candidate for candidate, parts in by_words.items() if parts == wanted]
    alike = same or [candidate for candidate, parts in by_words.items() if _alike(wanted, parts)]
    return alike[0] if len(alike) == 1 else ""


def words(name: str) -> list[str]:
    """The words of a name: `functions.TodoTool_tool` is `["todo"]`."""
    name = re.split(r"[\"'<>]", name.strip().lstrip("\"'<> "), maxsplit=1)[0].strip()
    name = re.split(r"[.:/]", name)[-1]
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    parts = [part for part in re.split(r"[\W_]+", name.lower()) if part]
    for _ in range(2):
        if len(parts) > 1 and parts[-1] == "tool":
            parts.pop()
    return parts


def _alike(one: list[str], other: list[str]) -> bool:
    pairs = zip(one, other, strict=True) if len(one) == len(other) else ()
    likeness = [_likeness(a, b) for a, b in pairs]
    return bool(likeness) and min(likeness) >= CLOSE_ENOUGH


def _likeness(a: str, b: str) -> float:
    if max(len(a), len(b)) < LONG_ENOUGH:
        return float(a == b)
    from difflib import SequenceMatcher  # noqa: PLC0415  loaded by the first use: it takes longer than most of the library

    return SequenceMatcher(None, a, b).ratio()
