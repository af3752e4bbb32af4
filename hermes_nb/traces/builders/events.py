"""The frames `events`, `budget` and `metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.telemetry import semconv as sc
from hermes_nb.traces import forest
from hermes_nb.traces.analysis import take
from hermes_nb.traces.builders.calls import read
from hermes_nb.traces.jsons import loads_mapping
from hermes_nb.traces.values import as_int, as_word, pick

if TYPE_CHECKING:
    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.builders.calls import Fields
    from hermes_nb.traces.forest import Rows

_PREFIX = "hermes.budget."
STEER = "hermes.steer.applied"
"""The event of a steer that was delivered."""

BUDGET: Fields = {
    "seq": ((sc.HERMES_BUDGET_SEQUENCE,), as_int),
    "delta": ((sc.HERMES_BUDGET_DELTA,), as_int),
    "limit": ((sc.HERMES_BUDGET_LIMIT,), as_int),
    "used": ((sc.HERMES_BUDGET_USED,), as_int),
    "remaining": ((sc.HERMES_BUDGET_REMAINING,), as_int),
    "reason": ((sc.HERMES_BUDGET_REASON,), as_word),
    "actor": ((sc.HERMES_BUDGET_ACTOR,), as_word),
}


def events(analysis: Analysis) -> dict[str, Any]:
    """Events of spans and log records, by time."""
    return _located(analysis, analysis.tables.events)


def budget(analysis: Analysis) -> dict[str, Any]:
    """Changes of iteration budgets, by time."""
    found = analysis.once(_told_once)
    found = found.filter(pc.fill_null(pc.starts_with(found["name"], _PREFIX), False))
    columns = _located(analysis, found)
    columns |= read(list(map(loads_mapping, columns["attributes_json"].to_pylist())), BUDGET)
    return columns | {"action": pc.utf8_slice_codeunits(columns["name"], len(_PREFIX))}


def links(analysis: Analysis) -> dict[str, Any]:
    """Links between spans."""
    table = analysis.tables.links
    columns = {name: table[name] for name in table.column_names} | _keys(analysis, _spans_of(analysis, table))
    said = map(loads_mapping, columns["attributes_json"].to_pylist())
    return columns | {"type": pick(list(said), (sc.HERMES_LINK_TYPE,), as_word)}


def metrics(analysis: Analysis) -> dict[str, Any]:
    """Data points."""
    table = analysis.tables.metrics
    columns = {name: table[name] for name in table.column_names}
    return columns | {"count": columns["observations"], "sum": columns["total"]}


def marked(analysis: Analysis, name: str) -> Rows:
    """The rows of the spans that have an event of this name, once for each event."""
    table = analysis.once(_told_once)
    rows = _spans_of(analysis, table.filter(pc.fill_null(pc.equal(table["name"], name), False)))
    return rows[rows >= 0]


def _told_once(analysis: Analysis) -> pa.Table:
    """The events, without log records that say again what stands on a span."""
    table = analysis.tables.events
    is_log = pc.equal(table["source"], "log").to_numpy()
    if not is_log.any():
        return table
    parts = [forest.codes(table[name]) for name in ("trace_id", "span_id", "name", "time")]
    key = np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)[1].ravel()
    return table.filter(pa.array(~(is_log & np.isin(key, key[~is_log]))))


def _spans_of(analysis: Analysis, table: pa.Table) -> Rows:
    return forest.find(table["trace_id"], table["span_id"], analysis.spans["trace_id"], analysis.spans["span_id"])


def _located(analysis: Analysis, table: pa.Table) -> dict[str, Any]:
    """The events by time, with the keys of their spans; those of a log record that names no span stay missing."""
    time = pc.fill_null(table["time"].cast(pa.int64()), 0).to_numpy()
    table = table.take(pa.array(np.argsort(time, kind="stable"))).combine_chunks()
    rows = _spans_of(analysis, table)
    columns = {name: table[name] for name in table.column_names}
    run_id = columns["run_id"].combine_chunks()
    columns |= _keys(analysis, rows)
    return columns | {"run_id": pc.coalesce(run_id, columns["run_id"])}


def _keys(analysis: Analysis, rows: Rows) -> dict[str, Any]:
    """What the spans of events and links have to say of where they belong."""
    inherited = ("turn_id", "conversation_id", "iteration")
    return {name: take(getattr(analysis, name), rows) for name in inherited} | {
        "run_id": analysis.column("run_id", rows)
    }
