"""The event loop of a turn's async tools, in a thread of its own: a tool that blocks it does not block the turn."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio

from hermes_nb.tools.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

T = TypeVar("T")

CLEANING_UP = 0.4
"""Seconds in which an async tool that is cancelled may come to its end."""


class ToolLoop:
    """One event loop for all async tools of a turn and of its sub-agents, so that they may share clients and locks.

    It is started with the first tool. One that a tool still blocks after an interrupt is left to that tool, and the
    next call gets another.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._running: set[Future[None]] = set()
        self._ends: list[weakref.finalize[..., ToolLoop]] = []

    async def run(self, function: Callable[[], Awaitable[T]], *, on_abandoned: Callable[[], None]) -> T:
        """Await what a function gives there, with the context variables of the caller.

        Args:
            function: What to call.
            on_abandoned: Called when the wait was cancelled, and the function has not come to its end in time.

        Returns:
            What the function gave, also where it finished in spite of a cancellation.

        Raises:
            BaseException: Whatever the function raised.
        """
        here, ended, scope = asyncio.get_running_loop(), asyncio.Event(), anyio.CancelScope()
        outcome: list[tuple[T | None, BaseException | None]] = []

        async def work() -> None:
            with scope:
                try:
                    outcome.append((await function(), None))
                except BaseException as error:  # noqa: BLE001  it is raised again where the result is awaited
                    outcome.append((None, error))

        loop = self._started()
        running, kept = asyncio.run_coroutine_threadsafe(work(), loop), self._running
        kept.add(running)  # event loops hold their tasks weakly
        running.add_done_callback(kept.discard)
        running.add_done_callback(lambda _: _call(here, ended.set))
        try:
            await ended.wait()
        except anyio.get_cancelled_exc_class():
            _call(loop, scope.cancel)
            with anyio.move_on_after(CLEANING_UP, shield=True):
                await ended.wait()
            if not outcome:
                self._loop = None
                on_abandoned()
            if not outcome or isinstance(outcome[0][1], asyncio.CancelledError):
                raise
        if not outcome:
            msg = "the event loop of the async tools has ended: a task that a tool had left there ended it"
            raise RuntimeError(msg)
        value, error = outcome[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # set whenever there is no error

    def close(self) -> None:
        """End the loop, when what runs there lets it."""
        for end in self._ends:
            end()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._stop.is_set():  # a task that a tool has left behind may have ended it
            self._loop, self._stop, self._running = asyncio.new_event_loop(), asyncio.Event(), set()
            self._ends.append(weakref.finalize(self, _call, self._loop, self._stop.set))
            in_thread("async tools", _serving(self._loop, self._stop, self._running))
        return self._loop


def _serving(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, running: set[Future[None]]) -> Callable[[], None]:
    """The thread's body; it cancels what is left at the end."""

    def serve() -> None:
        with suppress(SystemExit, KeyboardInterrupt), asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(stop.wait())
            finally:
                stop.set()
        for left in tuple(running):  # came while the loop was being closed
            left.cancel()

    return serve


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # it has ended already
        loop.call_soon_threadsafe(function)
