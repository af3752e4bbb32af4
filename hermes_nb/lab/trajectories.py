"""A turn as one line of a data set: everything that was said, once and in order, with what it took."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.growing import common_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hermes_nb.lab.recording import Recording
    from hermes_nb.vocabulary.messages import Message, ToolCall, ToolSpec

FORMS = ("chat", "sharegpt")
"""How a trajectory can be written."""


@dataclass(frozen=True)
class Trajectory:
    """All that was said in a turn, and before it.

    Attributes:
        turn_id: The turn.
        system: The system prompt with which it began.
        messages: The conversation before the turn and the turn's own messages.
        tools: What the model could call.
        exit_reason: Why the turn ended; `killed` where it never did.
        about: What else is known: ids, model, tokens, cost, seconds, labels.
    """

    turn_id: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    exit_reason: str
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def completed(self) -> bool:
        """Whether the task was done."""
        return self.exit_reason == "completed"

    @classmethod
    def of(cls, recording: Recording) -> Trajectory:
        """The trajectory of a recorded turn."""
        turn, told = recording.turn, recording.told
        chats = [what for what in recording.ends.values() if isinstance(what, events.Chat) and what.purpose == "main"]
        return cls(
            turn_id=recording.turn_id,
            system=recording.system,
            messages=_said(recording),
            tools=next((chat.tools for chat in chats if chat.tools), ()),
            exit_reason=turn.exit_reason or "killed",
            about={
                "turn_id": recording.turn_id,
                "conversation_id": told[0].conversation_id,
                "exit_reason": turn.exit_reason or "killed",
                "completed": turn.completed,
                "provider": chats[-1].provider if chats else turn.provider,
                "model": chats[-1].model if chats else turn.model,
                "iterations": turn.iterations,
                "api_calls": turn.api_calls,
                "tool_calls": turn.tool_calls,
                "input_tokens": turn.usage.input_tokens if turn.usage else None,
                "output_tokens": turn.usage.output_tokens if turn.usage else None,
                "cost_usd": turn.cost_usd,
                "seconds": (told[-1].at - told[0].at) / 1e9,
                "started_at": told[0].at / 1e9,
                "metadata": dict(turn.metadata),
            },
        )

    def as_dict(self, form: str) -> dict[str, Any]:
        """The line, as `chat` or as `sharegpt`."""
        if form == "sharegpt":
            spoken = list(_spoken(self.system, self.messages))
            return {"conversations": spoken, "tools": _specs(self.tools), **self.about}
        system = [{"role": "system", "content": self.system}] if self.system else []
        return {"messages": [*system, *map(_plain, self.messages)], "tools": _specs(self.tools), **self.about}


def _said(recording: Recording) -> tuple[Message, ...]:
    """Every message once: a compression takes nothing away; a whole answer takes the place of its parts."""
    everything, current = list(recording.history), list(recording.history)
    for event in recording.told:
        if isinstance(event.what, events.MessageAdded):
            everything.append(event.what.message)
            current.append(event.what.message)
        elif isinstance(event.what, events.HistoryReplaced):
            if not _is_compression(recording, event):
                same = common_length(current, event.what.messages)
                del everything[len(everything) - (len(current) - same) :]
                everything += event.what.messages[same:]
            current = list(event.what.messages)
    return tuple(everything)


def _is_compression(recording: Recording, event: events.Event) -> bool:
    around = (event.scope, *recording.around(event.scope))
    return any(isinstance(recording.ends.get(scope), events.Compression) for scope in around)


# ------------------------------------------------------------------------------------------- forms


def _specs(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
        }
        for tool in tools
    ]


def _plain(message: Message) -> dict[str, Any]:
    """The message as servers take it for fine-tuning: without fields that only we or one provider know."""
    told = message.as_dict()
    return {name: told[name] for name in ("role", "content", "tool_calls", "tool_call_id", "name") if name in told}


def _spoken(system: str, messages: Sequence[Message]) -> Iterator[dict[str, str]]:
    """The ShareGPT form; the results of one reply's calls are one turn of the tool."""
    if system:
        yield {"from": "system", "value": system}
    results: list[str] = []
    for message in messages:
        if message.role == "tool":
            results.append(_tag("tool_response", _response(message)))
            continue
        if results:
            yield {"from": "tool", "value": "\n".join(results)}
            results = []
        if message.role == "assistant":
            yield {"from": "gpt", "value": _answered(message)}
        else:
            yield {"from": "human" if message.role == "user" else "system", "value": message.text}
    if results:
        yield {"from": "tool", "value": "\n".join(results)}


def _answered(message: Message) -> str:
    calls = [_tag("tool_call", _call(call)) for call in message.tool_calls]
    parts = [f"<think>\n{message.reasoning}\n</think>", message.text, *calls]
    return "\n".join(part for part in parts if part)


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": _parsed(call.arguments)}


def _response(message: Message) -> dict[str, Any]:
    return {"tool_call_id": message.tool_call_id, "name": message.name, "content": _parsed(message.text)}


def _tag(name: str, value: Any) -> str:
    """JSON between tags; a tag within it is told from the real one by its escape."""
    told = json.dumps(value, ensure_ascii=False).replace("</", "<\\/")
    return f"<{name}>\n{told}\n</{name}>"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
