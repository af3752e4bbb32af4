"""What was said in a model call, read from attributes of any age into one form: the GenAI conventions' messages.

A message is `{"role": ..., "parts": [{"type": "text", "content": ...}, ...]}`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.jsons import dumps, loads
from hermes_nb.turn.prompting import STEER_CLOSE, STEER_OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Message = dict[str, Any]

_LONGEST: Final = 100_000
"""A place in a list that is read from the name of an attribute is at most this, whatever the name says."""


def inputs(attributes: Mapping[str, Any]) -> list[Message]:
    """The messages sent."""
    return (
        _listed(attributes.get("gen_ai.input.messages"))
        or _openinference(attributes, "llm.input_messages.")
        or _numbered(attributes, "gen_ai.prompt.")
        or _listed(attributes.get("gen_ai.prompt"))
    )


def outputs(attributes: Mapping[str, Any]) -> list[Message]:
    """The messages that came back."""
    return (
        _listed(attributes.get("gen_ai.output.messages"))
        or _openinference(attributes, "llm.output_messages.")
        or _numbered(attributes, "gen_ai.completion.")
        or _listed(attributes.get("gen_ai.completion"), role="assistant")
    )


def instructions(attributes: Mapping[str, Any]) -> list[Message]:
    """The system prompt, as a message; none where it stands among the input."""
    value = _value(attributes.get("gen_ai.system_instructions"))
    if value is None:
        return []
    return [{"role": "system", "parts": _content_parts(value)}]


def from_event(name: str, attributes: Mapping[str, Any], body: Any = None) -> tuple[str, Message] | None:
    """The message of one of the older message events, with `input` or `output`; None for any other event."""
    found = _EVENTS.fullmatch(name)
    if found is None:
        return None
    told = {**attributes, **body} if isinstance(body, dict) else attributes
    inner = _value(told.get("message"))
    told = {**told, **inner} if isinstance(inner, dict) else told
    role = {"choice": "assistant"}.get(found[1] or "choice", found[1])
    message = _message({"role": role, **{key.removeprefix("gen_ai.event."): value for key, value in told.items()}})
    return ("output" if found[1] is None else "input"), {**message, "role": role}


_EVENTS = re.compile(r"gen_ai\.(?:(system|user|assistant|tool)\.message|choice)")


def messages(values: Any, role: str = "user") -> list[Message]:
    """Messages in the OpenAI form or the conventions', from a list, its JSON, or plain text (of `role`)."""
    return _listed(values, role)


def text_of(message: Message) -> str:
    """The text parts of a message, as lines."""
    return "\n".join(str(part.get("content", "")) for part in message["parts"] if part.get("type") == "text")


def parts(message: Message) -> Iterator[dict[str, Any]]:
    """The parts of a message as rows: role, kind, content as text, call, tool; a steer is a part of its own."""
    for part in message["parts"]:
        kind = str(part.get("type") or "text")
        row = {"role": message["role"], "part_type": kind}
        row |= {"tool_call_id": as_name(part.get("id")), "tool_name": as_name(part.get("name"))}
        if kind == "tool_call":
            yield row | {"content": as_text(part.get("arguments"))}
        elif kind == "tool_call_response":
            text, steers = _without_steers(as_text(part.get("response", part.get("result"))))
            yield row | {"content": text}
            for steer in steers:
                yield {"role": "user", "part_type": "text", "content": steer, "origin": "steer"}
        else:
            yield row | {"content": as_text(part.get("content", part))}


def _without_steers(text: str) -> tuple[str, list[str]]:
    """A tool result, and the steers that were sent at its end."""
    head, mark, tail = text.partition(f"\n\n{STEER_OPEN}\n")
    if not mark or not tail.endswith(f"\n{STEER_CLOSE}"):
        return text, []
    return head, [steer.removesuffix(f"\n{STEER_CLOSE}") for steer in tail.split(f"\n\n{STEER_OPEN}\n")]


