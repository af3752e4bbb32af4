"""Thinking that a model writes into its answer, in tags at the beginning: it is reasoning, not the answer."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_nb.vocabulary.events import DeltaPart
    from hermes_nb.vocabulary.messages import Reply

TAGS = ("think", "thinking", "reasoning", "scratchpad", "REASONING_SCRATCHPAD")
"""Names of the tags in which models of several families think."""

_OPEN = re.compile(rf"\s*<({'|'.join(TAGS)})>")


def split_thinking(text: str) -> tuple[str, str]:
    """The answer and the thinking before it; a block that is not closed is all thinking."""
    match = _OPEN.match(text)
    if match is None:
        return text, ""
    thinking, _, answer = text[match.end() :].partition(f"</{match[1]}>")
    return answer.lstrip(), thinking.strip()


def without_thinking(reply: Reply) -> Reply:
    """The reply with its thinking taken out of the text and put where it belongs."""
    message = reply.message
    if not isinstance(message.content, str):
        return reply
    answer, thinking = split_thinking(message.content)
    if not thinking and answer == message.content:
        return reply
    reasoning = "\n".join(filter(None, (message.reasoning, thinking)))
    return reply.with_(message=replace(message, content=answer, reasoning=reasoning))


class ThinkingFilter:
    """Tells thinking from answer while a text streams in; one for each reply."""

    def __init__(self) -> None:
        self._held = ""
        self._tag = ""
        self._answering = False

    def feed(self, piece: str) -> Iterator[tuple[str, DeltaPart]]:
        """What of the text so far can be told now, and as what."""
        if self._answering:
            yield piece, "text"
            return
        self._held += piece
        if not self._tag:
            yield from self._begin()
        if self._tag:
            yield from self._think()

    def _begin(self) -> Iterator[tuple[str, DeltaPart]]:
        """At the beginning, where a tag may still be coming in."""
        if match := _OPEN.match(self._held):
            self._tag, self._held = match[1], self._held[match.end() :]
        elif not any(f"<{tag}>".startswith(self._held.lstrip()) for tag in TAGS):
            self._answering = True
            yield self._held, "text"

    def _think(self) -> Iterator[tuple[str, DeltaPart]]:
        """Inside of a block, whose end may be split over pieces."""
        end = f"</{self._tag}>"
        thinking, ended, answer = self._held.partition(end)
        if ended:
            self._answering = True
            yield from ((text, part) for text, part in ((thinking, "reasoning"), (answer.lstrip(), "text")) if text)  # type: ignore[misc]  # the parts are the two literals
            return
        safe = max(0, len(thinking) - (len(end) - 1))
        if safe:
            self._held = thinking[safe:]
            yield thinking[:safe], "reasoning"
