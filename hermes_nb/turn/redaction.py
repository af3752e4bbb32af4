"""Keys taken out of everything that the sinks are told."""

from __future__ import annotations

import operator
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from hermes_nb.vocabulary.failures import Failure
from hermes_nb.vocabulary.growing import Growing
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall
from hermes_nb.vocabulary.texts import REDACTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hermes_nb.vocabulary.events import Phase, What

    Redact = Callable[[What, Phase], What]
    Getter = Callable[[Any], tuple[Any, ...]]

SHORTEST = 6
"""Characters; a shorter secret would stand in ordinary words."""


def redactor(secrets: Iterable[str]) -> Redact | None:
    """A function that takes these texts out of an event's thing; None when there is nothing to take out.

    What holds no secret is given back as it is, and each message is looked through once. Of a scope that starts a copy
    is given: it is still being filled in, perhaps with a key.
    """
    known = tuple(sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True))
    if not known:
        return None
    return _Redactor(known)


class _Redactor:
    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._shortest = min(map(len, secrets))
        self._seen: dict[int, tuple[Message, Message]] = {}
        self._growing, self._untouched = Growing(), True
        self._sent: tuple[Message, ...] = ()

    def __call__(self, what: What, phase: Phase) -> What:
        clean: What = self.fields(what)
        return _copy(what) if clean is what and phase == "started" else clean

    def fields(self, value: Any) -> Any:
        kind: Any = type(value)
        names, values, texts = _telling(kind)
        changes = {}
        for name, old in zip(names, values(value), strict=True):
            if old and (new := _WAYS[type(old)](self, old)) is not old:
                changes[name] = new
        if self._may_hold(texts(value)):
            changes |= {name: _WAYS[type(text)](self, text) for name, text in _texts(value)}
        return replace(value, **changes) if changes else value

    def _may_hold(self, texts: tuple[Any, ...]) -> bool:
        """Whether a secret is in any of them: looked for in all at once, for as a rule there is none."""
        try:
            joined = "\n".join(texts)
        except TypeError:  # a provider of the user's may have called itself anything
            return True
        return any(map(joined.__contains__, self._secrets))

    def items(self, value: Any) -> Any:
        if value and isinstance(value, tuple) and isinstance(value[0], Message):
            return self.messages(value)
        items = [_WAYS[type(item)](self, item) for item in value]
        return value if all(map(operator.is_, items, value)) else type(value)(items)

    def values(self, value: Any) -> Any:
        pairs = {key: _WAYS[type(item)](self, item) for key, item in value.items()}
        return value if all(map(operator.is_, pairs.values(), value.values())) else pairs

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Each chat tells the conversation so far, at its start and at its end; what is new of it is looked through."""
        goes_on, new = self._growing.look(messages)
        found = tuple(map(self.message, new))
        self._untouched = (self._untouched or not goes_on) and all(map(operator.is_, found, new))
        self._sent = messages if self._untouched else (*(self._sent if goes_on else ()), *found)
        return self._sent

    def message(self, message: Message) -> Message:
        """Each message is looked through once; it never changes."""
        seen = self._seen.get(id(message))
        if seen is None:
            seen = self._seen[id(message)] = (message, self.fields(message))
        return seen[1]

    def text(self, text: str) -> str:
        if len(text) < self._shortest:
            return text
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, REDACTED)
        return text

    def other(self, value: Any) -> Any:
        return value


class _Ways(dict[type[Any], "Callable[[_Redactor, Any], Any]"]):
    """How the values of each type are looked through."""

    def __missing__(self, kind: type[Any]) -> Callable[[_Redactor, Any], Any]:
        """As those of the type that this one is made of."""
        return next((way for known, way in self.items() if issubclass(kind, known)), _Redactor.other)


_WAYS = _Ways(
    {
        str: _Redactor.text,
        Message: _Redactor.message,
        tuple: _Redactor.items,
        list: _Redactor.items,
        dict: _Redactor.values,
        Reply: _Redactor.fields,
        ToolCall: _Redactor.fields,
        Failure: _Redactor.fields,
        **dict.fromkeys((bool, int, float, type(None)), _Redactor.other),
    }
)


@cache
def _telling(kind: type) -> tuple[list[str], Getter, Getter]:
    """The fields of a dataclass that may hold a text of others (no numbers, flags, words of ours).

    Names and values of those that are no plain texts, and the texts.
    """
    ours = ("int", "float", "bool", "Literal", "Usage", "FailureReason", "ToolSpec")
    names = [field.name for field in fields(kind) if field.type != "str" and not str(field.type).startswith(ours)]
    return names, _getter(names), _getter([field.name for field in fields(kind) if field.type == "str"])


def _texts(value: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name)) for field in fields(value) if field.type == "str"]


@cache
def _all(kind: type) -> Getter:
    return _getter([field.name for field in fields(kind)])


def _copy(scope: What) -> What:
    """The scope as it is now; `copy.copy` takes four times as long."""
    kind: Any = type(scope)
    return kind(*_all(kind)(scope))  # type: ignore[no-any-return]


def _getter(names: Sequence[str]) -> Getter:
    """What reads these attributes: as a tuple also where there is one or none."""
    if not names:
        return lambda _: ()
    read = operator.attrgetter(*names)
    return read if len(names) > 1 else lambda value: (read(value),)
