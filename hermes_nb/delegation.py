"""Sub-agents: an agent as a tool of another, under the same trace, with a share of its budget."""

from __future__ import annotations

import asyncio
import math
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hermes_nb.tools.context import ToolFailed
from hermes_nb.tools.definition import ToolOptions
from hermes_nb.turn.inbox import Inbox
from hermes_nb.turn.loop import run_turn
from hermes_nb.turn.request import TurnRequest
from hermes_nb.vocabulary.messages import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.agent import Agent, Injecting
    from hermes_nb.tools.context import ToolContext
    from hermes_nb.turn.request import Policies
    from hermes_nb.turn.result import TurnResult
    from hermes_nb.turn.state import TurnState

SCHEMA = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "What to do, with all that must be known for it."}},
    "required": ["task"],
}


@dataclass(frozen=True)
class AgentTool:
    """A sub-agent; made by `Agent.as_tool`.

    Its turn has an id, messages and spans of its own, below the call's span. It draws its iterations from the parent's
    budget, may use what is left of the parent's ceiling, and ends when the parent is interrupted.
    """

    agent: Agent
    budget: int
    name: str
    description: str = ""
    guidance: str = ""
    faults: Injecting | None = field(default=None, repr=False)
    """Those of the agent above, if the sub-agent has none of its own."""

    @property
    def spec(self) -> ToolSpec:
        """One parameter: the task."""
        told = self.description or self.agent.instructions or f"Gives a task to the agent {self.agent.name}."
        return ToolSpec(self.name, told, SCHEMA, self.guidance)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys of its providers, and of its own sub-agents."""
        return (*(secret for model in self.agent.models for secret in model.secrets), *self.agent.toolbox.secrets)

    @property
    def options(self) -> ToolOptions:
        """Sub-agents may run side by side, and take their time: the budget and the ceiling bound them."""
        return ToolOptions(parallel_safe=True, delegate=self.agent.name, type="extension", timeout=math.inf)

    async def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Run the sub-agent's turn.

        Raises:
            ToolFailed: The turn failed, or may not be started; the model reads why.
        """
        task = str(arguments.get("task") or "").strip()
        if not task:
            msg = "the parameter `task` is missing: say what the sub-agent is to do"
            raise ToolFailed(msg, "invalid_arguments")
        parent: TurnState = context.turn
        run = self._run(task, context, parent)
        if (home := parent.event_loop) is not asyncio.get_running_loop():  # an async tool of the user's calls this one
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run, home))
        return await run

    async def _run(self, task: str, context: ToolContext, parent: TurnState) -> dict[str, Any]:
        """The sub-agent's turn, in the event loop of its parent's.

        Raises:
            ToolFailed: It failed, or may not be started.
        """
        if refusal := parent.request.policies.delegation.refusal():
            raise ToolFailed(refusal, "delegation_depth")
        async with parent.delegates:
            if reached := parent.ceiling:
                msg = f"The task was not handed on: {reached}."
                raise ToolFailed(msg, "ceiling_reached")
            request = self._request(task, parent)
            if context.event is not None:
                context.event.child_turn_id = request.turn_id
            result = await run_turn(
                request,
                budget=context.budget.child(self.budget),
                inbox=Inbox(),
                recorder=parent.recorder.child(request.turn_id),
            )
        _book(parent, result)
        if result.failed:
            words = f"{result.exit_reason}: {result.failure or result.detail}"
            raise ToolFailed(words, result.exit_reason.value)
        return _answer(result)

    def _request(self, task: str, parent: TurnState) -> TurnRequest:
        agent = self.agent
        request = TurnRequest(
            prompt=task,
            history=(),
            chain=agent.models,
            toolbox=agent.toolbox.fitted(agent.models[0].context_window, parent.request.toolbox.spill),
            checkpoints=agent.checkpoints or parent.request.checkpoints,
            instructions=agent.instructions,
            context=agent.context,
            agent=agent.name,
            policies=_policies(agent, parent),
            turn_id=str(uuid.uuid4()),
            conversation_id=parent.request.conversation_id,
            parent_turn_id=parent.request.turn_id,
            parent=parent,
        )
        faults = agent.faults or self.faults
        return request if faults is None else faults.inject(request)


def _policies(agent: Agent, parent: TurnState) -> Policies:
    """The sub-agent's own policies, within what its parent has left."""
    own, above = agent.policies, parent.request.policies
    left = above.ceiling.left(parent.usage.total_tokens, parent.elapsed, parent.cost_usd or 0.0)
    return replace(own, ceiling=own.ceiling.within(left), delegation=own.delegation.below(above.delegation))


def _book(parent: TurnState, result: TurnResult) -> None:
    """Tell what the sub-agent took from its parent's budget; tokens and money were added as they came."""
    if result.budget.used:
        view = parent.budget.mark()
        parent.tell_budget("consume", view, delta=-result.budget.used, reason=result.turn_id, actor="subagent")


def _answer(result: TurnResult) -> dict[str, Any]:
    """What the parent's model reads."""
    return {
        "status": result.exit_reason.value,
        "summary": result.text,
        "iterations": result.iterations,
        "tool_calls": result.tool_calls,
        "tokens": {"input": result.usage.input_tokens, "output": result.usage.output_tokens},
    }
