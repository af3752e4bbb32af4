"""Conversations that are looked at again and again while they grow: each message is to be worked on once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_nb.vocabulary.messages import Message


class Growing:
    """Remembers a conversation from one look to the next."""

    def __init__(self) -> None:
        self._before: tuple[Message, ...] = ()

    def look(self, messages: tuple[Message, ...]) -> tuple[bool, tuple[Message, ...]]:
        """What is new.

        Returns:
            Whether the conversation has only grown since the last look; and what has come since, or all of it.
        """
        before, self._before = self._before, messages
        goes_on = messages[: len(before)] == before
        return goes_on, messages[len(before) :] if goes_on else messages


def common_length(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages two conversations share at their beginning."""
    if one == other[: len(one)]:
        return len(one)
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a is not b and a != b), min(len(one), len(other)))
