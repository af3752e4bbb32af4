"""The frame `iterations`: one row per pass of the loop, also of one whose span never ended and is not in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.telemetry import semconv as sc
from hermes_nb.traces import names
from hermes_nb.traces.builders.calls import base, chat_fields, read
from hermes_nb.traces.builders.events import STEER, budget, marked
from hermes_nb.traces.builders.groups import Groups, durations
from hermes_nb.traces.columns import TIME
from hermes_nb.traces.forest import codes
from hermes_nb.traces.values import as_bool, as_int, as_word

if TYPE_CHECKING:
    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.builders.calls import Fields
    from hermes_nb.traces.forest import Rows

ITERATIONS: Fields = {
    "grace": ((sc.HERMES_ITERATION_GRACE,), as_bool),
    "outcome": ((sc.HERMES_ITERATION_OUTCOME,), as_word),
    "budget_after": ((sc.HERMES_BUDGET_REMAINING,), as_int),
}


def iterations(analysis: Analysis) -> dict[str, Any]:
    """Passes of the loop."""
    groups, spans, members = _passes(analysis)
    columns = base(analysis, np.where(spans >= 0, spans, members)) | when(groups, spans)
    columns["span_id"] = pc.coalesce(analysis.column("span_id", spans), analysis.column("parent_span_id", members))
    columns |= read(attributes(analysis, spans), ITERATIONS)
    columns["grace"] = [bool(said) for said in columns["grace"]]
    columns["error_type"] = analysis.column("own_error_type", spans)
    counted = {
        "n_chats": "chat",
        "n_attempts": "attempt",
        "n_retries": "retry",
        "n_fallbacks": "fallback",
        "n_tools": "tool",
    }
    columns |= {name: groups.number(analysis.of(kind)) for name, kind in counted.items()}
    columns["refunded"] = groups.number(analysis.of("refund"))
    columns |= {
        "model_time": durations(groups.covered(groups.requests)),
        "tool_time": durations(groups.covered(analysis.of("tool"))),
        "compression_time": durations(groups.covered(analysis.of("compression"))),
    }
    columns |= _answers(groups)
    return (
        columns | groups.usage() | _budget(analysis, columns) | {"steer_count": groups.number(marked(analysis, STEER))}
    )


def _passes(analysis: Analysis) -> tuple[Groups, Rows, Rows]:
    """The groups of spans, and for each the row of its own span (or -1) and of its first member."""
    iteration = analysis.iteration.fill_null(0).to_numpy(zero_copy_only=False)
    turn = codes(analysis.turn_id)
    inside = (turn >= 0) & (iteration > 0)
    key = turn * (iteration.max(initial=0) + 1) + iteration
    keys, first, place = np.unique(key[inside], return_index=True, return_inverse=True)
    order = np.argsort(np.flatnonzero(inside)[first], kind="stable")
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys))
    of = np.full(len(analysis), -1, np.int64)
    of[inside] = rank[place]
    groups = Groups(analysis, of, len(keys))
    return groups, groups.first(analysis.of("iteration")), groups.first(np.arange(len(analysis)))


def when(groups: Groups, spans: Rows) -> dict[str, Any]:
    """Times of the span, else from its members; without its span a pass counts as open."""
    analysis, there = groups.analysis, spans >= 0
    start = np.where(there, analysis.start[spans], groups.earliest_start())
    end = np.where(there, analysis.end[spans], groups.latest_end())
    open_ = ~there | ~analysis.ended[spans]
    return {
        "start_time": pa.array(start).cast(TIME),
        "end_time": pa.array(end, mask=open_).cast(TIME),
        "duration": durations(np.maximum(end - start, 0)),
        "is_running": pa.array(open_),
    }


def attributes(analysis: Analysis, rows: Rows) -> list[dict[str, Any]]:
    """The attributes of some spans; empty where the row is -1."""
    found = iter(analysis.attributes(rows[rows >= 0]))
    return [next(found) if row >= 0 else {} for row in rows.tolist()]


def _answers(groups: Groups) -> dict[str, list[Any]]:
    """The last chat of each pass that ended with a reply: who answered, and why the model stopped."""
    chats, said = groups.analysis.of("chat"), groups.analysis.once(chat_fields)
    answered = [
        reason is not None and purpose in (None, *names.PURPOSES)
        for reason, purpose in zip(said["finish_reason"], said["purpose"], strict=True)
    ]
    last = groups.last(chats[np.array(answered, bool)])
    places = np.searchsorted(chats, np.maximum(last, 0)).tolist()
    known = [place if row >= 0 else None for place, row in zip(places, last.tolist(), strict=True)]
    models = [named or asked for named, asked in zip(said["response_model"], said["request_model"], strict=True)]
    columns = {"provider": said["provider"], "model": models, "finish_reason": said["finish_reason"]}
    return {name: [None if place is None else values[place] for place in known] for name, values in columns.items()}


def _budget(analysis: Analysis, columns: dict[str, Any]) -> dict[str, Any]:
    """What was left before and after: by the budget's own record of the pass, else as the span says."""
    told = budget(analysis)
    before: dict[tuple[str, int], int] = {}
    after: dict[tuple[str, int], int] = {}
    rows = zip(
        told["turn_id"].to_pylist(), told["iteration"].to_pylist(), told["remaining"], told["delta"], strict=True
    )
    for turn, iteration, remaining, delta in rows:
        if iteration is not None and remaining is not None:
            before.setdefault((turn, iteration), remaining - (delta or 0))
            after[turn, iteration] = remaining
    keys = list(zip(columns["turn_id"].to_pylist(), columns["iteration"].to_pylist(), strict=True))
    known = columns["budget_after"]
    return {
        "budget_before": [before.get(key) for key in keys],
        "budget_after": [after.get(key, said) for key, said in zip(keys, known, strict=True)],
    }
