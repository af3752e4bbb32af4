"""For tests and tutorials: a scripted model, no waiting, and the span tree as text."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes_nb.providers.scripted import Fail, Say, Scripted, tool_call
from hermes_nb.turn.attempts import waiting
from hermes_nb.vocabulary.failures import ConfigurationError, FailureReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_nb.providers.scripted import Step
    from hermes_nb.traces import Trace
    from hermes_nb.vocabulary.messages import FinishReason, Usage

__all__ = ["call", "calls", "fails", "no_waiting", "say", "script", "span_tree"]


def script(
    *steps: Step,
    name: str = "script",
    model: str = "script",
    context_window: int | None = None,
    each_turn: bool = False,
    stream: bool = True,
    **parameters: Any,
) -> Scripted:
    """A provider that answers request after request with these steps.

    Args:
        *steps: `say()`, `call()`, `calls()`, `fails()`, or functions of the request that return one of them.
        name: The provider's name, on spans and in the panel.
        model: The model's name.
        context_window: Tokens that the model can read; none if left out.
        each_turn: Every turn begins with the first step; otherwise turns go on where the last one stopped.
        stream: Replies come in words.
        **parameters: Request parameters to show, such as `max_tokens`.

    Raises:
        ConfigurationError: A step is none of these.
    """
    return Scripted(steps, name, model, context_window, each_turn, stream, parameters)


def say(
    text: str,
    *,
    usage: Usage | None = None,
    finish_reason: FinishReason = "stop",
    reasoning: str = "",
    seconds: float = 0.0,
) -> Say:
    """The model answers with a text.

    Args:
        text: The answer.
        usage: Tokens; estimated from the request if left out.
        finish_reason: As a server would give it.
        reasoning: Thinking text.
        seconds: How long the model takes.
    """
    return Say(text, (), usage, finish_reason, reasoning, seconds)


def call(tool: str, /, **arguments: Any) -> Say:
    """The model calls one tool."""
    return Say(calls=(tool_call(tool, arguments),))


def calls(*steps: Say, text: str = "") -> Say:
    """The model calls several tools in one reply: `calls(call("a"), call("b", x=1))`."""
    return Say(text, tuple(one for step in steps for one in step.calls))


def fails(
    reason: FailureReason | str,
    *,
    retry_after: float | None = None,
    times: int = 1,
    message: str = "scripted failure",
    status: int | None = None,
    limit: int | None = None,
) -> Fail:
    """The request fails.

    Args:
        reason: A failure reason, such as "rate_limit" or "context_overflow".
        retry_after: Seconds that the server asks to wait.
        times: How often.
        message: The server's words.
        status: HTTP status; the usual one of the reason if left out.
        limit: A number that the server states (window or output tokens left).

    Raises:
        ConfigurationError: There is no such reason.
    """
    try:
        known = FailureReason(reason)
    except ValueError:
        msg = f"{reason!r} is no failure reason; there are: {', '.join(FailureReason)}"
        raise ConfigurationError(msg) from None
    return Fail(known, retry_after, times, message, status, limit)


@contextmanager
def no_waiting() -> Iterator[None]:
    """Let every wait before a retry take no time, for turns started inside; the spans keep the planned wait."""
    token = waiting.set(False)
    try:
        yield
    finally:
        waiting.reset(token)


def span_tree(trace: Trace) -> str:
    """The span tree of a trace as text, without ids and times, to be compared in a test."""
    from hermes_nb.traces import span_tree as draw  # noqa: PLC0415  frames are heavy; loaded on first use

    return draw(trace)