def as_text(value: Any) -> str:
    """A part's content as text: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else dumps(value)


def as_name(value: Any) -> str | None:
    """An id or a name; None for an empty one."""
    return str(value) if value else None


# ---------------------------------------------------------------------------------------------- forms


def _value(value: Any) -> Any:
    """The value that JSON text holds; text that is no JSON stays text."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    try:
        return loads(value)
    except ValueError:
        return value


def _listed(value: Any, role: str = "user") -> list[Message]:
    found = _value(value)
    if isinstance(found, str) and found:
        return [{"role": role, "parts": [{"type": "text", "content": found}]}]
    if isinstance(found, dict):
        found = found.get("messages") or [found]
    return [_message(each) for each in found if isinstance(each, dict)] if isinstance(found, list | tuple) else []


def _message(given: Mapping[str, Any]) -> Message:
    """One message, from the conventions' form or the OpenAI form."""
    role = str(given.get("role") or "user")
    if isinstance(given.get("parts"), list):
        return {"role": role, "parts": _content_parts(given["parts"])}
    if role == "tool":
        answer = {"type": "tool_call_response", "id": given.get("tool_call_id") or given.get("id")}
        return {"role": role, "parts": [{**answer, "response": _value(given.get("content"))}]}
    calls = _value(given.get("tool_calls"))
    return {
        "role": role,
        "parts": [
            *([{"type": "reasoning", "content": given["reasoning"]}] if given.get("reasoning") else []),
            *_content_parts(_value(given.get("content"))),
            *(_call(call) for call in (calls if isinstance(calls, list | tuple) else ()) if isinstance(call, dict)),
        ],
    }


def _content_parts(value: Any) -> list[dict[str, Any]]:
    if value is None or value == "":
        return []
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list | tuple):
        return [{"type": "text", "content": str(value)}]
    return [_part(part) if isinstance(part, dict) else {"type": "text", "content": str(part)} for part in value]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type", "text") == "text" and "content" not in part:
        return {"type": "text", "content": str(part.get("text", ""))}
    return part


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": named.get("name"),
        "arguments": _value(named.get("arguments")),
    }


# ---------------------------------------------------------------------------------------------- flat attributes


def _nested(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """A list from flat attributes: `prefix0.a.b`, `prefix1.c`, ..."""
    root: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            *way, last = key[len(prefix) :].split(".")
            place = root
            for step in way:
                below = place.setdefault(step, {})
                place = below if isinstance(below, dict) else {}
            place[last] = value
    return _in_order(root)


def _in_order(found: Any) -> list[Any]:
    """The values of numbered keys, by their numbers."""
    if not isinstance(found, dict):
        return []
    numbers = sorted(
        (int(key), key) for key in found if key.isascii() and key.isdigit() and len(key) < len(str(_LONGEST))
    )
    return [found[key] for _, key in numbers]


def _openinference(attributes: Mapping[str, Any], prefix: str) -> list[Message]:
    return [_message(_plain(each)) for each in _dicts(_nested(attributes, prefix), "message")]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """The OpenAI form of OpenInference's nested attributes."""
    contents = _dicts(_in_order(message.get("contents")), "message_content")
    calls = _dicts(_in_order(message.get("tool_calls")), "tool_call")
    content = [{**part, "content": part["text"]} if "text" in part else part for part in contents]
    return {**message, "content": content or message.get("content"), "tool_calls": calls}


def _dicts(values: Iterable[Any], key: str) -> list[dict[str, Any]]:
    inner = (value.get(key) for value in values if isinstance(value, dict))
    return [value for value in inner if isinstance(value, dict)]


def _numbered(attributes: Mapping[str, Any], prefix: str) -> list[Message]:
    found = (each for each in _nested(attributes, prefix) if isinstance(each, dict))
    return [_message({**each, "tool_calls": _in_order(each.get("tool_calls"))}) for each in found]
