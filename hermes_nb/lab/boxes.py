"""A toolbox whose tools are not run: their calls are told again, with the results that they had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_nb.lab.recording import is_deed, spent
from hermes_nb.lab.retelling import Retelling
from hermes_nb.tools.stored import READER, is_shortened
from hermes_nb.tools.toolbox import Toolbox
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import ReplayMismatch
from hermes_nb.vocabulary.messages import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from hermes_nb.lab.tape import Tape
    from hermes_nb.tools.context import ToolContext
    from hermes_nb.turn.state import TurnState
    from hermes_nb.vocabulary.budget import IterationBudget
    from hermes_nb.vocabulary.events import Event
    from hermes_nb.vocabulary.messages import Content, ToolCall, ToolSpec


class RecordedToolbox(Toolbox):
    """The tools of a recorded turn.

    Args:
        tape: What is played.
        specs: What the model was told of the tools.
        reader: What it was told of too once a result had been shortened.
    """

    def __init__(self, tape: Tape, specs: tuple[ToolSpec, ...], reader: tuple[ToolSpec, ...] = ()) -> None:
        super().__init__(())
        for name, value in {"_tape": tape, "specs": specs, "_reader": reader}.items():
            object.__setattr__(self, name, value)

    _tape: Tape
    _reader: tuple[ToolSpec, ...]

    def offered(self, *, shortened: bool) -> tuple[ToolSpec, ...]:
        """What the model was told of."""
        return (*self.specs, *self._reader) if shortened else self.specs

    def fitted(self, context_window: int | None, spill: Path | None) -> Toolbox:  # noqa: ARG002  results are as they were
        """This box: its results have had their limits."""
        return self

    def all_free(self, calls: Iterable[ToolCall]) -> bool:
        """Whether the iteration of these calls was given back because all its tools were free."""
        _, last = self._place(list(calls))
        for event in self._tape.recording.told[last:]:
            if isinstance(event.what, events.Refund):
                return event.what.reason == "free_tool"
            if isinstance(event.what, events.Iteration):
                break
        return False

    async def run(
        self,
        calls: Sequence[ToolCall],
        *,
        context: ToolContext,
        on_result: Callable[[ToolResult], None],
    ) -> None:
        """Tell the recorded calls again, in the recorded order; see `Toolbox.run`.

        Raises:
            ReplayMismatch: One of the calls is not recorded.
        """
        recording = self._tape.recording
        first, last = self._place(calls)
        known = {call.id: call for call in calls}
        tools = {what.call_id: what for what in recording.ends.values() if isinstance(what, events.Tool)}
        telling = Retelling(self._tape.run.recorder, recording.ends, recording.below)
        for event in recording.told[first : last + 1]:
            answered = _answered(event)
            if answered in known:
                on_result(_result(known[answered], tools[answered], event))
            elif _is_part(event, telling) and not is_deed(event):
                telling.tell(event)
                _book(event, context.turn, self._tape)
        if self._was_stopped(last):
            await self._tape.stopped(last)

    def _place(self, calls: Sequence[ToolCall]) -> tuple[int, int]:
        """Where the events of these calls begin and end."""
        ids = {call.id for call in calls}
        told = self._tape.recording.told
        places = [place for place, event in enumerate(told) if _answered(event) in ids or _call(event) in ids]
        missing = ids - {_answered(told[place]) for place in places}
        if missing:
            names = ", ".join(f"{call.name}({call.arguments})" for call in calls if call.id in missing)
            msg = f"the replay of turn {self._tape.recording.turn_id}: the record has no result of {names}"
            raise ReplayMismatch(msg)
        return places[0], places[-1]

    def _was_stopped(self, place: int) -> bool:
        """Whether the turn was interrupted while it ran these calls."""
        for event in self._tape.recording.told[place + 1 :]:
            if isinstance(event.what, events.Iteration):
                return event.interrupted
            if isinstance(event.what, events.Chat):
                break
        return False


def _call(event: Event) -> str:
    return event.what.call_id if isinstance(event.what, events.Tool) else ""


def _answered(event: Event) -> str:
    return (event.what.message.tool_call_id or "") if isinstance(event.what, events.MessageAdded) else ""


def _is_part(event: Event, telling: Retelling) -> bool:
    return isinstance(event.what, events.Tool) or telling.is_inside(event)


def _result(call: ToolCall, tool: events.Tool, event: Event) -> ToolResult:
    """The result that the loop was given; what it wrote behind it itself, it writes again."""
    assert isinstance(event.what, events.MessageAdded)
    message = event.what.message
    read = message.content
    content = tool.result if _begins_with(read, tool.result) else read
    place = READER if is_shortened(message.text) else ""
    return ToolResult(call, content, tool.status or "ok", tool.error_type, truncated=tool.truncated, stored_at=place)


def _begins_with(read: Content, result: Content) -> bool:
    if isinstance(read, str) and isinstance(result, str):
        return read.startswith(result)
    return not isinstance(read, str) and not isinstance(result, str) and read[: len(result)] == result


def _book(event: Event, state: TurnState, tape: Tape) -> None:
    """What a sub-agent used is its parent's too, as it was booked then."""
    what = event.what
    if isinstance(what, events.BudgetChanged) and what.actor == "subagent" and event.turn_id == tape.recording.turn_id:
        state.budget.mark()
    if event.phase != "ended" or not isinstance(what, events.Tool) or what.child_turn_id not in tape.recording.below:
        return
    for below in tape.recording.below[what.child_turn_id]:
        if isinstance(below.what, events.BudgetChanged):
            _move(state.budget, below.what.delta)
        elif isinstance(below.what, events.Turn) and below.phase == "ended" and below.what.cost_usd is not None:
            state.add_cost(below.what.cost_usd)
    for provider, model, usage in spent(what.child_turn_id, tape.recording.below):
        state.add_usage(usage, provider, model)


def _move(budget: IterationBudget, delta: int) -> None:
    for _ in range(-delta):
        budget.consume()
    for _ in range(delta):
        budget.refund()
