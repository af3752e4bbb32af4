"""Run a toolbox's batch as a turn does, and keep what came of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import anyio

from hermes_nb.tools.context import ToolContext
from hermes_nb.tools.toolbox import Toolbox
from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary.messages import ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_nb.vocabulary.events import Event


def ask(name: str, id_: str = "", /, **arguments: Any) -> ToolCall:
    """A call with well-formed arguments."""
    return ToolCall(id_ or f"call_{name}", name, json.dumps(arguments))


@dataclass
class Batch:
    """What a batch left behind."""

    calls: tuple[ToolCall, ...]
    results: list[ToolResult] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    raised: BaseException | None = None
    cancelled: bool = False

    @property
    def statuses(self) -> list[str]:
        return [result.status for result in self.results]

    @property
    def texts(self) -> list[str]:
        return [str(result.content) for result in self.results]

    def ended(self) -> list[Event]:
        return [event for event in self.events if event.phase == "ended"]

    def told(self, kind: str) -> list[Any]:
        return [event.what for event in self.events if event.what.kind == kind and event.phase != "started"]


def run_batch(
    tools: Toolbox | list[Any],
    *calls: ToolCall,
    cancel_after: float | None = None,
    cancel_when: Callable[[], Any] | None = None,
    on_result: Callable[[ToolResult], None] | None = None,
    context: ToolContext | None = None,
    **settings: Any,
) -> Batch:
    """Run the calls to their end; `cancel_when` is an async function whose return cancels the batch."""
    box = tools if isinstance(tools, Toolbox) else Toolbox(tools, **settings)
    batch = Batch(calls)
    recorder = Recorder("turn", "conversation", [batch.events.append])
    seen = replace(context or ToolContext(agent_name="tester"), recorder=recorder, directory=box.spill)

    def take(result: ToolResult) -> None:
        batch.results.append(result)
        if on_result is not None:
            on_result(result)

    async def main() -> None:
        with anyio.CancelScope() as scope:
            if cancel_after is not None:
                scope.deadline = anyio.current_time() + cancel_after
            async with anyio.create_task_group() as group:
                if cancel_when is not None:

                    async def watch() -> None:
                        await cancel_when()
                        scope.cancel()

                    group.start_soon(watch)
                try:
                    await box.run(calls, context=seen, on_result=take)
                except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001  kept for the test to look at
                    batch.raised = error
                group.cancel_scope.cancel()
        batch.cancelled = scope.cancelled_caught

    anyio.run(main)
    return batch
