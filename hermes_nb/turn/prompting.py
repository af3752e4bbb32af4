"""What is sent: the system prompt, and the history in a shape that every server accepts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.messages import Message
from hermes_nb.vocabulary.texts import json_object, mended

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes_nb.providers.base import Provider
    from hermes_nb.vocabulary.messages import Content, ToolCall, ToolSpec

STEER_OPEN = "[A direct message from the user, sent while you were working:"
STEER_CLOSE = "End of the user's message]"
STEER_NOTE = (
    "While you work, the user may send you a message. It then stands at the end of a tool result, "
    f"between the lines `{STEER_OPEN}` and `{STEER_CLOSE}`; trust only that form, and follow it."
)
NAMELESS = "invalid_tool_call"
"""What a call without a name is called; servers refuse blank names in a history."""
_UNNAMEABLE, LONGEST_NAME = re.compile(r"[^a-zA-Z0-9_-]"), 64
"""Servers refuse other letters and longer names in a history too; a model may call a tool whatever it likes."""
_PERHAPS_NO_NUMBER = re.compile("NaN|Infinity")
NO_RESULT = "No result of this call was recorded; whether it had an effect is not known."
BROKEN_ARGUMENTS = "The arguments of this call could not be read as JSON; it was not run with them."


# --------------------------------------------------------------------------------------- system prompt


def system_prompt(
    provider: Provider, *, instructions: str = "", tools: Sequence[ToolSpec] = (), context: str = "", day: str = ""
) -> str:
    """The system prompt: always the same parts in the same order, so that its bytes stay the same over a session.

    Args:
        provider: Whose model is to answer; its identity stands in the prompt.
        instructions: The agent's own.
        tools: The agent's; what guides their use stands in the prompt.
        context: What the working directory tells.
        day: ISO date; today's if left out. The day, not the time: the prompt is cached by servers.
    """
    parts = [identity(provider), prompt_body(instructions, tools, context), f"Date: {day or today()}"]
    return "\n\n".join(part for part in parts if part)


def prompt_body(instructions: str, tools: Sequence[ToolSpec], context: str) -> str:
    """The system prompt without what depends on the model and the day. Steers reach an agent only if it has tools."""
    lines = [f"- {tool.name}: {tool.guidance.strip()}" for tool in tools if tool.guidance.strip()]
    guidance = "\n".join(["How to use the tools:", *lines]) if lines else ""
    parts = [instructions.strip(), guidance, STEER_NOTE if tools else "", context.strip()]
    return "\n\n".join(part for part in parts if part)


def today() -> str:
    """The day in UTC, as an ISO date."""
    return datetime.now(UTC).date().isoformat()


def told_day(system: str, history: Iterable[Message]) -> str:
    """The last day that a conversation has been told, by its system prompt or with a prompt; empty if none was."""
    found = [re.search(r"^Date: (\S+)\Z", text, re.MULTILINE) for text in (system, *(row.facts for row in history))]
    return max((match[1] for match in found if match), default="")


def facts(day: str, system: str, history: Iterable[Message]) -> str:
    """What the user's message tells besides the user's words: the day, if it is another one than was told."""
    told = told_day(system, history)
    return f"Date: {day}" if told and day > told else ""


def identity(provider: Provider) -> str:
    """The lines that tell a model which model it is."""
    return f"Model: {provider.model}\nProvider: {provider.name}"


def with_identity(prompt: str, provider: Provider) -> str:
    """The prompt with its identity lines brought up to date after a switch of provider."""
    head, blank, rest = prompt.partition("\n\n")
    return identity(provider) + blank + rest if head.startswith("Model: ") else prompt


# --------------------------------------------------------------------------------------- the wire


class Wire:
    """The history as it is sent; it grows with the history, and what was sent once stays as it was.

    Args:
        history: Any sequence of messages; it is repaired.
    """

    def __init__(self, history: Iterable[Message]) -> None:
        self.messages: list[Message] = []
        self._system = Message("system", "")
        for message in repair(history):
            self.add(message)

    def add(self, message: Message) -> None:
        """Append a message of the turn; a steer goes to the end of the tool result before it.

        A prompt after one that was never answered (its turn was stopped) goes to the end of that one.
        """
        if message.origin == "steer" and self.messages:
            self.messages[-1] = fold(self.messages[-1], f"{STEER_OPEN}\n{message.text}\n{STEER_CLOSE}")
        elif self.messages and _may_merge(self.messages[-1], message):
            self.messages[-1] = _merged(self.messages[-1], clean(message))
        else:
            sent = clean(message)
            self.messages.append(fold(replace(sent, facts=""), sent.facts) if sent.facts else sent)

    def request(self, system: str, notice: str = "") -> tuple[Message, ...]:
        """The messages of one request.

        Args:
            system: The system prompt.
            notice: Told to the model after everything else, in this request only.
        """
        messages = self.messages
        if notice and messages and messages[-1].role != "assistant":
            messages = [*messages[:-1], fold(messages[-1], notice)]
        elif notice:
            messages = [*messages, Message("user", notice)]
        if self._system.content != system:
            self._system = Message("system", system)
        return (self._system, *messages)


def fold(message: Message, text: str) -> Message:
    """The message with a text at its end, so that the order of roles does not change."""
    if isinstance(message.content, str):
        return replace(message, content=f"{message.content}\n\n{text}" if message.content else text)
    return replace(message, content=(*message.content, {"type": "text", "text": text}))


def clean(message: Message) -> Message:
    """The message without lone surrogates, tool names that no server takes, and arguments that are no JSON object."""
    content = message.content
    if isinstance(content, str):
        content = mended(content)
    else:
        content = tuple({**part, "text": mended(part["text"])} if "text" in part else part for part in content)
    reasoning, calls = mended(message.reasoning), tuple(map(_clean_call, message.tool_calls))
    if (content, reasoning, calls) == (message.content, message.reasoning, message.tool_calls):
        return message
    return replace(message, content=content, reasoning=reasoning, tool_calls=calls)


def _clean_call(call: ToolCall) -> ToolCall:
    arguments = sendable(call.arguments)
    name = _UNNAMEABLE.sub("_", call.name.strip())[:LONGEST_NAME] or NAMELESS
    return call if (name, arguments) == (call.name, call.arguments) else replace(call, name=name, arguments=arguments)


def sendable(arguments: str) -> str:
    """A call's arguments as a JSON object, an empty one where they are none.

    What only Python takes for JSON becomes text: `NaN` and the like.
    """
    value = json_object(arguments)
    if value is None:
        return "{}"
    if _PERHAPS_NO_NUMBER.search(arguments) and (strict := json.loads(arguments, parse_constant=str)) != value:
        return mended(json.dumps(strict, ensure_ascii=False))
    return mended(arguments)


# --------------------------------------------------------------------------------------- repair


def repair(history: Iterable[Message]) -> list[Message]:
    """A history that every server accepts: alternating roles, and each call answered exactly once, in order.

    Nothing of the caller's is changed; the repaired messages are new ones.
    """
    rows = [row for row in history if row.role != "system" and not _says_nothing(row)]
    return list(_merge_neighbours(_pair_calls(rows)))


def _says_nothing(row: Message) -> bool:
    return row.role == "assistant" and not row.tool_calls and not row.text.strip() and isinstance(row.content, str)


def _pair_calls(rows: Sequence[Message]) -> Iterator[Message]:
    """Each call with its result right after it; results without a call are dropped, missing ones are said missing."""
    for index, row in enumerate(rows):
        if row.role != "tool":
            yield row
        if row.tool_calls:
            found = _results_after(rows, index)
            yield from (_result(call, found.get(call.id)) for call in _distinct(row.tool_calls))


def _results_after(rows: Sequence[Message], index: int) -> dict[str, Message]:
    """The results that belong to the calls of row `index`: those before the next message with calls."""
    found: dict[str, Message] = {}
    for row in islice(rows, index + 1, None):
        if row.tool_calls:
            break
        if row.role == "tool" and row.tool_call_id is not None:
            found.setdefault(row.tool_call_id, row)
    return found


def _distinct(calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
    seen = set()
    for call in calls:
        if call.id not in seen:
            seen.add(call.id)
            yield call


def _result(call: ToolCall, found: Message | None) -> Message:
    if found is None:
        return Message("tool", NO_RESULT, tool_call_id=call.id, name=call.name)
    if json_object(call.arguments) is None and BROKEN_ARGUMENTS not in found.text:
        return replace(found, content=f"{BROKEN_ARGUMENTS}\n\n{found.text}")
    return found


def _merge_neighbours(rows: Iterable[Message]) -> Iterator[Message]:
    """Neighbouring messages of the user, and of the assistant, become one."""
    last: Message | None = None
    for row in rows:
        if last is not None and _may_merge(last, row):
            last = _merged(last, row)
            continue
        if last is not None:
            yield last
        last = row
    if last is not None:
        yield last


def _may_merge(last: Message, row: Message) -> bool:
    plain = "steer" not in (last.origin, row.origin) and not last.tool_calls
    return plain and last.role == row.role and row.role in ("user", "assistant")


def _merged(last: Message, row: Message) -> Message:
    if isinstance(last.content, str) and isinstance(row.content, str):
        content: Content = "\n\n".join(text for text in (last.content, row.content) if text)
    else:
        content = (*_parts(last.content), *_parts(row.content))
    return replace(row, content=content, reasoning=row.reasoning or last.reasoning, facts=row.facts or last.facts)


def _parts(content: Content) -> tuple[dict[str, object], ...]:
    return ({"type": "text", "text": content},) if isinstance(content, str) else content
