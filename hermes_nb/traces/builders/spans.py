"""The frames `spans` and `spans_attributes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.traces import forest
from hermes_nb.traces.columns import DURATION, TEXT
from hermes_nb.traces.jsons import dumps
from hermes_nb.traces.names import SPAN_TYPES
from hermes_nb.traces.values import as_float

if TYPE_CHECKING:
    from hermes_nb.traces.analysis import Analysis

_TAKEN_OVER = (
    "run_id", "trace_id", "span_id", "parent_span_id", "name", "kind", "status", "status_message", "service_name",
    "scope_name", "n_events", "n_links", "dropped_attributes", "dropped_events", "start_time", "end_time",
)  # fmt: skip


def spans(analysis: Analysis, *, content: bool = False) -> dict[str, Any]:
    """Every span."""
    columns: dict[str, Any] = {name: analysis.spans[name] for name in _TAKEN_OVER}
    inherited = ("conversation_id", "turn_id", "agent_name", "iteration")
    columns |= {name: getattr(analysis, name) for name in inherited}
    duration = np.maximum(analysis.end - analysis.start, 0)
    return columns | {
        "span_type": pa.DictionaryArray.from_arrays(pa.array(analysis.types), pa.array(SPAN_TYPES, TEXT)),
        "error_type": analysis.spans["own_error_type"],
        "duration": pa.array(duration).cast(DURATION),
        "self_time": pa.array(duration - _in_children(analysis)).cast(DURATION),
        "depth": pa.array(forest.depths(analysis.parents)),
        "is_running": pa.array(~analysis.ended),
        "missing_parent": pa.array((analysis.parents < 0) & analysis.spans["parent_span_id"].is_valid().to_numpy()),
        "attributes_json": _attributes_json(analysis, content=content),
    }


def _in_children(analysis: Analysis) -> forest.Rows:
    """For each span, the time that its children cover of it."""
    parents = analysis.parents
    above = np.maximum(parents, 0)
    start = np.maximum(analysis.start, analysis.start[above])
    end = np.minimum(analysis.end, analysis.end[above])
    return forest.covered(parents, start, end, len(parents))


def _attributes_json(analysis: Analysis, *, content: bool) -> Any:
    how, said = analysis.spans["attributes_json"], analysis.spans["content_json"]
    if not content or said.null_count == len(said):
        return how
    head, tail = pc.utf8_slice_codeunits(how, 0, -1), pc.utf8_slice_codeunits(said, 1)
    return pc.coalesce(pc.binary_join_element_wise(head, tail, pa.scalar(",", TEXT)), how, said)


def attributes(analysis: Analysis) -> dict[str, Any]:
    """Every attribute of every span, what was said left out."""
    rows: list[int] = []
    keys: list[str] = []
    values: list[Any] = []
    for row, said in enumerate(analysis.attributes(np.arange(len(analysis)))):
        rows.extend([row] * len(said))
        keys.extend(said)
        values.extend(said.values())
    place = np.array(rows, np.int64)
    return {
        "trace_id": analysis.column("trace_id", place),
        "span_id": analysis.column("span_id", place),
        "key": keys,
        "type": [_TYPES.get(type(value), "number") for value in values],
        "value_str": [value if isinstance(value, str) else dumps(value) for value in values],
        "value_num": [as_float(value) if isinstance(value, bool | int | float) else None for value in values],
    }


_TYPES = {str: "string", bool: "boolean", list: "array", dict: "object"}
