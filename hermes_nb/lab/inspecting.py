"""Our agents in evaluations of inspect_ai, with their tasks and scorers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermes_nb.lab.recording import recording_of
from hermes_nb.lab.trajectories import Trajectory
from hermes_nb.vocabulary.failures import ConfigurationError
from hermes_nb.vocabulary.messages import Message, ToolCall
from hermes_nb.vocabulary.texts import json_object

if TYPE_CHECKING:
    from hermes_nb.agent import Agent
    from hermes_nb.turn.result import TurnResult


def to_inspect(agent: Agent) -> Any:
    """This agent as one of inspect_ai's: `Task(dataset, solver=hn.to_inspect(agent), scorer=match())`.

    Each sample is one turn, with the loop, tools and policies of this agent. How it ended stands in the metadata of the
    output: `exit_reason`, `turn_id`, `iterations`. A turn that failed is an answer without text, not an error of the
    sample.

    Args:
        agent: Who answers.

    Returns:
        An `inspect_ai.agent.Agent`.

    Raises:
        ConfigurationError: inspect_ai is not installed.
    """
    try:
        from inspect_ai.agent import AgentState  # noqa: PLC0415  an optional package
        from inspect_ai.agent import agent as named  # noqa: PLC0415
    except ImportError as error:
        msg = "to_inspect() needs the package inspect_ai: pip install 'hermes-nb[inspect]'"
        raise ConfigurationError(msg) from error

    async def execute(state: AgentState) -> AgentState:
        *before, last = (_ours(message) for message in state.messages)
        run = agent.start(last.content, history=before, session=False, metadata={"framework": "inspect_ai"})
        result = await run
        said = Trajectory.of(recording_of(run)).messages  # whole, also where the history was compressed
        state.messages += [_theirs(message) for message in said[_known(before) + 1 :]]
        state.output = _output(result)
        return state

    execute.__annotations__ = {"state": AgentState, "return": AgentState}  # inspect_ai reads types, not their names
    return named(name=agent.name)(lambda: execute)()


def _known(before: list[Message]) -> int:
    return sum(message.role != "system" for message in before)


def _ours(message: Any) -> Message:
    """A message of theirs."""
    calls = tuple(
        ToolCall(call.id, call.function, json.dumps(call.arguments))
        for call in getattr(message, "tool_calls", None) or ()
    )
    name, call_id = getattr(message, "function", None), getattr(message, "tool_call_id", None)
    return Message(message.role, message.text, calls, call_id, name)


def _theirs(message: Message) -> Any:
    """A message of ours."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, ChatMessageUser  # noqa: PLC0415
    from inspect_ai.tool import ToolCall as TheirCall  # noqa: PLC0415

    if message.role == "tool":
        return ChatMessageTool(content=message.text, tool_call_id=message.tool_call_id, function=message.name)
    if message.role == "user":
        return ChatMessageUser(content=message.text)
    calls = [TheirCall(id=c.id, function=c.name, arguments=_arguments(c)) for c in message.tool_calls]
    return ChatMessageAssistant(content=message.text, tool_calls=calls or None)


def _arguments(call: ToolCall) -> dict[str, Any]:
    found = json_object(call.arguments)
    return {"_raw": call.arguments} if found is None else found


def _output(result: TurnResult) -> Any:
    from inspect_ai.model import ModelOutput, ModelUsage  # noqa: PLC0415

    output = ModelOutput.from_content(f"{result.provider}/{result.model}", result.text if not result.failed else "")
    usage = result.usage
    output.usage = ModelUsage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=usage.total_tokens
    )
    output.error = str(result.failure or result.detail) if result.failed else None
    output.metadata = {
        "exit_reason": result.exit_reason.value,
        "turn_id": result.turn_id,
        "iterations": result.iterations,
        "cost_usd": result.cost_usd,
    }
    return output
