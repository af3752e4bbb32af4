"""Events and messages as JSON, and back.

Fields that have their defaults are left out. A long text stands once in the file and is named by its digest wherever
it occurs, `{"$text": digest}`: the result of a tool is in its event, in its message and in the next request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import Failure, FailureReason
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, ToolSpec, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 1024
"""Characters from which a text is kept apart."""

Texts = dict[str, str]
"""Long texts by their digests."""

KINDS: dict[str, type[Any]] = {cls.kind: cls for cls in get_args(events.What)}


# ------------------------------------------------------------------------------------------- encoding


class Shape(NamedTuple):
    """The fields of a dataclass."""

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    values: Callable[[Any], tuple[Any, ...]]


def _shape(cls: type[Any]) -> Shape:
    names = tuple(f.name for f in fields(cls))
    defaults = tuple(f.default if f.default_factory is MISSING else f.default_factory() for f in fields(cls))
    get = attrgetter(*names)
    return Shape(names, defaults, get if len(names) > 1 else lambda value: (get(value),))


SHAPES = {cls: _shape(cls) for cls in (*KINDS.values(), Message, Reply, ToolCall, ToolSpec, Usage, Failure)}
"""The fields of the vocabulary, with their defaults; a field without one has a mark of its own there."""


class Encoder:
    """Turns values into what JSON can hold, and collects the long texts on the way.

    Attributes:
        texts: Long texts seen and not yet taken, by digest.
    """

    def __init__(self) -> None:
        self.texts: Texts = {}
        self._digests: dict[str, str] = {}

    def differences(
        self, what: Any, before: tuple[Any, ...] | None = None, without: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The fields that are not what they were `before` (all values in order), or by default."""
        names, defaults, values = SHAPES[type(what)]
        return {
            name: value if (cls := type(value)) in _PLAIN or (cls is str and len(value) < LONG) else self.plain(value)
            for name, value, old in zip(names, values(what), defaults if before is None else before, strict=True)
            if value is not old and name not in without
        }

    def plain(self, value: Any) -> Any:
        """Dicts, lists, texts and numbers; what else there is, is left to `dumps`."""
        cls = type(value)
        if cls is str:
            return value if len(value) < LONG else self.keep(value)
        if cls in _PLAIN:
            return value
        if cls in SHAPES:
            return self.differences(value)
        if isinstance(value, tuple | list):
            return [self.plain(item) for item in value]
        if isinstance(value, Mapping):
            return {str(key): self.plain(item) for key, item in value.items()}
        return value

    def keep(self, text: str) -> dict[str, str]:
        """Name a text by its digest."""
        digest = self._digests.get(text)
        if digest is None:
            digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            self._digests[text] = digest
            self.texts[digest] = text
        return {"$text": digest}


_PLAIN = frozenset({int, float, bool, type(None)})


def dumps(value: Any) -> str:
    """Strict JSON of anything; what JSON cannot hold becomes a text."""
    from pydantic_core import to_json  # noqa: PLC0415  its import takes longer than all of ours

    try:
        return to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=repr).decode()
    except Exception:  # noqa: BLE001  lone surrogates, circles, depths, and objects that break the encoder
        return json.dumps(_bearable(value))


def _bearable(value: Any, depth: int = 0) -> Any:
    """What JSON can hold, with texts in the places of what it cannot."""
    if depth > _DEEP:
        return f"<{type(value).__name__}, too deep to keep>"
    if isinstance(value, dict):
        return {str(key): _bearable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_bearable(item, depth + 1) for item in value]
    if isinstance(value, str):
        return value
    from pydantic_core import to_jsonable_python  # noqa: PLC0415  its import takes longer than all of ours

    try:
        return to_jsonable_python(value, inf_nan_mode="strings", bytes_mode="base64", fallback=repr)
    except Exception:  # noqa: BLE001  the rest of the event is to be kept
        return f"<{type(value).__name__} that JSON cannot hold>"


_DEEP = 100


# ------------------------------------------------------------------------------------------- decoding


def loads(text: str, texts: Callable[[str], str | None]) -> Any:
    """The value of a JSON text, with the long texts back in their places."""

    def put_back(value: dict[str, Any]) -> Any:
        if len(value) == 1 and isinstance(digest := value.get("$text"), str):
            found = texts(digest)
            return value if found is None else found
        return value

    return json.loads(text, object_hook=put_back if "$text" in text else None)


def build(cls: type[Any], data: Mapping[str, Any]) -> Any:
    """A dataclass from its fields; fields that this version does not know are left out."""
    known = SHAPES[cls].names
    return cls(**{name: revive(cls, name, value) for name, value in data.items() if name in known})


def revive(cls: type[Any], name: str, value: Any) -> Any:
    """The value of one field, as the dataclass has it."""
    decode = _DECODERS.get((cls, name))
    return value if decode is None or value is None else decode(value)


def message(data: Mapping[str, Any]) -> Message:
    """A message from its fields."""
    found: Message = build(Message, data)
    return found


def _content(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_REASONS = {reason.value: reason for reason in FailureReason}


def _reason(value: str) -> FailureReason:
    """The reason; one that this version does not know is a bad request."""
    return _REASONS.get(value, FailureReason.BAD_REQUEST)


def _tools(value: Any) -> tuple[ToolSpec, ...]:
    return tuple(build(ToolSpec, item) for item in (json.loads(value) if isinstance(value, str) else value))


_DECODERS: dict[tuple[type[Any], str], Callable[[Any], Any]] = {
    (Message, "content"): _content,
    (Message, "tool_calls"): lambda value: tuple(build(ToolCall, item) for item in value),
    (Reply, "message"): message,
    (Reply, "usage"): lambda value: build(Usage, value),
    (Reply, "others"): lambda value: tuple((provider, model, build(Usage, usage)) for provider, model, usage in value),
    (events.Turn, "prompt"): _content,
    (events.Turn, "usage"): lambda value: build(Usage, value),
    (events.Chat, "messages"): lambda value: tuple(map(message, value)),
    (events.Chat, "tools"): _tools,
    (events.Chat, "reply"): lambda value: build(Reply, value),
    (events.Attempt, "refused"): lambda value: build(Reply, value),
    (events.Attempt, "failure"): lambda value: build(Failure, value),
    (Failure, "reason"): _reason,
    (Failure, "partial"): message,
    (events.Tool, "result"): _content,
    (events.MessageAdded, "message"): message,
    (events.HistoryReplaced, "messages"): lambda value: tuple(map(message, value)),
}
