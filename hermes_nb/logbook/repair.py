"""A stored history made fit for the next request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_nb.vocabulary.messages import Message

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from hermes_nb.vocabulary.messages import ToolCall

UNFINISHED = "not finished: the process ended while this call was running; its effect is unknown"
NOT_STARTED = "not started: the process ended before this call began"


def sendable(rows: Iterable[Message], begun: Collection[str] = ()) -> tuple[Message, ...]:
    """The history as the next request may carry it; nothing is lost of it in the file.

    Each call gets exactly one result, in the order of the calls, right after its message. A prompt that got no answer
    is left out: it belongs to a turn that failed, and the next prompt takes its place.

    Args:
        rows: The stored messages, in order, without the system prompt.
        begun: Ids of the calls that were begun before the process ended.
    """
    return tuple(_answered(tuple(_paired([row for row in rows if row.role != "system"], begun))))


def dangling(rows: Sequence[Message]) -> list[ToolCall]:
    """The calls that have no result."""
    return [
        call
        for index, row in enumerate(rows)
        if row.tool_calls
        for results in [_results(rows, index)]
        for call in row.tool_calls
        if call.id not in results
    ]


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


def _answered(rows: Sequence[Message]) -> Iterator[Message]:
    """Leave out prompts that no message of the model follows."""
    for row, following in zip(rows, (*rows[1:], None), strict=True):
        open_ended = following is None or (following.role == "user" and following.origin == "")
        if not (row.role == "user" and row.origin == "" and open_ended):
            yield row
