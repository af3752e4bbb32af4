"""The frame `turns`: one row per turn, sub-agents' too, also where the turn's own span is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.telemetry import semconv as sc
from hermes_nb.traces import forest, names
from hermes_nb.traces.builders.calls import base, chat_fields, read
from hermes_nb.traces.builders.events import STEER, marked
from hermes_nb.traces.builders.groups import Groups, durations, or_else
from hermes_nb.traces.builders.iterations import attributes, when
from hermes_nb.traces.builders.messages import question_and_answer
from hermes_nb.traces.values import as_bool, as_float, as_int, as_text, as_word

if TYPE_CHECKING:
    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.builders.calls import Fields
    from hermes_nb.traces.forest import Rows

TURNS: Fields = {
    "parent_turn_id": ((sc.HERMES_PARENT_TURN_ID,), as_text),
    "prev_turn_id": ((sc.HERMES_PREVIOUS_TURN_ID,), as_text),
    "replay_of": ((sc.HERMES_TURN_REPLAY_OF,), as_text),
    "replay_until": ((sc.HERMES_TURN_REPLAY_UNTIL,), as_int),
    "turn_number": ((sc.HERMES_TURN_NUMBER,), as_int),
    "model_requested": (names.REQUEST_MODELS, as_word),
    "exit_reason": ((sc.HERMES_TURN_EXIT_REASON,), as_word),
    "completed": ((sc.HERMES_TURN_COMPLETED,), as_bool),
    "failed": ((sc.HERMES_TURN_FAILED,), as_bool),
    "interrupted": ((sc.HERMES_TURN_INTERRUPTED,), as_bool),
    "iterations": ((sc.HERMES_TURN_ITERATIONS,), as_int),
    "api_calls": ((sc.HERMES_TURN_API_CALLS,), as_int),
    "api_attempts": ((sc.HERMES_TURN_API_ATTEMPTS,), as_int),
    "retries": ((sc.HERMES_TURN_RETRIES,), as_int),
    "fallbacks": ((sc.HERMES_TURN_FALLBACKS,), as_int),
    "compressions": ((sc.HERMES_TURN_COMPRESSIONS,), as_int),
    "refunds": ((sc.HERMES_TURN_REFUNDS,), as_int),
    "tool_calls": ((sc.HERMES_TURN_TOOL_CALLS,), as_int),
    "steer_count": ((sc.HERMES_TURN_STEERS,), as_int),
    "budget_limit": ((sc.HERMES_BUDGET_LIMIT,), as_int),
    "budget_used": ((sc.HERMES_BUDGET_USED,), as_int),
    "budget_remaining": ((sc.HERMES_BUDGET_REMAINING,), as_int),
}
TOTALS: Fields = {
    "input_tokens": ((sc.HERMES_TURN_USAGE_INPUT_TOKENS,), as_int),
    "output_tokens": ((sc.HERMES_TURN_USAGE_OUTPUT_TOKENS,), as_int),
    "cache_read_tokens": ((sc.HERMES_TURN_USAGE_CACHE_READ_INPUT_TOKENS,), as_int),
    "cache_write_tokens": ((sc.HERMES_TURN_USAGE_CACHE_WRITE_INPUT_TOKENS,), as_int),
    "reasoning_tokens": ((sc.HERMES_TURN_USAGE_REASONING_OUTPUT_TOKENS,), as_int),
    "cost_usd": ((sc.HERMES_TURN_COST_USD,), as_float),
}
_ONLY_OURS = {
    "iterations": "iteration",
    "api_attempts": "attempt",
    "retries": "retry",
    "fallbacks": "fallback",
    "compressions": "compression",
    "refunds": "refund",
}
"""What is counted by spans that no other tool writes."""


def turns(analysis: Analysis) -> dict[str, Any]:
    """One user prompt until its end, each."""
    groups, spans, members = _turns(analysis)
    said = attributes(analysis, spans)
    columns = base(analysis, np.where(spans >= 0, spans, members)) | when(groups, spans)
    columns["span_id"] = pc.coalesce(analysis.column("span_id", spans), _root_ids(analysis, groups))
    columns["error_type"] = analysis.column("own_error_type", spans)
    columns["agent_name"] = pc.take(analysis.agent_name, pa.array(np.where(spans >= 0, spans, members)))
    columns |= read(said, TURNS)
    columns["api_calls"] = or_else(columns["api_calls"], groups.number(_answered(analysis)))
    columns["tool_calls"] = or_else(columns["tool_calls"], groups.number(analysis.of("tool")))
    columns["parent_turn_id"] = or_else(columns["parent_turn_id"], _turn_above(analysis, spans))
    columns["tool_errors"] = groups.number(_tool_errors(analysis))
    is_ours = [row < 0 or names.SPAN_TYPE in each for row, each in zip(spans.tolist(), said, strict=True)]
    columns |= _of_ours(groups, columns, pa.array(is_ours, pa.bool_()))
    columns["providers_used"] = _providers(groups)
    usage, totals = groups.usage(), read(said, TOTALS)
    columns |= {name: or_else(usage[name], totals[name]) for name in usage}
    return columns | _shares(groups, columns["duration"]) | question_and_answer(analysis, spans, columns["turn_id"])


def _turns(analysis: Analysis) -> tuple[Groups, Rows, Rows]:
    """The groups of spans, and for each the row of its own span (or -1) and of its first member."""
    of = forest.codes(analysis.turn_id)
    groups = Groups(analysis, of, int(of.max(initial=-1)) + 1)
    return groups, groups.first(analysis.of("turn")), groups.first(np.arange(len(analysis)))


def _of_ours(groups: Groups, said: dict[str, Any], is_ours: pa.Array) -> dict[str, Any]:
    """What only our turns tell: as they say, else counted; of other tools' turns it is not known."""
    analysis = groups.analysis
    counted: dict[str, Any] = {name: groups.number(analysis.of(kind)) for name, kind in _ONLY_OURS.items()}
    counted["steer_count"] = groups.number(marked(analysis, STEER))
    nothing = pa.scalar(None, pa.int64())
    columns = {name: pc.if_else(is_ours, or_else(said[name], numbers), nothing) for name, numbers in counted.items()}
    return columns | {
        "grace_used": pc.if_else(is_ours, pa.array(_grace(groups), pa.bool_()), pa.scalar(None, pa.bool_()))
    }


