"""A provider that answers from a record: what a model once answered, to whoever asks the same again."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from hermes_nb.providers.base import Connection, ModelRequest, OnText, Renewal
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Reply


class Record(Protocol):
    """Where the answers come from."""

    async def answer(self, provider: Recorded, request: ModelRequest, on_text: OnText) -> Reply:
        """What was answered to this request.

        Raises:
            ProviderError: It failed.
            ReplayMismatch: Nothing like it was asked.
        """

    async def connecting(self, provider: Recorded) -> None:
        """What happened while the connection was opened.

        Raises:
            ProviderError: It could not be.
        """

    def renewal(self) -> Renewal:
        """What asking for other credentials brought after the last answer."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A provider as it was, with its record in the place of its server.

    Args:
        record: Where the answers come from.
        name: The provider's name.
        model: The model's name.
        identity: Equal for two that shared one quota.
        context_window: Tokens, if it was known.
        address: Host and port of the server that answered.
        parameters: Request parameters.
        stream: Whether replies were streamed.
    """

    record: Record = field(repr=False, compare=False)
    name: str
    model: str
    identity: str = ""
    context_window: int | None = None
    address: tuple[str, int | None] = ("", None)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False

    @property
    def secrets(self) -> tuple[str, ...]:
        """None: a record holds no keys."""
        return ()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Nothing to open; what went wrong then, goes wrong again."""
        await self.record.connecting(self)
        yield _RecordedConnection(self)


@dataclass(frozen=True, slots=True)
class _RecordedConnection:
    provider: Recorded

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        return await self.provider.record.answer(self.provider, request, on_text)

    async def renew(self, failure: Failure) -> Renewal:  # noqa: ARG002  the record knows it
        return self.provider.record.renewal()
