"""One batch: the calls of one reply while they run, each of which is answered exactly once."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from hermes_nb.tools import results
from hermes_nb.tools.context import InvalidArguments, ToolContext, ToolFailed
from hermes_nb.tools.definition import FunctionTool, Tool, ToolOptions
from hermes_nb.tools.threads import run_in_thread
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.cancellation import ends_turn
from hermes_nb.vocabulary.messages import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hermes_nb.tools.toolbox import Toolbox
    from hermes_nb.vocabulary.messages import Content, ToolCall

_SHOWN_NAME = 100

CANCELLED = "[The call was interrupted while it ran; its effect is unknown.]"
SKIPPED = "[The call was not started: the turn was interrupted before.]"
LATE = "[The call was not started: the time for it was used up.]"


@dataclass(slots=True, eq=False)
class Slot:
    """One call of the batch, and what became of it.

    `told` is set when its scope was opened, `begun` when the tool itself may have done something.
    """

    index: int
    call: ToolCall
    tool: Tool | None
    parallel: bool = False
    told: bool = False
    begun: bool = False
    result: ToolResult | None = None

    @property
    def options(self) -> ToolOptions:
        """The tool's; the defaults for a call of no tool."""
        return self.tool.options if self.tool else ToolOptions()

    @property
    def apart(self) -> bool:
        """Whether a plain function answers the call: in its thread nothing that it does reaches the turn's own task."""
        return isinstance(self.tool, FunctionTool) and not self.tool.is_async


def segments(slots: Iterable[Slot]) -> list[list[Slot]]:
    """Runs of neighbours that may run together; every call that is not parallel-safe is a run of its own."""
    runs: list[list[Slot]] = []
    for slot in slots:
        if runs and slot.options.parallel_safe and runs[-1][-1].options.parallel_safe:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return runs


class Batch:
    """The calls of one reply while they run; neighbours that may run together share a task group."""

    def __init__(
        self, box: Toolbox, calls: Sequence[ToolCall], context: ToolContext, on_result: Callable[[ToolResult], None]
    ) -> None:
        self.box = box
        self.context = context
        self.slots = [Slot(index, call, box.find(call.name)) for index, call in enumerate(calls)]
        self.stopped_by: BaseException | None = None
        self._on_result = on_result
        self._given, self._room = 0, box.batch_limit
        now = time.monotonic()
        self._lands = now + context.time_left
        self._deadline = min(now + box.batch_timeout, self._lands)

    async def run(self, segment: Sequence[Slot]) -> None:
        """Run calls that may run together; returns when all of them are answered or given up."""
        if self.stopped_by is not None:
            return
        if segment[0].index:
            await anyio.lowlevel.checkpoint()  # an interrupt may have come while a quick call was waited for
        if len(segment) == 1 and segment[0].apart:
            await self._answer(segment[0])
            return
        limiter = anyio.CapacityLimiter(self.box.workers)
        async with anyio.create_task_group() as group:
            for slot in segment:
                slot.parallel = len(segment) > 1
                group.start_soon(self._answer_beside_others, slot, limiter, group.cancel_scope)

    async def _answer_beside_others(
        self, slot: Slot, limiter: anyio.CapacityLimiter, everything: anyio.CancelScope
    ) -> None:
        async with limiter:
            await self._answer(slot)
            if self.stopped_by is not None:
                everything.cancel("the batch is stopped")

    async def _answer(self, slot: Slot) -> None:
        """Run one call and hand over what is ready; what the toolbox is to raise afterwards is kept."""
        slot.told = True
        try:
            with self.context.recorder.scope(_event(slot, self.context.agent_name)) as event:
                try:
                    slot.result = await self._result(slot, event)
                finally:
                    _fill_in(event, slot)
            self._hand_over()
        except (KeyboardInterrupt, Exception) as stop:  # noqa: BLE001  raised again by the toolbox, outside of any group
            self.stopped_by = stop

    async def _result(self, slot: Slot, event: events.Tool) -> ToolResult:
        context = self.context.for_call(event)
        try:
            tool, arguments = self._understood(slot)
            if context.checkpoints is not None:
                await context.saves.before(context.checkpoints, tool.options, arguments, context.recorder)
            seconds = self._time_for(slot)
            if seconds <= 0:
                return ToolResult(slot.call, LATE, "skipped", "batch_timeout")
            slot.begun = True
            with context.under_way(), anyio.move_on_after(seconds):
                value = await tool.invoke(arguments, context)
                return await self._bounded(slot, ToolResult(slot.call, await _told(value, context), value=value))
        except (ToolFailed, InvalidArguments) as refusal:
            return await self._bounded(slot, await _refused(slot, refusal, context))
        except BaseException as error:
            if ends_turn(error) or context.interrupted:
                context.give_up()
                raise
            return ToolResult(slot.call, results.exception_text(error), "error", type(error).__name__)
        context.give_up()
        text = f"[The call was given up after {seconds:.3g} s; its effect is unknown.]"
        return ToolResult(slot.call, text, "timeout", "timeout")

    def _understood(self, slot: Slot) -> tuple[Tool, Mapping[str, Any]]:
        """The tool and its arguments.

        Raises:
            ToolFailed: There is no such tool.
            InvalidArguments: The arguments are no object.
        """
        if slot.tool is None:
            known = ", ".join(self.box.tools) or "none"
            msg = f"There is no tool {slot.call.name[:_SHOWN_NAME]!r}. Valid tools: {known}."
            raise ToolFailed(results.error_text(msg), "unknown_tool")
        return slot.tool, _parsed(slot.call)

    def _time_for(self, slot: Slot) -> float:
        """Seconds for a call: its own, or what is left to all of them. A sub-agent lands by itself with its turn."""
        own, now = slot.options.timeout, time.monotonic()
        if own is None:
            return max(0.0, self._deadline - now)
        return own if slot.options.delegate and now < self._lands else min(own, max(0.0, self._lands - now))

    async def _bounded(self, slot: Slot, result: ToolResult) -> ToolResult:
        """The result within its limit; what has to be written to the disk for that is written in a thread."""
        limit = slot.options.result_limit or self.box.result_limit
        if results.size(result.content) > limit:
            shorten = partial(self._shortened, result, limit)
            with anyio.CancelScope(shield=True):  # the result is there, and an interrupt does not take it away
                result = await run_in_thread(shorten, name="result", on_abandoned=self.context.give_up)
        return result

    def _shortened(self, result: ToolResult, limit: int) -> ToolResult:
        short = results.shorten(result.content, self.box.spill, preview=min(results.PREVIEW, limit))
        if self.box.spill is not None and not short.stored_at:
            told = f"the whole result of {result.call.name} could not be written to {self.box.spill}"
            self.context.recorder.tell(events.Degraded("tool", told))
        if short.deleted:
            told = f"{short.deleted} stored results of other conversations were deleted, the oldest first, to make room"
            self.context.recorder.tell(events.Degraded("tool", told))
        value = result.value if result.value is not None else result.content
        return replace(result, content=short.content, value=value, truncated=True, stored_at=short.stored_at)

    # ------------------------------------------------------------------------------------------ handing over

    def _hand_over(self) -> None:
        """Give the results that are next in order, as far as the batch's limit can be foreseen."""
        complete = all(slot.result for slot in reversed(self.slots))  # as a rule the last one is answered last
        if complete:
            self._shrink()
        while self._given < len(self.slots):
            result = self.slots[self._given].result
            if result is None or not (complete or self._will_fit(result)):
                return
            self._give(result)

    def _will_fit(self, result: ToolResult) -> bool:
        """Whether the batch's limit will let this result stand, whatever the open calls return."""
        return results.size(result.content) * (len(self.slots) - self._given) <= self._room

    def _shrink(self) -> None:
        """Cut the largest results that are not given yet, until all of them fit."""
        open_slots = self.slots[self._given :]
        excess = sum(map(_size, open_slots)) - self._room
        for slot in sorted(open_slots, key=_size, reverse=True):
            size = _size(slot)
            if excess <= 0 or size <= 2 * results.PREVIEW:
                return
            if slot.result:
                slot.result = self._shortened(slot.result, results.PREVIEW)
            excess -= size - _size(slot)

    def _give(self, result: ToolResult) -> None:
        self._given += 1
        self._room -= results.size(result.content)
        self._on_result(result)

    def settle(self) -> None:
        """Answer every call that has no answer yet."""
        for slot in self.slots:
            if slot.result is None:
                slot.result = _unfinished(slot)
                if not slot.told:
                    with self.context.recorder.scope(_event(slot, self.context.agent_name)) as event:
                        _fill_in(event, slot)
        self._hand_over()


