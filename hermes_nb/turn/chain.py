"""The chain of providers of one turn, and the connections that it has opened."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import anyio

if TYPE_CHECKING:
    from types import TracebackType

    from hermes_nb.providers.base import Connection, Provider

CLOSING = 0.4
"""Seconds for the closing of all connections, also after an interrupt."""


class Chain:
    """Providers in order; every turn starts with the first. Connections are opened on first use, closed at the end.

    Args:
        providers: At least one.
    """

    def __init__(self, providers: tuple[Provider, ...]) -> None:
        self._providers = providers
        self._stack = AsyncExitStack()
        self._connections: dict[int, Connection] = {}
        self.position = 0

    @property
    def provider(self) -> Provider:
        """The provider that is asked now."""
        return self._providers[self.position]

    @property
    def left(self) -> int:
        """How many providers are still waiting."""
        return len(self._providers) - self.position - 1

    def advance(self) -> Provider | None:
        """Switch to the next provider; None when there is none."""
        if not self.left:
            return None
        self.position += 1
        return self.provider

    def become(self, providers: tuple[Provider, ...]) -> None:
        """Ask other providers from now on, the first of them first."""
        self._providers, self._connections, self.position = providers, {}, 0

    async def connection(self) -> Connection:
        """The connection to the provider that is asked now."""
        if self.position not in self._connections:
            self._connections[self.position] = await self._stack.enter_async_context(self.provider.connect())
        return self._connections[self.position]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.move_on_after(CLOSING, shield=True):
            await self._stack.__aexit__(kind, error, traceback)
