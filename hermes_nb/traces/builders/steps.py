"""The frames of what the loop does between model calls: `tool_calls`, `compressions`, `refunds`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hermes_nb.telemetry import semconv as sc
from hermes_nb.traces import names
from hermes_nb.traces.builders.calls import base, chat_fields, read
from hermes_nb.traces.forest import codes
from hermes_nb.traces.values import as_bool, as_int, as_text, as_word

if TYPE_CHECKING:
    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.builders.calls import Fields
    from hermes_nb.traces.forest import Rows

TOOLS: Fields = {
    "tool_call_id": (names.TOOL_CALL_IDS, as_text),
    "tool_name": (names.TOOL_NAMES, as_word),
    "tool_type": ((sc.GEN_AI_TOOL_TYPE,), as_word),
    "order": ((sc.HERMES_TOOL_INDEX,), as_int),
    "parallel": ((sc.HERMES_TOOL_PARALLEL,), as_bool),
    "outcome": ((sc.HERMES_TOOL_STATUS,), as_word),
    "cancelled": ((sc.HERMES_TOOL_CANCELLED,), as_bool),
    "result_chars": ((sc.HERMES_TOOL_RESULT_CHARS,), as_int),
    "truncated": ((sc.HERMES_TOOL_TRUNCATED,), as_bool),
    "child_turn_id": ((sc.HERMES_TOOL_CHILD_TURN_ID,), as_text),
}
SAID: Fields = {"arguments_json": (names.TOOL_ARGUMENTS, as_text), "result": (names.TOOL_RESULTS, as_text)}
COMPRESSIONS: Fields = {
    "trigger": ((sc.HERMES_COMPRESSION_TRIGGER,), as_word),
    "strategy": ((sc.HERMES_COMPRESSION_STRATEGY,), as_word),
    "messages_before": ((sc.HERMES_COMPRESSION_MESSAGES_BEFORE,), as_int),
    "messages_after": ((sc.HERMES_COMPRESSION_MESSAGES_AFTER,), as_int),
    "tokens_before": ((sc.HERMES_COMPRESSION_TOKENS_BEFORE,), as_int),
    "tokens_after": ((sc.HERMES_COMPRESSION_TOKENS_AFTER,), as_int),
    "refunded": ((sc.HERMES_COMPRESSION_REFUNDED,), as_bool),
    "outcome": ((sc.HERMES_COMPRESSION_OUTCOME,), as_word),
}
REFUNDS: Fields = {
    "reason": ((sc.HERMES_REFUND_REASON,), as_word),
    "limit": ((sc.HERMES_BUDGET_LIMIT,), as_int),
    "used_before": ((sc.HERMES_REFUND_USED_BEFORE,), as_int),
    "used_after": ((sc.HERMES_REFUND_USED_AFTER,), as_int),
    "remaining_before": ((sc.HERMES_REFUND_REMAINING_BEFORE,), as_int),
    "remaining_after": ((sc.HERMES_REFUND_REMAINING_AFTER,), as_int),
}


def compressions(analysis: Analysis) -> dict[str, Any]:
    """Compressions of the history."""
    rows = analysis.of("compression")
    return base(analysis, rows) | read(analysis.attributes(rows), COMPRESSIONS)


def refunds(analysis: Analysis) -> dict[str, Any]:
    """Iterations given back."""
    rows = analysis.of("refund")
    columns = base(analysis, rows) | read(analysis.attributes(rows), REFUNDS)
    return columns | {"time": columns["start_time"]}


def tool_calls(analysis: Analysis) -> dict[str, Any]:
    """Tools run."""
    rows = analysis.of("tool")
    columns = base(analysis, rows) | read(analysis.attributes(rows), TOOLS)
    columns |= read(analysis.attributes(rows, content=True), SAID)
    columns["cancelled"] = [
        said if said is not None or open_ else False
        for said, open_ in zip(columns["cancelled"], columns["is_running"].to_pylist(), strict=True)
    ]
    columns["child_turn_id"] = _children(analysis, rows, columns["child_turn_id"])
    return columns | {"chat_span_id": analysis.column("span_id", _asked_by(analysis, rows))}


def _children(analysis: Analysis, rows: Rows, said: list[Any]) -> list[Any]:
    """The turn of each tool's sub-agent: as the tool says, else the first turn right below it."""
    turns = analysis.of("turn")
    above = analysis.above(analysis.are("tool", "turn"))
    below = dict(zip(above[turns][::-1].tolist(), analysis.column("span_id", turns).to_pylist()[::-1], strict=True))
    ids = dict(
        zip(analysis.column("span_id", turns).to_pylist(), analysis.keys(turns)["turn_id"].to_pylist(), strict=True)
    )
    return [known or ids.get(below.get(row)) for known, row in zip(said, rows.tolist(), strict=True)]


def _asked_by(analysis: Analysis, tools: Rows) -> Rows:
    """The main chat that each tool call came from: the last one before it in its turn and iteration."""
    chats = analysis.of("chat")
    main = [purpose in (None, "main") for purpose in analysis.once(chat_fields)["purpose"]]
    chats = chats[np.array(main, bool)]
    both = np.r_[chats, tools]
    turn, iteration = (
        codes(analysis.turn_id)[both],
        analysis.iteration.fill_null(0).to_numpy(zero_copy_only=False)[both],
    )
    is_tool = np.arange(len(both)) >= len(chats)
    order = np.lexsort((is_tool, analysis.start[both], iteration, turn))
    chat_places = np.where(is_tool[order], -1, np.arange(len(both)))
    last = np.maximum.accumulate(chat_places) if len(both) else chat_places
    same = (last >= 0) & (turn[order][last] == turn[order]) & (iteration[order][last] == iteration[order])
    answer = np.full(len(both), -1, np.int64)
    answer[order] = np.where(same, both[order][last], -1)
    return answer[len(chats) :]
