"""Spans in order, with what their tree tells: the common ground on which every frame is built."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.traces import forest
from hermes_nb.traces.columns import DURATION, TEXT
from hermes_nb.traces.jsons import loads_mapping
from hermes_nb.traces.names import SPAN_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hermes_nb.traces.forest import Rows
    from hermes_nb.traces.table import Tables

T = TypeVar("T")


class Analysis:
    """The spans of `tables`, sorted by start (then as they came), and their tree.

    Args:
        tables: What was read.
        now: Nanoseconds since the epoch; until then, open spans last. None takes the last moment known of each trace.
    """

    def __init__(self, tables: Tables, now: int | None = None) -> None:
        self.tables = tables
        self.spans = _sorted(tables.spans)
        self.now = now
        self._whole: dict[str, pa.Array] = {}
        self._made: dict[Any, Any] = {}
        self.built: dict[tuple[str, bool], pa.Table] = {}

    def __len__(self) -> int:
        return len(self.spans)

    # ------------------------------------------------------------------------------------------ the tree

    @cached_property
    def parents(self) -> Rows:
        """The row of each span's parent, -1 for none."""
        return forest.find_parents(*(self.spans[name] for name in ("trace_id", "span_id", "parent_span_id")))

    @cached_property
    def types(self) -> NDArray[np.int8]:
        """The type of each span, as its place in `SPAN_TYPES`."""
        places = pc.index_in(self._column("own_type"), pa.array(SPAN_TYPES, TEXT))
        codes: Rows = pc.fill_null(places, SPAN_TYPES.index("other")).to_numpy(zero_copy_only=False)
        return codes.astype(np.int8)

    def are(self, *types: str) -> NDArray[np.bool_]:
        """Which spans are of some types."""
        return np.isin(self.types, [SPAN_TYPES.index(each) for each in types])

    def of(self, *types: str) -> Rows:
        """The rows of spans of some types."""
        return np.flatnonzero(self.are(*types))

    def above(self, marked: NDArray[np.bool_]) -> Rows:
        """For each span the row of the nearest marked one strictly above it, -1 for none."""
        found = forest.nearest(self.parents, marked)
        return np.where(self.parents >= 0, found[self.parents], -1) if len(self) else found

    # ------------------------------------------------------------------------------------------ what is inherited

    @cached_property
    def turn_id(self) -> pa.Array:
        """The turn that each span belongs to; another tool's agent is named by its span."""
        own = self._column("own_turn_id")
        is_turn = pa.array(self.are("turn"))
        own = pc.if_else(pc.and_(pc.is_null(own), is_turn), self._column("span_id"), own)
        return self._inherited(own)

    @cached_property
    def conversation_id(self) -> pa.Array:
        """The conversation: said by the span, by one above it, or by the first one of its trace that says so."""
        ids = self._inherited(self._column("own_conversation_id"))
        traces = forest.codes(self.spans["trace_id"])
        known = np.flatnonzero(ids.is_valid().to_numpy(zero_copy_only=False))
        first = np.full(traces.max(initial=-1) + 2, -1, np.int64)
        first[traces[known[::-1]]] = known[::-1]
        return pc.coalesce(ids, take(ids, np.where(traces >= 0, first[traces], -1)))

    @cached_property
    def agent_name(self) -> pa.Array:
        """The agent, said by the span or by one above it."""
        return self._inherited(self._column("own_agent_name"))

    @cached_property
    def iteration(self) -> pa.Array:
        """The iteration, said by the span or by one above it in the same turn."""
        own = pc.if_else(pa.array(self.are("turn")), pa.scalar(None, pa.int64()), self._column("own_iteration"))
        marked = own.is_valid().to_numpy(zero_copy_only=False) | self.are("turn")
        return take(own, forest.nearest(self.parents, marked))

    def _inherited(self, own: pa.Array) -> pa.Array:
        return take(own, forest.nearest(self.parents, own.is_valid().to_numpy(zero_copy_only=False)))

    # ------------------------------------------------------------------------------------------ turns

    def turn(self, turn_id: str) -> Tables:
        """The tables of one turn, with everything below it.

        Raises:
            ValueError: There is no such turn.
        """
        own = pc.fill_null(pc.equal(self.turn_id, turn_id), False).to_numpy(zero_copy_only=False)
        if not own.any():
            msg = f"there is no turn {turn_id!r}; see turns_df()"
            raise ValueError(msg)
        inside = np.flatnonzero(forest.nearest(self.parents, own) >= 0)
        spans, turns = self.spans.take(pa.array(inside)), pc.unique(self.turn_id.take(pa.array(inside)))
        tables = {"spans": spans, "metrics": self.tables.metrics.slice(0, 0)}
        for kind in ("events", "links"):
            table = getattr(self.tables, kind)
            rows = forest.find(table["trace_id"], table["span_id"], spans["trace_id"], spans["span_id"])
            tables[kind] = table.filter(pa.array(rows >= 0))
        tables["messages"] = self.tables.messages.filter(pc.is_in(self.tables.messages["turn_id"], turns))
        return replace(self.tables, **tables)

    def notes(self) -> list[str]:
        """What is worth knowing of the spans, in sentences."""
        has_parent = self._column("parent_span_id").is_valid().to_numpy(zero_copy_only=False)
        known = pc.unique(self.turn_id.filter(pa.array(self.are("turn")))) if len(self) else pa.array([], TEXT)
        rebuilt = set(pc.unique(self.turn_id).to_pylist()) - set(known.to_pylist()) - {None}
        found = {
            "spans had not ended": int((~self.ended).sum()),
            "spans have a parent that is not there": int((has_parent & (self.parents < 0)).sum()),
            "turns were put together without their own span": len(rebuilt),
            "attributes were dropped by a limit of the exporter": pc.sum(self.spans["dropped_attributes"]).as_py() or 0,
            "events were dropped by a limit of the exporter": pc.sum(self.spans["dropped_events"]).as_py() or 0,
        }
        return [f"{number:,} {note}" for note, number in found.items() if number]

    # ------------------------------------------------------------------------------------------ times

    @cached_property
    def start(self) -> Rows:
        """Starts, in nanoseconds."""
        return self._nanoseconds("start_time")

    @cached_property
    def end(self) -> Rows:
        """Ends, in nanoseconds; of open spans, the last moment known."""
        ended = self.ended
        if ended.all():
            return self._nanoseconds("end_time")
        if self.now is not None:
            last = np.full(len(self), self.now)
        else:
            traces = forest.codes(self.spans["trace_id"])
            latest = np.zeros(traces.max(initial=-1) + 2, np.int64)
            np.maximum.at(latest, traces, np.maximum(self.start, self._nanoseconds("end_time")))
            last = latest[traces]
        return np.where(ended, self._nanoseconds("end_time"), np.maximum(last, self.start))

    @cached_property
    def ended(self) -> NDArray[np.bool_]:
        """Whether each span has ended; one without any times has."""
        open_ = pc.and_(self._column("start_time").is_valid(), pc.is_null(self._column("end_time")))
        ended: NDArray[np.bool_] = ~open_.to_numpy(zero_copy_only=False)
        return ended

    def _nanoseconds(self, name: str) -> Rows:
        times: Rows = pc.fill_null(self._column(name).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        return times

    # ------------------------------------------------------------------------------------------ columns of some rows

    def keys(self, rows: Rows) -> dict[str, Any]:
        """The key columns that every frame has."""
        columns = {name: take(self._column(name), rows) for name in ("run_id", "trace_id", "span_id")}
        inherited = ("turn_id", "conversation_id", "iteration")
        return columns | {name: take(getattr(self, name), rows) for name in inherited}

    def times(self, rows: Rows) -> dict[str, Any]:
        """Start, end, duration, and whether it is still open."""
        return {
            "start_time": take(self._column("start_time"), rows),
            "end_time": take(self._column("end_time"), rows),
            "duration": pa.array(np.maximum(self.end[rows] - self.start[rows], 0)).cast(DURATION),
            "is_running": pa.array(~self.ended[rows]),
        }

    def column(self, name: str, rows: Rows) -> pa.Array:
        """A column of the table of spans."""
        return take(self._column(name), rows)

    def attributes(self, rows: Rows, *, content: bool = False) -> list[dict[str, Any]]:
        """The attributes of some spans: how it went, or with `content` what was said."""
        column = self.spans["content_json" if content else "attributes_json"]
        return list(map(loads_mapping, column.take(pa.array(rows)).to_pylist()))

    def once(self, make: Callable[[Analysis], T]) -> T:
        """What a function makes of this analysis, made once: several frames need it."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def _column(self, name: str) -> pa.Array:
        if name not in self._whole:
            column = self.spans[name]
            self._whole[name] = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return self._whole[name]


def take(values: pa.Array, rows: Rows) -> pa.Array:
    """Some values; missing where the row is -1."""
    return values.take(pa.array(rows, mask=rows < 0))


def _sorted(spans: pa.Table) -> pa.Table:
    """The spans by start."""
    start = pc.fill_null(spans["start_time"].cast(pa.int64()), 0).to_numpy()
    if len(start) < 2 or (start[1:] >= start[:-1]).all():  # noqa: PLR2004  nothing to sort
        return spans
    return spans.take(pa.array(np.argsort(start, kind="stable")))
