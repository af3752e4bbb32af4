"""The frame `messages`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_nb.traces.analysis import Analysis


def messages(analysis: Analysis) -> dict[str, Any]:
    table = analysis.tables.messages
    return {name: table[name] for name in table.column_names}


def question_and_answer(analysis, spans, turn_ids):
    return {"user_message": [None] * len(spans)}
