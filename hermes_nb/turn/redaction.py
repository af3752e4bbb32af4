"""Keys taken out of everything that the sinks are told."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

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
        return clean

    def _clean(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case Message():
                return self._message(value)
            case Reply() | ToolCall():
                return self._fields(value)
            case tuple() | list():
                items = [self._clean(item) for item in value]
                same = all(clean is item for clean, item in zip(items, value, strict=True))
                return value if same else type(value)(items)
            case dict():
                pairs = {key: self._clean(item) for key, item in value.items()}
                return value if all(pairs[key] is item for key, item in value.items()) else pairs
            case _:
                return value

    def _message(self, message: Message) -> Message:
        seen = self._seen.get(id(message))
        if seen is None or seen[0] is not message:
            seen = self._seen[id(message)] = (message, self._fields(message))
        return seen[1]

    def _fields(self, value: Any) -> Any:
        changes = {}
        for field in fields(value):
            old = getattr(value, field.name)
            new = self._clean(old)
            if new is not old:
                changes[field.name] = new
        return replace(value, **changes) if changes else value

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text
