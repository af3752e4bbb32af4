"""The provider protocol: what the loop knows of a model server.

A *provider* is frozen configuration, shared by turns and threads. A *connection* belongs to one turn and its event
loop: it holds the sockets, and whatever is counted per turn (refreshed credentials).
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeGuard, runtime_checkable

from hermes_nb.vocabulary.failures import ConfigurationError
from hermes_nb.vocabulary.protocols import conforms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from hermes_nb.vocabulary.events import ChatPurpose, Telling
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Message, Reply, ToolSpec

OnText: TypeAlias = "Callable[..., None]"
"""Called as `on_text(text)` or `on_text(text, "reasoning" | "call")` for each streamed piece; cheap, never raises."""


Renewal: TypeAlias = Literal["", "refreshed", "rotated", "later"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model.

    Attributes:
        messages: The conversation, system prompt first, repaired so that every server accepts its shape.
        tools: What the model may call; empty for none.
        tool_choice: `none` forbids calls: an adapter leaves the tools out, or, where the server refuses a history
            with calls but without tools, sends them with the server's own way to forbid them.
        max_tokens: Output cap for this request; None leaves it to the provider's own setting.
        stream: Whether to stream; None leaves it to the provider's own setting.
        purpose: What the reply is for.
        recorder: Where a provider tells what it does inside (a mixture's references); None outside of a turn.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    max_tokens: int | None = None
    stream: bool | None = None
    purpose: ChatPurpose = "main"
    recorder: Telling | None = field(default=None, repr=False, compare=False)


class Connection(Protocol):
    """A provider in use by one turn."""

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Send one request, once: no retries in here.

        Raises:
            ProviderError: The call failed; the failure says why.
        """

    async def renew(self, failure: Failure) -> Renewal:
        """Try to get other credentials after this failure; capped per turn.

        Returns:
            `refreshed` or `rotated`: ask again at once. `later`: there are other credentials, but this failure may
            pass by itself (a first 429): wait and ask again before leaving the provider. Empty: there are no others.
        """


@runtime_checkable
class Provider(Protocol):
    """Frozen configuration of a model behind some API; see `Connection` for its use."""

    @property
    def name(self) -> str:
        """The provider's name, as in `name:model` and in `gen_ai.provider.name`."""

    @property
    def model(self) -> str:
        """The model asked for."""

    @property
    def identity(self) -> str:
        """Equal for two providers that share one quota: name, address, key (hashed) and model."""

    @property
    def context_window(self) -> int | None:
        """Tokens, if known."""

    @property
    def address(self) -> tuple[str, int | None]:
        """Host and port of the server; `("", None)` for a model in this process."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Request parameters that are safe to show (temperature, max_tokens, ...)."""

    @property
    def stream(self) -> bool:
        """Whether replies are streamed when the request does not say."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must never appear in anything the library writes; redacted everywhere."""

    def connect(self) -> AbstractAsyncContextManager[Connection]:
        """Open what one turn needs; closed at its end, also after an interrupt."""


def is_provider(value: object) -> TypeGuard[Provider]:
    """Whether something can be asked as a provider; a wrapper that delegates to one can."""
    return conforms(value, Provider)


@dataclass(frozen=True)
class CallableProvider:
    """A provider made of one async function; see `as_provider`."""

    function: Callable[[ModelRequest, OnText], Awaitable[Reply]]
    name: str
    model: str
    context_window: int | None = None
    address: tuple[str, int | None] = ("", None)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def identity(self) -> str:
        """The name and the model."""
        return f"{self.name}:{self.model}"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Nothing to open."""
        yield _CallableConnection(self.function)


@dataclass(frozen=True, slots=True)
class _CallableConnection:
    function: Callable[[ModelRequest, OnText], Awaitable[Reply]]

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        return await self.function(request, on_text)

    async def renew(self, failure: Failure) -> Renewal:  # noqa: ARG002  has no credentials
        return ""


def as_provider(
    function: Callable[[ModelRequest, OnText], Awaitable[Reply]],
    *,
    name: str,
    model: str | None = None,
    context_window: int | None = None,
) -> Provider:
    """Make a provider of any async function `(request, on_text) -> Reply`.

    Args:
        function: Answers one request; may call `on_text(piece)` while it works; raises `ProviderError` to be retried
            or replaced by the next provider of the chain. It runs in the turn's own event loop and must not block it.
        name: The provider's name, on spans and in the panel.
        model: The model's name; the provider's name if left out.
        context_window: Tokens that the model can read, if there is a limit.

    Raises:
        ConfigurationError: The function cannot be called.
    """
    if not callable(function):
        msg = f"as_provider needs an async function of (request, on_text), not {function!r}"
        raise ConfigurationError(msg)
    return CallableProvider(function, name, model or name, context_window)
