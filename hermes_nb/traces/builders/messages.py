"""The frame `messages`, and the question and answer of each turn.

A model call repeats the history so far. Here every message stands once, at its place in the turn's history and under
the call in which it was first seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.telemetry import semconv as sc
from hermes_nb.traces import names, said
from hermes_nb.traces.builders.steps import SAID, TOOLS
from hermes_nb.traces.columns import TEXT
from hermes_nb.traces.jsons import dumps, loads_mapping
from hermes_nb.traces.values import as_int, as_text, pick

if TYPE_CHECKING:
    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.forest import Rows

    Row = dict[str, Any]


def messages(analysis: Analysis) -> dict[str, Any]:
    """Parts of messages, in the order in which they were first seen."""
    rows = analysis.once(_everything)
    columns = {name: [row.get(name) for row in rows] for name in _COLUMNS}
    columns["chars"] = [len(row["content"]) for row in rows]
    return columns


_COLUMNS = (
    "run_id", "conversation_id", "turn_id", "trace_id", "span_id", "iteration", "message_index", "part_index", "role",
    "part_type", "content", "tool_call_id", "tool_name", "direction", "origin", "first_span_id", "tokens",
)  # fmt: skip


def _everything(analysis: Analysis) -> list[Row]:
    return _kept(analysis) + _spoken(analysis)


def _kept(analysis: Analysis) -> list[Row]:
    """Messages that the source keeps apart from spans, with the keys of their turns."""
    table = analysis.tables.messages
    rows: list[Row] = table.to_pylist()
    if not rows:
        return []
    turns = analysis.of("turn")
    keys = _records(analysis.keys(turns))
    known = {key["turn_id"]: {name: key[name] for name in _TURN_KEYS} for key in keys}
    return [
        {**row, **{name: key for name, key in known.get(row["turn_id"], {}).items() if row[name] is None}}
        for row in rows
    ]


_TURN_KEYS = ("run_id", "conversation_id", "trace_id", "span_id")


def _spoken(analysis: Analysis) -> list[Row]:
    """Messages that stand in the attributes of chats and tools, and in events."""
    kept = set(analysis.tables.messages["turn_id"].to_pylist())
    histories: dict[str | None, _History] = {}
    told, whole = _told_by_events(analysis), _whole_calls(analysis)
    chats = analysis.of("chat")
    speaking = pc.or_(
        analysis.column("content_json", chats).is_valid(),
        pc.is_in(analysis.column("span_id", chats), pa.array([*told, *whole], TEXT)),
    )
    chats = chats[speaking.to_numpy(zero_copy_only=False)]
    rows = zip(
        _records(analysis.keys(chats)),
        analysis.attributes(chats),
        analysis.attributes(chats, content=True),
        strict=True,
    )
    for key, how, on_span in rows:
        if key["turn_id"] in kept or how.get(sc.HERMES_CHAT_PURPOSE, "main") not in names.PURPOSES:
            continue
        history = histories.setdefault(key["turn_id"], _History())
        sent, came = told.get(key["span_id"], ((), ()))
        what = on_span or whole.get(key["span_id"], {})
        sent, came = said.inputs(what) or [*sent], said.outputs(what) or [*came]
        history.chat(key, {**what, **how}, said.instructions(what), sent, came)
    _add_tools(analysis, histories, kept)
    return [row for history in histories.values() for row in history.rows]


class _History:
    """The messages of one turn so far, each once."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.answered: set[str] = set()
        self.length = 0
        self._met: set[tuple[int, str]] = set()

    def chat(self, key: Row, how: Row, system: list[Row], sent: list[Row], came: list[Row]) -> None:
        """Add what one model call was told and what it said."""
        for message in system:
            self._add(key, -1, message, "system")
        offset = as_int(how.get(sc.HERMES_MESSAGES_OFFSET)) or 0
        for index, message in enumerate(sent, offset):
            self._add(key, index, message, "input")
        for index, message in enumerate(came, offset + len(sent)):
            self._add(key, index, message, "output")
        self.length = max(self.length, offset + len(sent) + len(came))

    def _add(self, key: Row, index: int, message: Row, direction: str) -> None:
        mark = (index, dumps([message["role"], message["parts"]]))
        if mark in self._met:
            return
        self._met.add(mark)
        base = {**key, "message_index": max(index, 0), "direction": direction, "first_span_id": key["span_id"]}
        for place, part in enumerate(said.parts(message)):
            self.rows.append({**base, **part, "part_index": place})
            if part["part_type"] == "tool_call_response":
                self.answered.add(part["tool_call_id"])


