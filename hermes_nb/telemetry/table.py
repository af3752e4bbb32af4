"""How the fields of a dataclass become attributes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Attributes: TypeAlias = dict[str, Any]
More: TypeAlias = "Callable[[Any, Attributes], None]"


def _nothing(what: Any, out: Attributes) -> None:
    """Nothing more to add."""


class Table:
    """Reads fields of a dataclass into attributes; what is None or empty is left out.

    Args:
        columns: Attribute names by field name.
        doubles: The fields whose values are finite floating-point numbers; others are left out.
        fixed: Attributes that are always the same.
        more: Adds what needs more than a look at a field.
    """

    __slots__ = ("_doubles", "_fixed", "_get", "_keys", "_more")

    def __init__(
        self,
        columns: Mapping[str, str],
        *,
        doubles: tuple[str, ...] = (),
        fixed: Mapping[str, Any] | None = None,
        more: More = _nothing,
    ) -> None:
        self._get = attrgetter("kind", *columns)  # with two names or more it gives a tuple
        self._keys = tuple(columns.values())
        self._doubles = tuple(columns[name] for name in doubles)
        self._fixed = dict(fixed or {})
        self._more = more

    def read(self, what: Any, out: Attributes) -> None:
        """Add the attributes of `what` to `out`."""
        out.update(self._fixed)
        for key, value in zip(self._keys, self._get(what)[1:], strict=True):
            if value or (value is not None and value != ""):
                out[key] = value
        for key in self._doubles:
            if key in out and math.isfinite(number := float(out.pop(key))):
                out[key] = number
        self._more(what, out)


@dataclass(frozen=True, slots=True)
class Row:
    """How one kind of scope is told.

    Attributes:
        start: The attributes known at the start.
        end: The attributes known at the end.
        viewer_kind: `openinference.span.kind`.
        interrupted: An attribute and its value, for a scope that an interrupt left before it had an outcome.
        viewer: Adds what viewers of OpenInference read.
    """

    start: Table
    end: Table
    viewer_kind: str = "CHAIN"
    interrupted: tuple[str, Any] | None = None
    viewer: More = _nothing
