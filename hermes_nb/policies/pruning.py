"""Making messages smaller without a model: old tool results to one line, long arguments cut but valid JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hermes_nb.vocabulary.messages import Content, Message, ToolCall

LONG_RESULT, LONG_ARGUMENTS, LONG_TEXT = 200, 500, 200
"""Characters above which a result becomes a digest, a call's arguments are cut, and a text in them is cut
(hermes-agent 0.19.0)."""

DUPLICATE = "[The same result stands further below.]"
_SHOWN_ARGUMENTS = 80


def groups(messages: Iterable[Message]) -> list[list[Message]]:
    """The messages in units that must stay together: a message with calls and all its results, steers included."""
    found: list[list[Message]] = []
    for message in messages:
        if found and (message.role == "tool" or message.origin == "steer"):
            found[-1].append(message)
        else:
            found.append([message])
    return found


def prune(
    messages: Sequence[Message], *, size: Callable[[Message], int], room: float, protect: int = 0
) -> list[Message]:
    """Replace old results and arguments by shorter forms, the oldest first, until the messages fit.

    Args:
        messages: Whole groups.
        size: Tokens of a message.
        room: Tokens that the messages may have; nothing more is replaced once they fit.
        protect: Messages at the end that are left alone.

    Returns:
        As many messages, in the same order.
    """
    pruned = list(messages)
    total = sum(map(size, pruned))
    calls = {call.id: call for message in pruned for call in message.tool_calls}
    later = _last_places(pruned)
    for index in range(len(pruned) - protect):
        if total <= room:
            break
        old = pruned[index]
        pruned[index] = _shorter(old, calls, duplicate=later.get(_key(old), index) > index)
        total += size(pruned[index]) - size(old)
    return pruned


def cut_results(messages: Sequence[Message], *, size: Callable[[Message], int], room: float) -> list[Message]:
    """Cut results that the model has not read yet to their beginning and end, the largest most, until they fit."""
    cut = list(messages)
    limit = max((len(message.text) for message in cut if message.role == "tool"), default=0)
    while limit > LONG_RESULT and sum(map(size, cut)) > room:
        limit = limit * 3 // 4
        cut = [replace(m, content=_ends(m.text, limit)) if _is_long(m, limit) else m for m in cut]
    return cut


def digest(message: Message, call: ToolCall | None) -> str:
    """One line in place of an old result: which call it answered, and how it began."""
    asked = f"{message.name or (call.name if call else 'tool')}({_told(call)})"
    first = next((line.strip() for line in message.text.splitlines() if line.strip()), "")
    return f"[{asked} gave {len(message.text):,} characters, beginning: {first[:_SHOWN_ARGUMENTS]}]"


def _is_long(message: Message, limit: int) -> bool:
    return message.role == "tool" and len(message.text) > limit + LONG_RESULT


def _ends(text: str, limit: int) -> str:
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out to save room …]\n{text[-tail:]}"


def _key(message: Message) -> Content:
    return message.text if message.role == "tool" and len(message.text) >= LONG_RESULT else ""


def _last_places(messages: Sequence[Message]) -> dict[Content, int]:
    return {key: index for index, message in enumerate(messages) if (key := _key(message))}


def _shorter(message: Message, calls: dict[str, ToolCall], *, duplicate: bool) -> Message:
    if message.role == "tool":
        if duplicate:
            return replace(message, content=DUPLICATE)
        short = digest(message, calls.get(message.tool_call_id or ""))
        pictures = not isinstance(message.content, str)
        return replace(message, content=short) if pictures or len(message.text) > LONG_RESULT else message
    cut = tuple(map(_with_short_arguments, message.tool_calls))
    return message if cut == message.tool_calls else replace(message, tool_calls=cut)


def _with_short_arguments(call: ToolCall) -> ToolCall:
    """The call with long texts in its arguments cut; arguments that are no JSON stay as they are."""
    if len(call.arguments) <= LONG_ARGUMENTS:
        return call
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call
    return replace(call, arguments=json.dumps(_with_short_texts(arguments), ensure_ascii=False))


def _with_short_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_short_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_short_texts(item) for item in value]
    if isinstance(value, str) and len(value) > LONG_TEXT:
        return f"{value[:LONG_TEXT]}… ({len(value) - LONG_TEXT:,} more characters)"
    return value


def _told(call: ToolCall | None) -> str:
    text = " ".join(call.arguments.split()) if call else ""
    return text if len(text) <= _SHOWN_ARGUMENTS else text[:_SHOWN_ARGUMENTS] + "…"
