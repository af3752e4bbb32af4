"""The toolbox: runs the calls of one reply, and answers each of them exactly once, in order."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import anyio

from hermes_nb.tools import results
from hermes_nb.tools.context import ToolContext, ToolFailed
from hermes_nb.tools.definition import Tool, ToolOptions, tool
from hermes_nb.tools.names import closest
from hermes_nb.tools.schema import InvalidArguments
from hermes_nb.tools.stored import result_reader
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import ConfigurationError
from hermes_nb.vocabulary.messages import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from hermes_nb.vocabulary.events import Telling
    from hermes_nb.vocabulary.messages import ToolCall, ToolSpec

WORKERS = 8
"""Calls that run at the same time."""

BATCH_TIMEOUT = 420.0
"""Seconds for all calls of one reply."""

CANCELLED = "[The call was interrupted while it ran; its effect is unknown.]"
SKIPPED = "[The call was not started: the turn was interrupted before.]"
LATE = "[The call was not started: the time for all calls of one reply was used up.]"


@dataclass(frozen=True, slots=True, init=False)
class Toolbox:
    """The tools of an agent.

    Args:
        tools: Tools, or functions that can be made one.
        workers: Parallel-safe calls that may run at the same time.
        batch_timeout: Seconds for all calls of one reply; a tool with a time-out of its own is not bound by it.
        result_limit: Characters of one result; more is kept in a file, and the model reads a preview.
        batch_limit: Characters of all results of one reply; the largest are cut first.
        spill: Directory for the whole text of results that were cut; with it the model is offered `read_result`,
            a tool that reads there.

    Raises:
        ConfigurationError: Two tools have one name, something is no tool, or a limit cannot work.
        ToolDefinitionError: A function gives no schema.
    """

    tools: Mapping[str, Tool]
    workers: int
    batch_timeout: float
    result_limit: int
    batch_limit: int
    spill: Path | None

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        workers: int = WORKERS,
        batch_timeout: float = BATCH_TIMEOUT,
        result_limit: int = results.RESULT_LIMIT,
        batch_limit: int = results.BATCH_LIMIT,
        spill: Path | None = None,
    ) -> None:
        limits = {"workers": workers, "batch_timeout": batch_timeout, "result_limit": result_limit}
        for name, limit in (limits | {"batch_limit": batch_limit}).items():
            if not limit > 0:
                msg = f"{name} is a number above 0, not {limit!r}"
                raise ConfigurationError(msg)
        named = _named(tools)
        if spill is not None and named:
            named.setdefault("read_result", result_reader(spill))
        fields = limits | {"tools": named, "batch_limit": batch_limit, "spill": spill}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of each tool, in the order given."""
        return tuple(tool.spec for tool in self.tools.values())

    def fitted(self, context_window: int | None, spill: Path | None) -> Toolbox:
        """This box with limits that suit a window, and a place for what exceeds them; see `results.limits_for`."""
        result_limit, batch_limit = results.limits_for(context_window)
        return Toolbox(
            self.tools.values(),
            workers=self.workers,
            batch_timeout=self.batch_timeout,
            result_limit=min(result_limit, self.result_limit),
            batch_limit=min(batch_limit, self.batch_limit),
            spill=spill,
        )

    def find(self, name: str) -> Tool | None:
        """The tool that a model means by this name: exactly that one, or the only one that is spelled like it."""
        return self.tools.get(name) or self.tools.get(closest(name, self.tools))

    def all_free(self, calls: Iterable[ToolCall]) -> bool:
        """Whether every one of these calls is of a tool that is marked free."""
        found = [self.find(call.name) for call in calls]
        return bool(found) and all(tool is not None and tool.options.free for tool in found)

    async def run(
        self,
        calls: Sequence[ToolCall],
        *,
        recorder: Telling,
        context: ToolContext,
        on_result: Callable[[ToolResult], None],
    ) -> None:
        """Run the calls of one reply: neighbours that are parallel-safe together, every other one alone, in order.

        Args:
            calls: The calls, in the model's order. Equal calls are run each.
            recorder: Gets one `Tool` scope for each call.
            context: The turn, as the tools may see it.
            on_result: Called exactly once for each call, in their order, as early as the order and the batch's
                limit allow; also when the wait is cancelled (then: real results of what has finished, "effect
                unknown" for what was running, "not started" for the others).

        Raises:
            KeyboardInterrupt: A tool raised it; all calls have been answered by then.
        """
        batch = _Batch(self, calls, replace(context, recorder=recorder), on_result)
        try:
            for segment in _segments(batch.slots):
                await batch.run(segment)
        finally:
            batch.settle()
        if batch.stopped_by is not None:
            raise batch.stopped_by


