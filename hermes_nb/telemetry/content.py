"""What was said, in the GenAI conventions' form: messages, instructions, tools, arguments and results.

On spans these are JSON strings, because viewers drop anything else. Each output message has a finish reason, because
some drop all of a span's messages if one lacks it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from hermes_nb.telemetry import semconv as s
from hermes_nb.telemetry.rows import FINISH_REASONS
from hermes_nb.telemetry.values import plain
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.growing import common_length
from hermes_nb.vocabulary.texts import json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes_nb.telemetry.store import Kept
    from hermes_nb.vocabulary.messages import Content as MessageContent
    from hermes_nb.vocabulary.messages import Message, ToolCall, ToolSpec

Content: TypeAlias = Literal["none", "new", "full"]
"""`none`; `new`: of a chat's messages only those that the chat before did not have; `full`."""

Redact: TypeAlias = "Callable[[str], str]"
Attributes = dict[str, Any]


def content_attributes(
    kept: Kept,
    content: Content,
    *,
    redact: Redact = str,
    redact_output: Redact | None = None,
    openinference: bool = True,
) -> Attributes:
    """The attributes of a span that tell what was said; empty for `none`.

    Args:
        kept: The span and what it stands for.
        content: How much.
        redact: Applied to each text before it becomes part of the JSON.
        redact_output: Applied instead to what came out of a model or a tool.
        openinference: Add the input and output that list views show.
    """
    if content == "none":
        return {}
    what = kept.what
    sides = _Sides(redact, redact_output or redact)
    if isinstance(what, events.Chat):
        return _chat(what, sides) if content == "full" else _new(what, kept.previous, sides)
    if isinstance(what, events.Turn):
        return _turn(what, kept.system, sides, openinference=openinference)
    if isinstance(what, events.Tool):
        return _tool(what, sides, openinference=openinference)
    if isinstance(what, events.Compression) and what.summary:
        return {s.HERMES_COMPRESSION_SUMMARY: sides.output(what.summary)}
    return {}


def point_content(what: object, *, redact: Redact = str) -> Attributes:
    """The attributes of a span event that tell what was said."""
    return {s.HERMES_STEER_TEXT: redact(what.text)} if isinstance(what, events.Steered) else {}


class _Sides(NamedTuple):
    """What is applied to texts that go in, and to those that come out."""

    input: Redact
    output: Redact


def _chat(chat: events.Chat, sides: _Sides, offset: int = 0) -> Attributes:
    system, messages = split_system(chat.messages)
    out: Attributes = {s.GEN_AI_INPUT_MESSAGES: as_json([message(m, sides.input) for m in messages[offset:]])}
    if system:
        out[s.GEN_AI_SYSTEM_INSTRUCTIONS] = instructions(system, sides.input)
    if chat.tools:
        out[s.GEN_AI_TOOL_DEFINITIONS] = as_json([definition(tool) for tool in chat.tools])
    if chat.reply is not None:
        reason = chat.reply.finish_reason
        answer = {**message(chat.reply.message, sides.output), "finish_reason": FINISH_REASONS.get(reason, reason)}
        out[s.GEN_AI_OUTPUT_MESSAGES] = as_json([answer])
    return out


def _new(chat: events.Chat, previous: events.Chat | None, sides: _Sides) -> Attributes:
    """Of a chat, what the one before did not have: messages behind an offset, another prompt, other tools."""
    if previous is None:
        return _chat(chat, sides) | {s.HERMES_MESSAGES_OFFSET: 0}
    (old_system, old), (system, messages) = split_system(previous.messages), split_system(chat.messages)
    offset = common_length(old, messages)
    out = _chat(chat, sides, offset) | {s.HERMES_MESSAGES_OFFSET: offset}
    if system == old_system:
        out.pop(s.GEN_AI_SYSTEM_INSTRUCTIONS, None)
    if chat.tools == previous.tools:
        out.pop(s.GEN_AI_TOOL_DEFINITIONS, None)
    return out


def _turn(turn: events.Turn, system: str, sides: _Sides, *, openinference: bool) -> Attributes:
    prompt = parts(turn.prompt, sides.input)
    out = {s.GEN_AI_INPUT_MESSAGES: as_json([{"role": "user", "parts": prompt}])}
    if system:
        out[s.GEN_AI_SYSTEM_INSTRUCTIONS] = instructions(system, sides.input)
    if turn.text:
        answer = {"role": "assistant", "parts": parts(turn.text, sides.output), "finish_reason": "stop"}
        out[s.GEN_AI_OUTPUT_MESSAGES] = as_json([answer])
    if openinference:
        shown = "\n".join(part["content"] for part in prompt if part["type"] == "text")
        out |= {s.INPUT_VALUE: shown, s.INPUT_MIME_TYPE: "text/plain"}
        if turn.text:
            out |= {s.OUTPUT_VALUE: sides.output(turn.text), s.OUTPUT_MIME_TYPE: "text/plain"}
    return out