def _size(slot: Slot) -> int:
    return results.size(slot.result.content) if slot.result else 0


def _event(slot: Slot, agent: str) -> events.Tool:
    return events.Tool(
        name=slot.tool.spec.name if slot.tool else slot.call.name[:_SHOWN_NAME],
        call_id=slot.call.id,
        arguments=slot.call.arguments,
        index=slot.index,
        parallel=slot.parallel,
        type=slot.options.type,
        description=slot.tool.spec.description if slot.tool else "",
        agent=agent,
        delegate=slot.options.delegate,
    )


def _fill_in(event: events.Tool, slot: Slot) -> None:
    result = slot.result or _unfinished(slot)
    event.status = result.status
    event.result = result.content
    event.result_chars = results.size(result.content)
    event.truncated = result.truncated
    event.error_type = result.error_type
    if result.error_type:
        event.error = results.in_short(result.content)


def _unfinished(slot: Slot) -> ToolResult:
    return ToolResult(slot.call, CANCELLED, "cancelled") if slot.begun else ToolResult(slot.call, SKIPPED, "skipped")


async def _told(value: object, context: ToolContext) -> Content:
    """What the model reads of a value; in a thread, where it may take time: a long text, or an object to be shown."""
    if (
        value is None
        or isinstance(value, int | float)
        or (isinstance(value, str) and len(value) < results.RESULT_LIMIT)
    ):
        return results.readable(value)
    return await run_in_thread(partial(results.readable, value), name="result", on_abandoned=context.give_up)


async def _refused(slot: Slot, refusal: ToolFailed | InvalidArguments, context: ToolContext) -> ToolResult:
    if isinstance(refusal, ToolFailed):
        return ToolResult(slot.call, await _told(refusal.content, context), "error", refusal.error_type)
    return ToolResult(slot.call, results.error_text(str(refusal)), "error", "invalid_arguments")


def _parsed(call: ToolCall) -> Mapping[str, Any]:
    """The arguments as an object; text that is none is never mended into one.

    Raises:
        InvalidArguments: It is no JSON object.
    """
    try:
        arguments = json.loads(call.arguments.strip() or "{}")
    except (ValueError, RecursionError) as error:
        msg = f"The arguments of {call.name} are not valid JSON ({error}); nothing was run. Send one complete object."
        raise InvalidArguments(msg) from None
    if not isinstance(arguments, dict):
        msg = f"The arguments of {call.name} are not a JSON object but {type(arguments).__name__}; nothing was run."
        raise InvalidArguments(msg)
    return arguments
