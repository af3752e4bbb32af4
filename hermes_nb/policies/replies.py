"""Is this reply usable? A reply that is not becomes a failure, so that the retry sub-loop deals with it."""

from __future__ import annotations

import json

from hermes_nb.vocabulary.failures import Failure, FailureReason
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, Usage, is_part


def checked(reply: object) -> Reply:
    """What a provider returned, if it is a reply.

    Raises:
        TypeError: It is something else, or a part of it is.
    """
    if not isinstance(reply, Reply) or not isinstance(message := reply.message, Message):
        msg = f"a provider returns a Reply with a Message, not {type(reply).__name__}"
        raise TypeError(msg)
    content, calls, usage = message.content, message.tool_calls, reply.usage
    if not isinstance(content, str) and not (isinstance(content, tuple | list) and all(map(is_part, content))):
        msg = f"the content of a reply is text or content parts, not {type(content).__name__}"
        raise TypeError(msg)
    if not isinstance(calls, tuple | list) or not all(map(_is_call, calls)):
        msg = "the tool calls of a reply are a tuple of ToolCall, each with an id, a name and arguments as JSON text"
        raise TypeError(msg)
    if usage is not None and not isinstance(usage, Usage):
        msg = f"the usage of a reply is a Usage or None, not {type(usage).__name__}"
        raise TypeError(msg)
    return reply


def _is_call(call: object) -> bool:
    return isinstance(call, ToolCall) and all(isinstance(text, str) for text in (call.id, call.name, call.arguments))


def flaw(reply: Reply) -> tuple[FailureReason, str] | None:
    """What is wrong with a reply, as a reason and a sentence; None when it can be used.

    A finish reason is only advice: tool calls are run whatever it says, except where the call itself was cut off. A
    text that was cut is no flaw; the loop asks the model to go on.
    """
    if reply.finish_reason == "content_filter":
        return FailureReason.CONTENT_FILTER, reply.text.strip() or "the answer was withheld by a content filter"
    if any(_cut(call, reply) for call in reply.tool_calls):
        return FailureReason.TRUNCATED_CALL, "the reply ended in the middle of a tool call"
    if not reply.tool_calls and not reply.text.strip():
        thought = " but only thought" if reply.message.reasoning.strip() else ""
        return FailureReason.EMPTY_REPLY, f"the model answered nothing{thought}"
    return None


def _cut(call: ToolCall, reply: Reply) -> bool:
    """Whether a call was cut off: its arguments do not parse and either the server says so or they just stop."""
    if reply.partial and not call.arguments.strip():
        return True
    may_be = reply.finish_reason == "length" or reply.partial or not call.arguments.rstrip().endswith(("}", "]"))
    return may_be and not _parses(call.arguments or "{}")


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def failure_of(reply: Reply, provider: str, model: str) -> Failure | None:
    """The failure that an unusable reply amounts to; None for a usable one."""
    found = flaw(reply)
    if found is None:
        return None
    reason, message = found
    partial = reply.message if reply.message.text or reply.message.reasoning else None
    return Failure(reason, message, provider=provider, model=model, error_type=reason.value, partial=partial)
