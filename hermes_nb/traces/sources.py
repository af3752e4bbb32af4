"""Where the spans of one turn come from: the memory of this process, or tables that were loaded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from hermes_nb.traces import sdk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hermes_nb.telemetry.store import LiveStore
    from hermes_nb.traces.rows import SpanRow
    from hermes_nb.traces.table import Tables


class TurnSource(Protocol):
    """The spans of one turn."""

    def span_rows(self) -> Iterable[SpanRow]:
        """The spans in the order of their start."""

    def tables(self, *, content: bool) -> Tables:
        """Everything, as tables; with what was said, if that is wanted and can be had."""

    def notes(self) -> list[str]:
        """Why spans are missing, in sentences."""

    def now(self) -> int | None:
        """Until when open spans last, in nanoseconds; None for the last moment known of them."""


class Live:
    """The spans of a turn of this process, open ones included; a new look each time."""

    def __init__(self, store: LiveStore, turn_id: str) -> None:
        self._store = store
        self._turn_id = turn_id

    def span_rows(self) -> Iterable[SpanRow]:
        """The spans in the order of their start; needs no pyarrow."""
        return sdk.rows([item.span for item in self._store.spans(self._turn_id)])

    def tables(self, *, content: bool) -> Tables:  # noqa: ARG002  it is at hand
        """Everything, with all that was said."""
        from hermes_nb.traces.table import Builder  # noqa: PLC0415  loads pyarrow

        builder = Builder()
        sdk.add_kept(builder, self._store.spans(self._turn_id))
        return builder.build()

    def notes(self) -> list[str]:
        """Why spans are missing, in sentences."""
        return self._store.notes

    def now(self) -> int:
        """This moment."""
        return time.time_ns()


class Stored:
    """The spans of a turn, from tables.

    Args:
        tables: What was loaded.
        again: Loads it again with what was said, if that was left out.
    """

    def __init__(self, tables: Tables, again: Callable[[], Tables] | None) -> None:
        self._tables = tables
        self._again = again

    def span_rows(self) -> Iterable[SpanRow]:
        """The spans in the order of their start."""
        return self._tables.span_rows()

    def tables(self, *, content: bool) -> Tables:
        """Everything; with what was said, if it can be had."""
        return self._again() if content and self._again is not None else self._tables

    def notes(self) -> list[str]:
        """Nothing: the report of what was loaded has them."""
        return []

    def now(self) -> None:
        """Not known: it is read from the spans."""
        return
