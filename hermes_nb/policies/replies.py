"""Is this reply usable? A reply that is not becomes a failure, so that the retry sub-loop deals with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.failures import Failure, FailureReason

if TYPE_CHECKING:
    from hermes_nb.vocabulary.messages import Reply, ToolCall


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
    try:
        json.loads(call.arguments or "{}")
    except ValueError:
        ends = call.arguments.rstrip().endswith(("}", "]"))
        return reply.finish_reason == "length" or reply.partial or not ends
    return False


def failure_of(reply: Reply, provider: str, model: str) -> Failure | None:
    """The failure that an unusable reply amounts to; None for a usable one."""
    found = flaw(reply)
    if found is None:
        return None
    reason, message = found
    partial = reply.message if reply.message.text or reply.message.reasoning else None
    return Failure(reason, message, provider=provider, model=model, error_type=reason.value, partial=partial)
