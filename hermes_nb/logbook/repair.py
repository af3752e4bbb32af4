"""A stored history made fit for the next request; in the file nothing of it is changed."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from hermes_nb.logbook.schema import TURN
from hermes_nb.vocabulary.messages import Message

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hermes_nb.logbook.records import Row

UNFINISHED = "not finished: the process ended while this call was running; its effect is unknown"
NOT_STARTED = "not started: the process ended before this call began"
CUT_OFF = "[the process ended before there was an answer]"

Fate: TypeAlias = Literal["failed", "cut off"]
"""How a turn came to have no answer: its model failed, or its process was killed."""


def sendable(rows: Sequence[Row], fates: Mapping[int, Fate], begun: Collection[str]) -> tuple[Message, ...]:
    """The history as the next request may carry it.

    Each call gets exactly one result, in the order of the calls, right after its message. A failed turn's prompt that
    got no answer is left out, so that the model does not read it together with the next one; a killed turn is closed
    by a word of its own.

    Args:
        rows: The stored messages, in order, without the system prompt.
        fates: Turns that did not end well, by their number.
        begun: Ids of the calls that were begun before the process ended.
    """
    groups = [(turn, list(group)) for turn, group in groupby(rows, _turn)]
    last = {turn: place for place, (turn, _) in enumerate(groups)}
    messages: list[Message] = []
    for place, (turn, group) in enumerate(groups):
        paired = list(_paired([row.message for row in group], begun))
        if turn in fates and last[turn] == place:
            paired = _settled(paired, fates[turn])
        messages += paired
    return tuple(messages)


def _turn(row: Row) -> int:
    """The turn that a message came with; 0 for a history that was given to a turn."""
    return row.id >> TURN if row.seq else 0


def unanswered(rows: Sequence[Message]) -> set[str]:
    """Ids of the calls that have no result."""
    return {
        call.id
        for index, row in enumerate(rows)
        if row.tool_calls
        for call in row.tool_calls
        if call.id not in _results(rows, index)
    }


def _paired(rows: Sequence[Message], begun: Collection[str]) -> Iterator[Message]:
    for index, row in enumerate(rows):
        if row.role == "tool":
            continue
        yield row
        results = _results(rows, index) if row.tool_calls else {}
        for call in row.tool_calls:
            found = results.pop(call.id, None)
            text = UNFINISHED if call.id in begun else NOT_STARTED
            yield Message("tool", text, tool_call_id=call.id, name=call.name) if found is None else found


def _results(rows: Sequence[Message], index: int) -> dict[str, Message]:
    """The results that belong to the calls of a row: those before the next message of the model."""
    found: dict[str, Message] = {}
    for row in rows[index + 1 :]:
        if row.role == "assistant":
            break
        if row.role == "tool" and row.tool_call_id is not None:
            found.setdefault(row.tool_call_id, row)
    return found


def _settled(messages: list[Message], fate: Fate) -> list[Message]:
    """The end of a turn without an answer."""
    left_out = ("continuation", "") if fate == "failed" else ("continuation",)
    while messages and messages[-1].role == "user" and messages[-1].origin in left_out:
        messages.pop()
    if messages and (messages[-1].role != "assistant" or messages[-1].tool_calls):
        messages.append(Message("assistant", CUT_OFF, origin="closing"))
    return messages
