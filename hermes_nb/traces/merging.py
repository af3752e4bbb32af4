"""Tables put together and taken apart: concatenated, cut to some traces, and each span once."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.traces import names
from hermes_nb.traces.columns import TEXT
from hermes_nb.traces.forest import codes
from hermes_nb.traces.table import Builder, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from hermes_nb.traces.readers.selection import Selection

_KINDS = ("spans", "events", "links", "messages", "metrics")


def concat(tables: Sequence[Tables]) -> Tables:
    """All rows of some tables."""
    if not tables:
        return Builder().build()
    joined = {kind: pa.concat_tables([getattr(each, kind) for each in tables]) for kind in _KINDS}
    return Tables(**joined, content=all(each.content for each in tables))


def _filter(tables: Tables, keep: Callable[[pa.Table], pa.Array], kinds: Iterable[str]) -> Tables:
    kept = {kind: getattr(tables, kind).filter(keep(getattr(tables, kind))) for kind in kinds}
    return replace(tables, **kept)


def only_traces(tables: Tables, trace_ids: Sequence[str], turn_ids: Sequence[str]) -> Tables:
    """What belongs to some traces, and the messages of their turns; metrics belong to none."""
    traces, turns = pa.array(trace_ids, TEXT), pa.array(turn_ids, TEXT)
    cut = _filter(tables, lambda table: pc.is_in(table["trace_id"], traces), ("spans", "events", "links"))
    cut = _filter(cut, lambda table: pc.is_in(table["turn_id"], turns), ("messages",))
    return replace(cut, metrics=tables.metrics.slice(0, 0))


def once(tables: Tables) -> tuple[Tables, int]:
    """Each span once: of several records of one span the last that has ended, and no stand-in of one that is there.

    Returns:
        The tables, and how many records were dropped.
    """
    spans = tables.spans
    ids = [codes(spans[name]) for name in ("trace_id", "span_id")]
    known = ids[1] >= 0
    key = ids[0] * (ids[1].max(initial=0) + 2) + ids[1]
    if len(np.unique(key[known])) == np.count_nonzero(known):
        return tables, 0
    keep = ~known | _is_best(spans, key)
    dropped = len(keep) - int(np.count_nonzero(keep))
    tables = replace(tables, spans=spans.filter(pa.array(keep)))
    return _each_once(tables), dropped


def _is_best(spans: pa.Table, key: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which record of each span is kept: an ended one, no stand-in, the last of these."""
    ended = spans["end_time"].is_valid().to_numpy()
    pending = pc.fill_null(pc.match_substring(spans["attributes_json"], f'"{names.PENDING}":true'), False).to_numpy()
    started = codes(spans["name"]), pc.fill_null(spans["start_time"].cast(pa.int64()), 0).to_numpy()
    order = np.lexsort((np.arange(len(key)), ended, ~pending, *started, key))
    same = (key[order][1:] == key[order][:-1]) & (started[0][order][1:] == started[0][order][:-1])
    same &= started[1][order][1:] == started[1][order][:-1]
    best = np.empty(len(key), bool)
    best[order] = np.r_[~same, True]
    return best


def _each_once(tables: Tables) -> Tables:
    """Events and links of spans that were recorded twice, once."""
    events, links = tables.events, tables.links
    kept = {kind: table.take(pa.array(_firsts(table))) for kind, table in (("events", events), ("links", links))}
    return replace(tables, **kept)


def _firsts(table: pa.Table) -> NDArray[np.int64]:
    """The first of rows that are equal in every column."""
    columns = [codes(column.cast(TEXT) if column.type == TEXT else column) for column in table.columns]
    if not len(table):
        return np.zeros(0, np.int64)
    marks = reduce(lambda key, column: np.unique(key * (column.max() + 2) + column, return_inverse=True)[1], columns)
    return np.sort(np.unique(marks, return_index=True)[1])


def select(tables: Tables, selection: Selection) -> tuple[Tables, int]:
    """The traces that are asked for.

    Returns:
        The tables, and how many traces were left out.
    """
    if selection.is_everything:
        return tables, 0
    spans = tables.spans
    inside = pa.array(np.ones(len(spans), bool))
    if selection.conversation_id is not None:
        inside = pc.fill_null(pc.equal(spans["own_conversation_id"], selection.conversation_id), False)
    wanted = pc.unique(spans["trace_id"].filter(inside))
    starts = spans.filter(pc.is_in(spans["trace_id"], wanted)).group_by("trace_id").aggregate([("start_time", "min")])
    found = list(
        zip(starts["trace_id"].to_pylist(), starts["start_time_min"].cast(pa.int64()).to_pylist(), strict=True)
    )
    chosen = [trace for trace, _ in selection.newest(found, lambda each: each[1]) if trace is not None]
    belonging = spans.filter(pc.is_in(spans["trace_id"], pa.array(chosen, TEXT)))
    turns = pc.unique(belonging["own_turn_id"]).drop_null().to_pylist() + belonging["span_id"].to_pylist()
    return only_traces(tables, chosen, turns), len(pc.unique(spans["trace_id"]).drop_null()) - len(chosen)