def _named(tools: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for given in tools:
        if isinstance(given, Tool):
            known: Tool = given
        elif callable(given) and not isinstance(given, type):
            known = tool(given)
        else:
            msg = f"{given!r} is no tool; give a function, a @tool, or agent.as_tool()"
            raise ConfigurationError(msg)
        if known.spec.name in named:
            msg = f"two tools have the name {known.spec.name!r}; rename one with @tool(name=...)"
            raise ConfigurationError(msg)
        named[known.spec.name] = known
    return named


# ---------------------------------------------------------------------------------------------- one batch


@dataclass(slots=True, eq=False)
class _Slot:
    """One call of the batch, and what became of it."""

    index: int
    call: ToolCall
    tool: Tool | None
    parallel: bool = False
    begun: bool = False
    result: ToolResult | None = None

    @property
    def options(self) -> ToolOptions:
        return self.tool.options if self.tool else ToolOptions()


def _segments(slots: Iterable[_Slot]) -> list[list[_Slot]]:
    """Runs of neighbours that may run together; every call that is not parallel-safe is a run of its own."""
    runs: list[list[_Slot]] = []
    for slot in slots:
        if runs and slot.options.parallel_safe and runs[-1][-1].options.parallel_safe:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return runs


class _Batch:
    """The calls of one reply while they run; lives in one task group at a time."""

    def __init__(
        self, box: Toolbox, calls: Sequence[ToolCall], context: ToolContext, on_result: Callable[[ToolResult], None]
    ) -> None:
        self.box = box
        self.context = context
        self.slots = [_Slot(index, call, box.find(call.name)) for index, call in enumerate(calls)]
        self.stopped_by: BaseException | None = None
        self._on_result = on_result
        self._given = 0
        self._deadline = anyio.current_time() + box.batch_timeout
        self._limiter = anyio.CapacityLimiter(box.workers)

    async def run(self, segment: Sequence[_Slot]) -> None:
        """Run calls that may run together; returns when all of them are answered or given up."""
        if self.stopped_by is not None:
            return
        async with anyio.create_task_group() as group:
            for slot in segment:
                slot.parallel = len(segment) > 1
                group.start_soon(self._answer, slot, group.cancel_scope)

    async def _answer(self, slot: _Slot, everything: anyio.CancelScope) -> None:
        """Run one call and hand over what is ready; a `KeyboardInterrupt` of the tool stops all others."""
        async with self._limiter:
            slot.begun = True
            try:
                with self.context.recorder.scope(_event(slot, self.context.agent_name)) as event:
                    try:
                        slot.result = await self._result(slot, event)
                    finally:
                        _fill_in(event, slot)
                self._hand_over()
            except (KeyboardInterrupt, Exception) as stop:  # noqa: BLE001  raised again by run(), outside of the group
                self.stopped_by = stop
                everything.cancel("the batch is stopped")

    async def _result(self, slot: _Slot, event: events.Tool) -> ToolResult:
        seconds = self._time_for(slot)
        if seconds <= 0:
            return ToolResult(slot.call, LATE, "skipped", "batch_timeout")
        context = self.context.for_call(event)
        try:
            with anyio.move_on_after(seconds):
                return self._bounded(slot, await self._invoke(slot, context))
        except (ToolFailed, InvalidArguments) as refusal:
            return self._bounded(slot, _refused(slot, refusal))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) or _is_cancelled(error):
                context.give_up()
                raise
            return ToolResult(slot.call, results.exception_text(error), "error", type(error).__name__)
        context.give_up()
        text = f"[The call was given up after {seconds:.3g} s; its effect is unknown.]"
        return ToolResult(slot.call, text, "timeout", "timeout")

    async def _invoke(self, slot: _Slot, context: ToolContext) -> ToolResult:
        """The tool's own answer.

        Raises:
            InvalidArguments: There is no such tool, or the arguments are not for it.
        """
        if slot.tool is None:
            known = ", ".join(self.box.tools) or "none"
            msg = f"There is no tool {slot.call.name[:100]!r}. Valid tools: {known}."
            raise ToolFailed(results.error_text(msg), "unknown_tool")
        value = await slot.tool.invoke(_parsed(slot.call), context)
        return ToolResult(slot.call, results.readable(value), value=value)

    def _time_for(self, slot: _Slot) -> float:
        own = slot.options.timeout
        return max(0.0, self._deadline - anyio.current_time()) if own is None else own

    def _bounded(self, slot: _Slot, result: ToolResult) -> ToolResult:
        limit = slot.options.result_limit or self.box.result_limit
        return result if results.size(result.content) <= limit else self._shortened(result, limit)

    def _shortened(self, result: ToolResult, limit: int) -> ToolResult:
        short = results.shorten(result.content, self.box.spill, preview=min(results.PREVIEW, limit))
        if self.box.spill is not None and not short.stored_at:
            told = f"the whole result of {result.call.name} could not be written to {self.box.spill}"
            self.context.recorder.tell(events.Degraded("tool", told))
        value = result.value if result.value is not None else result.content
        return replace(result, content=short.content, value=value, truncated=True, stored_at=short.stored_at)

    # ------------------------------------------------------------------------------------------ handing over

    def _hand_over(self) -> None:
        """Give the results that are next in order, as far as the batch's limit can be foreseen."""
        while self._given < len(self.slots):
            slot = self.slots[self._given]
            if slot.result is None or not self._may_be_given(slot.result):
                return
            self._give(slot.result)

    def _may_be_given(self, result: ToolResult) -> bool:
        """Whether the batch's limit will let this result stand, whatever the open calls return."""
        if all(slot.result for slot in self.slots):
            self._shrink()
            return True
        open_calls = len(self.slots) - self._given
        return results.size(result.content) * open_calls <= self._room()

    def _room(self) -> int:
        given = (slot.result for slot in self.slots[: self._given])
        return self.box.batch_limit - sum(results.size(result.content) for result in given if result)

    def _shrink(self) -> None:
        """Cut the largest results that are not given yet, until all of them fit."""
        open_slots = [slot for slot in self.slots[self._given :] if slot.result]
        for slot in sorted(open_slots, key=lambda slot: -_size(slot)):
            if sum(map(_size, open_slots)) <= self._room() or _size(slot) <= 2 * results.PREVIEW:
                return
            if slot.result:
                slot.result = self._shortened(slot.result, results.PREVIEW)

    def _give(self, result: ToolResult) -> None:
        self._given += 1
        self._on_result(result)

    def settle(self) -> None:
        """Answer every call that has no answer yet."""
        for slot in self.slots:
            if slot.result is None:
                slot.result = _unfinished(slot)
                if not slot.begun:
                    with self.context.recorder.scope(_event(slot, self.context.agent_name)) as event:
                        _fill_in(event, slot)
        self._hand_over()


