"""Places at a provider: so many requests at the same time, over all processes that work for a study."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
from filelock import FileLock, Timeout

from hermes_nb.lab.wrapping import WrappedProvider, with_models

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from hermes_nb.agent import Agent
    from hermes_nb.providers.base import Connection, ModelRequest, OnText, Renewal
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Reply

LOOK = 0.02
"""Seconds between two looks for a free place."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The places at all providers; held by locks on files, which the system gives back when a process dies.

    Args:
        folder: Where the files are.
        places: By the provider's name; others are not limited. A number holds for each of them.
    """

    folder: Path
    places: Mapping[str, int] | int

    def __call__(self, agent: Agent) -> Agent:
        """The agent with its models, and those of its sub-agents, in need of a place."""
        return with_models(agent, lambda model: SlottedProvider(model, self))

    @asynccontextmanager
    async def one(self, provider: str) -> AsyncIterator[None]:
        """Wait for a place at a provider, and hold it; where the folder cannot be used, nobody waits."""
        number = self.places if isinstance(self.places, int) else self.places.get(provider)
        try:
            lock = None if number is None else await self._place(provider, number)
        except OSError:
            lock = None
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    async def _place(self, provider: str, number: int) -> FileLock:
        while True:
            for place in range(number):
                lock = FileLock(self.folder / f"{provider.encode().hex()}-{place}", thread_local=False)
                with suppress(Timeout):
                    lock.acquire(blocking=False)
                    return lock
            await anyio.sleep(LOOK)


@dataclass(frozen=True)
class SlottedProvider(WrappedProvider):
    """A provider whose requests wait for a place; made by `Slots`."""

    slots: Slots = field(repr=False, compare=False)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Connects to the provider inside; a place is needed for each request only."""
        async with self.inner.connect() as connection:
            yield _SlottedConnection(self, connection)


@dataclass(frozen=True, slots=True)
class _SlottedConnection:
    provider: SlottedProvider
    inner: Connection

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        async with self.provider.slots.one(self.provider.inner.name):
            return await self.inner.ask(request, on_text)

    async def renew(self, failure: Failure) -> Renewal:
        return await self.inner.renew(failure)
