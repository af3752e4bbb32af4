"""JSON of requests, each message encoded once per connection: a growing history is joined, never written again."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from hermes_nb.vocabulary.growing import Growing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hermes_nb.vocabulary.messages import Message, ToolSpec

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False).encode


def to_json(value: Any) -> bytes:
    """A value as JSON in UTF-8; lone surrogates become question marks, and numbers that JSON does not know null."""
    try:
        text = _encode(value)
    except ValueError:
        text = _encode(_finite(value))
    return text.encode("utf-8", "replace")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Fragments:
    """The JSON of messages, by identity: a message is frozen, so the same object is the same JSON.

    Args:
        encode: Makes the JSON of one message.
    """

    def __init__(self, encode: Callable[[Message], bytes]) -> None:
        self._encode = encode
        self._known: dict[int, tuple[Message, bytes]] = {}
        self._growing, self._inside = Growing(), b""

    def history(self, messages: tuple[Message, ...]) -> bytes:
        """A conversation as the inside of a JSON array; what has only grown since the last time is only joined on."""
        goes_on, new = self._growing.look(messages)
        self._inside = b",".join(filter(None, (self._inside if goes_on else b"", self.joined(new))))
        return self._inside

    def joined(self, messages: Iterable[Message]) -> bytes:
        """The messages as the inside of a JSON array; those that give nothing are left out."""
        return b",".join(filter(None, map(self._one, messages)))

    def forget(self, kept: tuple[Message, ...]) -> None:
        """Forget all but these, when the history was replaced by a smaller one."""
        if len(self._known) > 2 * len(kept) + 64:
            self._known = {id(m): self._known[id(m)] for m in kept if id(m) in self._known}

    def clear(self) -> None:
        """Forget everything: messages are written differently from now on."""
        self._known.clear()
        self._growing = Growing()
        self._inside = b""

    def _one(self, message: Message) -> bytes:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = (message, self._encode(message))
        return known[1]


class Tools:
    """The JSON of tools, written again only when they are others.

    Args:
        told: What the API is told of one tool.
    """

    def __init__(self, told: Callable[[ToolSpec], Any]) -> None:
        self._told = told
        self._last: tuple[tuple[ToolSpec, ...], bytes] = ((), b"[]")

    def json(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """A JSON array."""
        if self._last[0] != tools:
            self._last = (tools, to_json(list(map(self._told, tools))))
        return self._last[1]
