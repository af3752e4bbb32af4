"""Keys taken out of everything that the sinks are told."""

from __future__ import annotations

import operator
from copy import copy
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from hermes_nb.vocabulary.events import Scoped
from hermes_nb.vocabulary.failures import Failure
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hermes_nb.vocabulary.events import What

MASK = "[redacted]"
SHORTEST = 6
"""Characters; a shorter secret would stand in ordinary words."""


def redactor(secrets: Iterable[str]) -> Callable[[What], What] | None:
    """A function that takes these texts out of an event's thing; None when there is nothing to take out.

    What holds no secret is given back as it is, and each message is looked through once.
    """
    known = tuple(sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True))
    if not known:
        return None
    return _Redactor(known)


class _Redactor:
    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._seen: dict[int, tuple[Message, Message]] = {}

    def __call__(self, what: What) -> What:
        clean: What = self._fields(what)
        if clean is what and isinstance(what, Scoped):
            return copy(what)  # the scope is still being filled in, perhaps with a key
        return clean

    def _fields(self, value: Any) -> Any:
        changes = {}
        for name in _telling(type(value)):
            old = getattr(value, name)
            if old and (new := self._clean(old)) is not old:
                changes[name] = new
        return replace(value, **changes) if changes else value

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Message):
            return self._message(value)
        if isinstance(value, tuple | list):
            items = [self._clean(item) for item in value]
            return value if all(map(operator.is_, items, value)) else type(value)(items)
        if isinstance(value, dict):
            pairs = {key: self._clean(item) for key, item in value.items()}
            return value if all(map(operator.is_, pairs.values(), value.values())) else pairs
        return self._fields(value) if isinstance(value, Reply | ToolCall | Failure) else value

    def _message(self, message: Message) -> Message:
        """Each message is looked through once; it never changes."""
        seen = self._seen.get(id(message))
        if seen is None:
            seen = self._seen[id(message)] = (message, self._fields(message))
        return seen[1]

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text


_TELLING: dict[type, tuple[str, ...]] = {}


def _telling(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that may hold a text of others: not numbers, not flags, not words of ours."""
    if kind not in _TELLING:
        ours = ("int", "float", "bool", "Literal", "Usage", "FailureReason", "ToolSpec")
        _TELLING[kind] = tuple(field.name for field in fields(kind) if not str(field.type).startswith(ours))
    return _TELLING[kind]
