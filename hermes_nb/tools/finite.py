"""Values that come to an end: iterators, wherever in a value they stand, are read up to a bound."""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Any

ITEMS = 1_000_000
"""What a value may hold, with all that its iterators give: more than can be read in any number of pieces."""

TEXT = 100_000_000
"""Characters of all texts among that."""

MORE = "…"
"""Stands for what was not read."""

_LEAVES = frozenset({str, bytes, bool, int, float, type(None)})
_SEQUENCES = (list, tuple, set, frozenset, deque)


class Reading:
    """One reading of a value, whose iterators share the bound."""

    def __init__(self) -> None:
        self._items, self._text = ITEMS, TEXT

    def takes(self, value: object) -> bool:
        """Count something that the value holds; False when it is more than may be held."""
        self._items -= 1
        if isinstance(value, str | bytes):
            self._text -= len(value)
        return min(self._items, self._text) >= 0

    def of(self, value: Any) -> Any:
        """The value, with iterators that have an end; itself where it holds none."""
        if type(value) in _LEAVES or isinstance(value, type):
            return value
        if isinstance(value, Iterator):
            return iter(list(self._taken(value)))
        if isinstance(value, dict):
            return {**value, **changed} if (changed := self._changed(value)) else value
        if isinstance(value, _SEQUENCES):
            changed = self._changed(items := dict(enumerate(value)))
            return [*(items | changed).values()] if changed else value
        if hasattr(value, "__pydantic_serializer__") and hasattr(value, "model_copy"):
            changed = self._changed(vars(value) | (value.model_extra or {}))
            return value.model_copy(update=changed) if changed else value
        return self._of_dataclass(value) if dataclasses.is_dataclass(value) else value

    def _of_dataclass(self, value: Any) -> Any:
        names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
        if changed := self._changed({name: getattr(value, name) for name in names}):
            value = copy.copy(value)
            for name, part in changed.items():
                object.__setattr__(value, name, part)  # it may be frozen
        return value

    def _changed(self, parts: dict[Any, Any]) -> dict[Any, Any]:
        """The parts that hold iterators, with an end."""
        changed = {}
        for key, part in parts.items():
            self.takes(part)
            if (new := self.of(part)) is not part:
                changed[key] = new
        return changed

    def _taken(self, values: Iterator[object]) -> Iterator[object]:
        for value in values:
            if not self.takes(value):
                yield MORE
                return
            yield self.of(value)