def _tool(tool: events.Tool, sides: _Sides, *, openinference: bool) -> Attributes:
    called = arguments(tool.arguments, sides.input)
    given = called if isinstance(called, str) else as_json(called)
    out = {s.GEN_AI_TOOL_CALL_ARGUMENTS: given}
    if openinference:
        out |= {s.INPUT_VALUE: given, s.INPUT_MIME_TYPE: "application/json"}
    if not tool.status:
        return out
    plain_text = isinstance(tool.result, str)
    result = sides.output(tool.result) if isinstance(tool.result, str) else as_json(parts(tool.result, sides.output))
    out[s.GEN_AI_TOOL_CALL_RESULT] = result
    if openinference:
        out |= {s.OUTPUT_VALUE: result, s.OUTPUT_MIME_TYPE: "text/plain" if plain_text else "application/json"}
    return out


# ---------------------------------------------------------------------------------------------- messages


def split_system(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """The system prompt at the head of a request, and the messages behind it."""
    if messages and messages[0].role == "system":
        return messages[0].text, messages[1:]
    return "", messages


def message(what: Message, redact: Redact = str) -> dict[str, Any]:
    """One message."""
    if what.role == "tool":
        response = redact(what.content) if isinstance(what.content, str) else parts(what.content, redact)
        found = [{"type": "tool_call_response", "id": what.tool_call_id or "", "response": response}]
        return {"role": "tool", "parts": found}
    thought = [{"type": "reasoning", "content": redact(what.reasoning)}] if what.reasoning else []
    return {
        "role": what.role,
        "parts": [*thought, *parts(what.content, redact), *(_call(c, redact) for c in what.tool_calls)],
    }


def _call(call: ToolCall, redact: Redact) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments(call.arguments, redact)}


def arguments(text: str, redact: Redact = str) -> Any:
    """A call's arguments as data; as the text they are, if they are no JSON object."""
    found = json_object(text or "{}")
    return redact(text) if found is None else _redacted(found, redact)


def _redacted(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _field(key, item, redact) for key, item in value.items()}
    return [_redacted(item, redact) for item in value] if isinstance(value, list) else value


def _field(name: str, value: Any, redact: Redact) -> Any:
    """A field's value; with its name in front of it, so that a redactor sees that it is a password."""
    if not isinstance(value, str):
        return _redacted(value, redact)
    lead = f"{name}="
    shown = redact(lead + value)
    return shown.removeprefix(lead) if shown.startswith(lead) else redact(value)


def instructions(text: str, redact: Redact = str) -> str:
    """System instructions, as a JSON string."""
    return as_json([{"type": "text", "content": redact(text)}])


def definition(tool: ToolSpec) -> dict[str, Any]:
    """A tool as the model is told of it."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": plain(tool.parameters),
    }


# ---------------------------------------------------------------------------------------------- parts


def parts(content: MessageContent, redact: Redact = str) -> list[dict[str, Any]]:
    """The parts of a message's content."""
    if isinstance(content, str):
        return [{"type": "text", "content": redact(content)}] if content else []
    return [_part(part, redact) for part in content]


def _part(part: dict[str, Any], redact: Redact) -> dict[str, Any]:
    kind = str(part.get("type", ""))
    if kind == "text":
        return {"type": "text", "content": redact(str(part.get("text", "")))}
    if kind == "image_url":
        link = part.get("image_url")
        return _link(str(link.get("url", "") if isinstance(link, dict) else link), "image", redact)
    sound = part.get("input_audio")
    if kind == "input_audio" and isinstance(sound, dict):
        mime = f"audio/{sound.get('format', 'wav')}"
        return {"type": "blob", "modality": "audio", "mime_type": mime, "content": str(sound.get("data", ""))}
    return {**_redacted(plain(part), redact), "type": kind or "unknown"}


def _link(url: str, modality: str, redact: Redact) -> dict[str, Any]:
    """Data in the URL, or a URL to data elsewhere."""
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma:
        mime = head.removeprefix("data:").partition(";")[0]
        return {"type": "blob", "modality": modality, "mime_type": mime or None, "content": data}
    return {"type": "uri", "modality": modality, "uri": redact(url)}


def as_json(value: Any) -> str:
    """Compact JSON that any reader takes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