def _answered(analysis: Analysis) -> Rows:
    """The chats that have ended without failing."""
    chats = analysis.of("chat")
    failed = pc.equal(analysis.column("status", chats), "ERROR").to_numpy(zero_copy_only=False)
    answered: Rows = chats[analysis.ended[chats] & ~failed]
    return answered


def _root_ids(analysis: Analysis, groups: Groups) -> pa.Array:
    """The id of a turn's own span, as its topmost spans name it."""
    tops = np.flatnonzero(analysis.parents < 0)
    return analysis.column("parent_span_id", groups.first(tops))


def _turn_above(analysis: Analysis, spans: Rows) -> pa.Array:
    above = np.where(spans >= 0, analysis.above(analysis.are("turn"))[spans], -1)
    return analysis.turn_id.take(pa.array(above, mask=above < 0))


def _tool_errors(analysis: Analysis) -> Rows:
    tools = analysis.of("tool")
    failed = pc.or_(
        pc.fill_null(pc.equal(analysis.column("status", tools), "ERROR"), False),
        analysis.column("own_error_type", tools).is_valid(),
    )
    errors: Rows = tools[failed.to_numpy(zero_copy_only=False)]
    return errors


def _grace(groups: Groups) -> list[bool]:
    rows = groups.analysis.of("iteration")
    said = groups.analysis.attributes(rows)
    grace = rows[np.array([as_bool(each.get(sc.HERMES_ITERATION_GRACE)) is True for each in said], bool)]
    return [number > 0 for number in groups.number(grace)]


def _providers(groups: Groups) -> list[str | None]:
    """The providers of each turn's chats in order of first use."""
    rows = groups.analysis.of("chat")
    providers = groups.analysis.once(chat_fields)["provider"]
    used: list[dict[str, None]] = [{} for _ in range(groups.count)]
    for group, provider in zip(groups.of[rows].tolist(), providers, strict=True):
        if group >= 0 and provider is not None:
            used[group][provider] = None
    return [",".join(each) or None for each in used]


def _shares(groups: Groups, duration: pa.Array) -> dict[str, pa.Array]:
    """What the time of a turn went to."""
    analysis = groups.analysis
    tools, waits = analysis.of("tool"), analysis.of("retry")
    busy = groups.covered(groups.requests, tools, waits)
    return {
        "model_time": durations(groups.covered(groups.requests)),
        "tool_time": durations(groups.covered(tools)),
        "wait_time": durations(groups.covered(waits)),
        "overhead": durations(np.maximum(duration.cast(pa.int64()).to_numpy() - busy, 0)),
    }