def _size(slot: _Slot) -> int:
    return results.size(slot.result.content) if slot.result else 0


def _event(slot: _Slot, agent: str) -> events.Tool:
    return events.Tool(
        name=slot.tool.spec.name if slot.tool else slot.call.name,
        call_id=slot.call.id,
        arguments=slot.call.arguments,
        index=slot.index,
        parallel=slot.parallel,
        type=slot.options.type,
        description=slot.tool.spec.description if slot.tool else "",
        agent=agent,
        delegate=slot.options.delegate,
    )


def _fill_in(event: events.Tool, slot: _Slot) -> None:
    result = slot.result or _unfinished(slot)
    event.status = result.status
    event.result = result.content
    event.result_chars = results.size(result.content)
    event.truncated = result.truncated
    event.error_type = result.error_type
    if result.error_type:
        event.error = results.plain(result.content)


def _unfinished(slot: _Slot) -> ToolResult:
    return ToolResult(slot.call, CANCELLED, "cancelled") if slot.begun else ToolResult(slot.call, SKIPPED, "skipped")


def _refused(slot: _Slot, refusal: ToolFailed | InvalidArguments) -> ToolResult:
    if isinstance(refusal, ToolFailed):
        return ToolResult(slot.call, refusal.content, "error", refusal.error_type)
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


def _is_cancelled(error: BaseException) -> bool:
    """Whether this is a cancellation from outside, not one that a tool made up or brought about within itself."""
    return isinstance(error, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -math.inf