def _add_tools(analysis: Analysis, histories: dict[str | None, _History], kept: set[str]) -> None:
    """Add the results that no model call was told of any more."""
    tools = analysis.of("tool")
    tools = tools[analysis.column("content_json", tools).is_valid().to_numpy(zero_copy_only=False)]
    what = analysis.attributes(tools, content=True)
    results = pick(what, *SAID["result"])
    ids = pick(analysis.attributes(tools), *TOOLS["tool_call_id"])
    tool_names = pick(analysis.attributes(tools), *TOOLS["tool_name"])
    for key, call, name, result in zip(_records(analysis.keys(tools)), ids, tool_names, results, strict=True):
        if result is None or call is None or key["turn_id"] in kept:
            continue
        history = histories.setdefault(key["turn_id"], _History())
        if call not in history.answered:
            row = {"role": "tool", "part_type": "tool_call_response", "content": result, "direction": "input"}
            place = {"message_index": history.length, "part_index": 0, "tool_call_id": call, "tool_name": name}
            history.rows.append({**key, **row, **place, "first_span_id": key["span_id"]})
            history.length += 1


def _whole_calls(analysis: Analysis) -> dict[str, Row]:
    """By span, what the event of a whole model call says; from sources that keep content off spans."""
    table = analysis.tables.events
    name = sc.EVENT_GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS
    table = table.filter(pc.fill_null(pc.equal(table["name"], name), False))
    pairs = zip(table["span_id"].to_pylist(), table["attributes_json"].to_pylist(), strict=True)
    return {span_id: loads_mapping(text) for span_id, text in pairs if span_id is not None}


def _told_by_events(analysis: Analysis) -> dict[str, tuple[list[Row], list[Row]]]:
    """By span, what the older message events say was sent and came back."""
    table = analysis.tables.events
    table = table.filter(
        pc.fill_null(pc.match_substring_regex(table["name"], r"^gen_ai\.(\w+\.message|choice)$"), False)
    )
    found: dict[str, tuple[list[Row], list[Row]]] = {}
    for event in table.to_pylist():
        read = said.from_event(event["name"], loads_mapping(event["attributes_json"]), loads_mapping(event["body"]))
        if read is not None and event["span_id"] is not None:
            direction, message = read
            found.setdefault(event["span_id"], ([], []))[direction == "output"].append(message)
    return found


def _records(columns: dict[str, pa.Array]) -> list[Row]:
    lists = {name: column.to_pylist() for name, column in columns.items()}
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


# ---------------------------------------------------------------------------------------------- of a turn


def question_and_answer(analysis: Analysis, spans: Rows, turn_ids: pa.Array) -> dict[str, list[str | None]]:
    """What the user asked and what came out: as the turn's span says, else as its chats do.

    Args:
        analysis: The spans.
        spans: The row of each turn's own span, -1 where it is missing.
        turn_ids: The turns.
    """
    there = np.flatnonzero(spans >= 0)
    questions: list[str | None] = [None] * len(spans)
    answers: list[str | None] = [None] * len(spans)
    for place, what in zip(there.tolist(), analysis.attributes(spans[there], content=True), strict=True):
        questions[place] = _last_text(said.inputs(what), "user") or _text(what, "input.value", "input")
        answers[place] = _last_text(said.outputs(what), "assistant") or _text(what, "output.value", "output")
    asked, answered = _by_turn(analysis)
    ids = turn_ids.to_pylist()
    return {
        "user_message": [known or asked.get(turn) for known, turn in zip(questions, ids, strict=True)],
        "final_response": [known or answered.get(turn) for known, turn in zip(answers, ids, strict=True)],
    }


def _by_turn(analysis: Analysis) -> tuple[dict[str, str], dict[str, str]]:
    """The last user's text before the first answer, and the last answer, of each turn."""
    asked: dict[str, str] = {}
    answered: dict[str, str] = {}
    for row in analysis.once(_everything):
        turn = row["turn_id"]
        if turn is None or row["part_type"] != "text" or row.get("origin"):
            continue
        if row["role"] == "user" and turn not in answered:
            asked[turn] = row["content"]
        elif row["role"] == "assistant" and row["direction"] == "output":
            answered[turn] = row["content"]
    return asked, answered


def _last_text(found: list[Row], role: str) -> str | None:
    texts = [said.text_of(message) for message in found if message["role"] == role]
    return texts[-1] if texts else None


def _text(what: Row, *keys: str) -> str | None:
    value = next((what[key] for key in keys if key in what), None)
    return None if value is None else as_text(value)
