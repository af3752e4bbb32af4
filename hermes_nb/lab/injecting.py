"""Providers and tools that fail when they are told to, each in the way in which real ones do."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from hermes_nb.lab.wrapping import WrappedProvider
from hermes_nb.tools.context import ToolFailed
from hermes_nb.vocabulary.failures import Failure, FailureReason, ProviderError
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from hermes_nb.providers.base import Connection, ModelRequest, OnText, Renewal
    from hermes_nb.tools.context import ToolContext
    from hermes_nb.tools.definition import Tool, ToolOptions
    from hermes_nb.vocabulary.messages import ToolSpec

FAILURES: Mapping[str, tuple[FailureReason, int | None, str]] = {
    "rate_limit": (FailureReason.RATE_LIMIT, 429, "too many requests"),
    "overloaded": (FailureReason.OVERLOADED, 503, "the server is overloaded"),
    "server_error": (FailureReason.SERVER_ERROR, 500, "internal server error"),
    "timeout": (FailureReason.TIMEOUT, None, "no answer in time"),
    "disconnect": (FailureReason.CONNECTION, None, "the server closed the connection without an answer"),
    "malformed": (FailureReason.MALFORMED_REPLY, None, 'the reply is not JSON: \'{"choices": [{"mess\''),
    "overflow": (FailureReason.CONTEXT_OVERFLOW, 400, "the prompt is longer than the model's context"),
    "auth": (FailureReason.AUTH, 401, "the key was refused"),
}
"""Requests that fail: the reason, the HTTP status, the server's words."""

REQUESTS = (*FAILURES, "cut", "empty", "unknown_tool", "bad_arguments", "slow")
"""What can be wrong with a request."""

CALLS = ("tool_error", "tool_timeout")
"""What can be wrong with a tool call."""

WRITES = ("disk_full",)
"""What can be wrong with a write of the turn to its logbook."""

FULL = "database or disk is full (injected)"
"""SQLite's words for it."""

NO_TOOL = "zzz_injected"
"""A tool that nobody has, and whose name resembles none."""

COST = Usage(0, 1)
"""Tokens of a reply that no model wrote."""


@dataclass(frozen=True)
class FaultyProvider(WrappedProvider):
    """A provider of a chain whose requests fail when the turn's draws say so; in all else it is the one inside."""

    draw: Callable[[], str]
    retry_after: float | None
    seconds: float

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Connect to the provider inside."""
        async with self.inner.connect() as connection:
            yield _FaultyConnection(self, connection)

    def failure(self, kind: str, partial: Message | None = None) -> Failure:
        """The failure as the provider's edge would have told it."""
        reason, status, message = FAILURES[kind if kind in FAILURES else "disconnect"]
        return Failure(
            reason,
            f"{message} (injected)",
            provider=self.name,
            model=self.model,
            status=status,
            retry_after=self.retry_after if kind == "rate_limit" else None,
            error_type=str(status or reason.value),
            partial=partial,
            injected=kind,
        )


@dataclass(frozen=True, slots=True)
class _FaultyConnection:
    provider: FaultyProvider
    inner: Connection

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        kind = self.provider.draw()
        if kind in FAILURES:
            raise ProviderError(self.provider.failure(kind))
        if kind == "cut":
            raise ProviderError(self.provider.failure(kind, await self._half(request, on_text)))
        if (made := _made_up(kind, request)) is not None:
            return Reply(made, "tool_calls" if made.tool_calls else "stop", COST, self.provider.model, injected=kind)
        reply = await (self._slowly(request, on_text) if kind == "slow" else self.inner.ask(request, on_text))
        return reply.with_(injected=kind) if kind else reply

    async def _slowly(self, request: ModelRequest, on_text: OnText) -> Reply:
        """The reply, piece by piece over some time; one that comes in one piece is late."""
        pieces: list[tuple[Any, ...]] = []
        reply = await self.inner.ask(request, lambda *piece: pieces.append(piece))
        for piece in pieces:
            await anyio.sleep(self.provider.seconds / len(pieces))
            on_text(*piece)
        if not pieces:
            await anyio.sleep(self.provider.seconds)
        return reply

    async def _half(self, request: ModelRequest, on_text: OnText) -> Message | None:
        """What had come before the connection was lost: half of the words, and no call."""
        reply = await self.inner.ask(request, _ignore)
        text = reply.text[: (len(reply.text) + 1) // 2]
        if not text:
            return None
        on_text(text)
        return Message("assistant", text)

    async def renew(self, failure: Failure) -> Renewal:
        return await self.inner.renew(failure)


def _made_up(kind: str, request: ModelRequest) -> Message | None:
    """A reply that no model wrote; None where the model is to answer."""
    if kind == "empty":
        return Message("assistant", "")
    if kind == "unknown_tool":
        return Message("assistant", "", (ToolCall("", NO_TOOL, "{}"),))
    if kind == "bad_arguments" and request.tools:
        return Message("assistant", "", (ToolCall("", request.tools[0].name, "{'single': quotes}"),))
    return None


def _ignore(*_: object) -> None:
    """Nobody sees the pieces."""


@dataclass(frozen=True)
class FaultyTool:
    """A tool whose calls fail when the turn's draws say so."""

    inner: Tool
    draw: Callable[[], str]

    @property
    def spec(self) -> ToolSpec:
        """As the model is told."""
        return self.inner.spec

    @property
    def options(self) -> ToolOptions:
        """How it is run."""
        return self.inner.options

    async def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> object:
        """Answer the call, or fail.

        Raises:
            ToolFailed: That was injected.
        """
        match self.draw():
            case "tool_error":
                msg = f"RuntimeError: {self.spec.name} failed (injected)"
                raise ToolFailed(msg, "injected_error")
            case "tool_timeout":
                msg = "[The call was given up, for it took too long (injected); its effect is unknown.]"
                raise ToolFailed(msg, "injected_timeout")
        return await self.inner.invoke(arguments, context)
