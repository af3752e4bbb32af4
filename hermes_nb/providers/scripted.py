"""A provider that answers from a script: for tests, tutorials and demonstrations, without any model."""

from __future__ import annotations

import itertools
import json
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from hermes_nb.vocabulary.failures import ConfigurationError, Failure, FailureReason, ProviderError
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from hermes_nb.providers.base import Connection, ModelRequest, OnText, Renewal
    from hermes_nb.vocabulary.messages import FinishReason


@dataclass(frozen=True, slots=True)
class Say:
    """A text, and perhaps calls."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish_reason: FinishReason = "stop"
    reasoning: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Fail:
    """A failure, `times` times."""

    reason: FailureReason
    retry_after: float | None = None
    times: int = 1
    message: str = "scripted failure"
    status: int | None = None
    limit: int | None = None


Step: TypeAlias = "Say | Fail | Callable[[ModelRequest], Say | Fail]"

STATUS = {
    FailureReason.RATE_LIMIT: 429,
    FailureReason.OVERLOADED: 503,
    FailureReason.SERVER_ERROR: 500,
    FailureReason.AUTH: 401,
    FailureReason.BILLING: 402,
    FailureReason.MODEL_NOT_FOUND: 404,
    FailureReason.PAYLOAD_TOO_LARGE: 413,
    FailureReason.CONTEXT_OVERFLOW: 400,
    FailureReason.OUTPUT_CAP_EXCEEDED: 400,
    FailureReason.BAD_REQUEST: 400,
}
"""What a server would have answered; other failures have no status."""


class _Reel:
    """The steps that are left; one for all turns of a provider, safe between threads."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = list(itertools.chain.from_iterable(_unrolled(step) for step in steps))
        self._lock = threading.Lock()
        self._position = 0

    def __reduce__(self) -> tuple[type[_Reel], tuple[tuple[Step, ...]]]:
        """In another process it goes on from here, by itself."""
        return _Reel, (tuple(self._steps[self._position :]),)

    def next(self) -> Step | None:
        with self._lock:
            if self._position >= len(self._steps):
                return None
            self._position += 1
            return self._steps[self._position - 1]


def _unrolled(step: Step) -> list[Step]:
    if not isinstance(step, Fail):
        return [step]
    once = Fail(step.reason, step.retry_after, 1, step.message, step.status, step.limit)
    return [once] * step.times


@dataclass(frozen=True)
class Scripted:
    """Answers request after request with the steps of a script; see `hermes_nb.testing.script`.

    Args:
        steps: What to answer; a function of the request decides by itself.
        name: The provider's name.
        model: The model's name.
        context_window: Tokens.
        each_turn: Every turn begins with the first step again; otherwise turns go on where the last one stopped.
        stream: Replies come in words.
        parameters: Request parameters to show, such as max_tokens.
    """

    steps: tuple[Step, ...]
    name: str = "script"
    model: str = "script"
    context_window: int | None = None
    each_turn: bool = False
    stream: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict)
    _reel: _Reel = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for step in self.steps:
            if not isinstance(step, Say | Fail) and not callable(step):
                msg = f"a script is made of say(), call(), calls(), fails() or functions, not {step!r}"
                raise ConfigurationError(msg)
        object.__setattr__(self, "_reel", _Reel(self.steps))

    @property
    def identity(self) -> str:
        """Its own for each script, so that two scripts of a chain never share a rate limit."""
        return f"{self.name}:{self.model}:{id(self._reel)}"

    @property
    def address(self) -> tuple[str, int | None]:
        """No server."""
        return "", None

    @property
    def secrets(self) -> tuple[str, ...]:
        """None."""
        return ()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """One turn's place in the script."""
        yield _ScriptedConnection(self, _Reel(self.steps) if self.each_turn else self._reel)


@dataclass(frozen=True, slots=True)
class _ScriptedConnection:
    provider: Scripted
    reel: _Reel

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        step = self.reel.next()
        if callable(step):
            step = step(request)
        if step is None:
            message = f"the script of {len(self.provider.steps)} steps is at its end"
            step = Fail(FailureReason.BAD_REQUEST, message=message)
        if isinstance(step, Fail):
            raise ProviderError(self._failure(step))
        await anyio.sleep(step.seconds)
        if self.provider.stream and step.text:
            for index, word in enumerate(step.text.split(" ")):
                on_text(word if index == 0 else f" {word}")
        return self._reply(step, request)

    def _failure(self, step: Fail) -> Failure:
        status = step.status or STATUS.get(step.reason)
        return Failure(
            step.reason,
            step.message,
            provider=self.provider.name,
            model=self.provider.model,
            status=status,
            retry_after=step.retry_after,
            limit=step.limit,
            error_type=str(status or step.reason.value),
        )

    def _reply(self, step: Say, request: ModelRequest) -> Reply:
        message = Message("assistant", step.text, tool_calls=step.calls, reasoning=step.reasoning)
        finish: FinishReason = "tool_calls" if step.calls and step.finish_reason == "stop" else step.finish_reason
        return Reply(message, finish, step.usage or _usage(request, step), self.provider.model)

    async def renew(self, failure: Failure) -> Renewal:  # noqa: ARG002  has no credentials
        return ""


def _usage(request: ModelRequest, step: Say) -> Usage:
    """Four characters a token, as the rule of thumb has it."""
    said = sum(len(call.arguments) + len(call.name) for call in step.calls) + len(step.text)
    return Usage(sum(len(message.text) for message in request.messages) // 4 + 1, said // 4 + 1)


def tool_call(tool: str, arguments: Mapping[str, Any], call_id: str = "") -> ToolCall:
    """A call as a model would write it."""
    return ToolCall(call_id, tool, json.dumps(arguments))
