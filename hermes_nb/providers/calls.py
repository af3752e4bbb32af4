"""The tool calls of one reply, put together from what servers really send.

Knows the odd forms: an index that is missing, shifted or used twice, ids that are empty, missing or reused, names
repeated or in pieces, arguments as objects. Arguments are kept as they came: nothing is repaired.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.messages import ToolCall
from hermes_nb.vocabulary.texts import json_object, mended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.providers.sse import Json


class _Slot:
    """One call under way."""

    __slots__ = ("extra", "id", "name", "parts")

    def __init__(self, identity: str) -> None:
        self.id = identity
        self.name = ""
        self.parts: list[str] = []
        self.extra: dict[str, Json] = {}

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def complete(self) -> bool:
        """The arguments are a whole JSON object."""
        return bool(self.parts) and self.parts[-1].rstrip().endswith("}") and json_object(self.text) is not None

    def differs(self, identity: str, name: str, arguments: str) -> bool:
        """Whether a delta that landed here begins another call."""
        if not (name and self.name):
            return False
        if identity and self.id and identity != self.id:
            return name != self.name or self.complete
        return bool(arguments) and self.complete

    def take(self, name: str, arguments: str) -> None:
        if name and not self.name:
            self.name = name
        elif name.startswith(self.name):  # repeated, or longer each time
            self.name = name or self.name
        elif not self.parts:  # in pieces
            self.name += name
        if not arguments:
            return
        if self.parts == ["{}"] and arguments.lstrip().startswith("{"):
            self.parts.clear()  # a placeholder before the real arguments
        self.parts.append(arguments)


class Calls:
    """The tool calls of one reply, from deltas."""

    __slots__ = ("_by_id", "_by_index", "_slots")

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_index: dict[int | str, _Slot] = {}
        self._by_id: dict[str, _Slot] = {}

    def __bool__(self) -> bool:
        return bool(self._slots)

    def stream(self, deltas: Json) -> str:
        """Take the deltas of one chunk; gives the pieces of arguments in them."""
        found = [delta for delta in (deltas if isinstance(deltas, list) else [deltas]) if isinstance(delta, dict)]
        return "".join(self._take(delta, place - len(found), len(found)) for place, delta in enumerate(found))

    def whole(self, calls: Json) -> None:
        """Take the calls of a body: each is a call of its own."""
        for delta in calls if isinstance(calls, list) else [calls]:
            if isinstance(delta, dict):
                identity, name, arguments = _parts(delta)
                self._open(identity, None).take(name, arguments)
                self._keep(self._slots[-1], delta)

    def _take(self, delta: dict[str, Json], place: int, count: int) -> str:
        index = delta.get("index")
        index = index if isinstance(index, int | str) and not isinstance(index, bool) else None
        identity, name, arguments = _parts(delta)
        slot = self._find(index, identity, name, place, count)
        if slot is not None and name and slot.complete and (slot.id, slot.text) == (identity, arguments):
            return ""  # the whole call once more
        if slot is None or slot.differs(identity, name, arguments):
            slot = self._open(identity, index)
        slot.id = slot.id or identity
        slot.take(name, arguments)
        self._keep(slot, delta)
        return arguments

    def _find(self, index: int | str | None, identity: str, name: str, place: int, count: int) -> _Slot | None:
        """The call that a delta goes on with; None when it begins one."""
        if slot := self._by_id.get(identity) if index is None else self._by_index.get(index):
            return slot
        told = (index is not None) + bool(identity) + bool(name)
        if told > 1 or not self._slots:
            return None
        if count > 1 and index is None and not identity:  # side by side in one chunk: the place tells
            return None if name else self._slots[place] if len(self._slots) >= count else self._slots[-1]
        return self._slots[-1]

    def _open(self, identity: str, index: int | str | None) -> _Slot:
        slot = _Slot(identity)
        self._slots.append(slot)
        if index is not None:
            self._by_index[index] = slot
        if identity:
            self._by_id[identity] = slot
        return slot

    def _keep(self, slot: _Slot, delta: Mapping[str, Json]) -> None:
        if content := delta.get("extra_content"):  # signed thoughts that must go back with the call
            slot.extra["extra_content"] = content

    def result(self, *, complete: bool) -> tuple[tuple[ToolCall, ...], list[dict[str, Json]]]:
        """The calls, each with a name and an id of its own; and the fields of each that must go back unchanged."""
        named = [slot for slot in self._slots if slot.name.strip()]
        taken: set[str] = set()
        calls = []
        for slot in named:
            identity = slot.id if slot.id and slot.id not in taken else f"call_{secrets.token_hex(12)}"
            taken.add(identity)
            arguments = mended(slot.text)
            calls.append(ToolCall(identity, mended(slot.name.strip()), arguments or ("{}" if complete else "")))
        return tuple(calls), [slot.extra for slot in named]


def _parts(delta: Mapping[str, Json]) -> tuple[str, str, str]:
    """Id, name and arguments of a call or of a piece of one; each may be empty."""
    function = delta.get("function")
    function = function if isinstance(function, dict) else delta
    identity, name = delta.get("id"), function.get("name")
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return str(identity) if identity else "", name if isinstance(name, str) else "", arguments or ""
