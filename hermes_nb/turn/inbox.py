"""The inbox: steers, pauses and interrupts, from any thread to one turn."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import anyio

from hermes_nb.vocabulary.events import Paused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Source = Literal["user", "kernel", "parent", "ceiling"]


@dataclass(slots=True)
class Steer:
    """A receipt: what became of a steer.

    Attributes:
        text: What the model is to read.
        id: Number within the turn, from 1.
        status: `queued`, then `delivered` or `undelivered`.
        iteration: The iteration whose request carries it; None before that.
        reason: Why it was not delivered; empty otherwise.
    """

    text: str
    id: int
    status: Literal["queued", "delivered", "undelivered"] = "queued"
    iteration: int | None = None
    reason: str = ""


class Interrupted(BaseException):
    """Raised inside a turn where an interrupt took effect; never leaves it."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.source = source


class Inbox:
    """What the outside wants of one turn. Every method may be called from any thread, also from the turn's own.

    Args:
        paused: The turn waits before its first iteration until `resume()` or `step()`.
    """

    def __init__(self, *, paused: bool = False) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._queue: list[Steer] = []
        self._paused = paused
        self._steps = 0
        self._asked_by: Source | None = None
        self._source: Source | None = None  # the same, as soon as the turn may know
        self._boundary = False
        self._told: set[str] = set()
        self._requested_at = 0.0
        self._closed = ""
        self._scope: anyio.CancelScope | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: anyio.Event | None = None

    # ------------------------------------------------------------------------------------- from outside

    def steer(self, text: str, tell: Callable[[Steer], None]) -> Steer:
        """Queue a text that the model reads after the next tool results; see `receipt` and `queue`."""
        return self.queue(self.receipt(text), tell)

    def receipt(self, text: str) -> Steer:
        """A steer before it is queued.

        Raises:
            ValueError: The text is blank.
        """
        if not isinstance(text, str) or not text.strip():
            msg = "a steer needs some text"
            raise ValueError(msg)
        return Steer(text.strip(), next(self._numbers))

    def queue(self, note: Steer, tell: Callable[[Steer], None]) -> Steer:
        """Queue a steer.

        Args:
            note: Its receipt.
            tell: Called with the receipt when it is queued, and again if it comes too late.
        """
        tell(note)  # before the turn can deliver it, and outside of the lock: sinks may call back
        with self._lock:
            if not self._closed:
                self._queue.append(note)
                return note
            note.status, note.reason = "undelivered", self._closed
        tell(note)
        return note

    def interrupt(
        self,
        source: Source = "user",
        *,
        when: Literal["now", "boundary"] = "now",
        tell: Callable[[], object] = lambda: None,
    ) -> bool:
        """Ask the turn to end.

        Args:
            source: Who asks; it becomes part of the exit reason.
            when: `now` stops whatever runs; `boundary` lets the iteration under way finish.
            tell: Called before that takes effect, if there is a turn left to interrupt; not again for the same moment,
                or a sink that asks at each event would hear of itself without end.

        Returns:
            Whether there was a turn left to interrupt.

        Raises:
            ValueError: There is no such moment or source.
        """
        if when not in ("now", "boundary") or source not in get_args(Source):
            msg = f"interrupt when='now' or 'boundary', by one of {get_args(Source)}, not {when!r} by {source!r}"
            raise ValueError(msg)
        with self._lock:
            if self._closed:
                return False
            self._asked_by = self._asked_by or source
            self._requested_at = self._requested_at or time.monotonic()
            is_new = when not in self._told
            self._told.add(when)
        if is_new:
            tell()  # before the turn can end by it, and outside of the lock: sinks may call back
        with self._lock:
            if self._closed:
                return False
            self._source = self._asked_by
            self._boundary = self._boundary or when == "boundary"
            if when == "now":
                self._boundary = False
                self._call(self._cancel)
            self._call(self._rouse)
        return True

    def pause(self) -> None:
        """Wait at the next boundary."""
        with self._lock:
            self._paused, self._steps = True, 0

    def resume(self) -> None:
        """Go on."""
        with self._lock:
            self._paused = False
            self._call(self._rouse)

    def step(self) -> None:
        """Run one iteration, then wait again."""
        with self._lock:
            self._paused = True
            self._steps += 1
            self._call(self._rouse)

    @property
    def waiting(self) -> bool:
        """The turn is paused and stands at a boundary."""
        return self._wake is not None

    @property
    def latency(self) -> float | None:
        """Seconds since the interrupt was asked for; None where nobody did, as when a tool raises one."""
        return time.monotonic() - self._requested_at if self._asked_by else None

    # ------------------------------------------------------------------------------------- from the turn

    @contextmanager
    def interruptible(self, deadline: float = math.inf) -> Iterator[None]:
        """The part of a turn that an interrupt cancels; one that came before takes effect on entry.

        Args:
            deadline: Seconds from now after which the turn is stopped with the source `ceiling`.

        Raises:
            Interrupted: An interrupt took effect.
        """
        scope = anyio.CancelScope(deadline=anyio.current_time() + deadline)
        try:
            with scope:
                with self._lock:
                    self._scope, self._loop = scope, asyncio.get_running_loop()
                    if self._source is not None and not self._boundary:
                        scope.cancel()
                try:
                    yield
                finally:
                    with self._lock:
                        self._scope = None
        except anyio.get_cancelled_exc_class():  # by a scope around this one, perhaps together with it
            raise Interrupted(self._source or ("ceiling" if scope.cancel_called else "parent")) from None
        if scope.cancelled_caught:
            raise Interrupted(self._source or "ceiling")

    def stop_after(self, seconds: float) -> None:
        """Move the deadline of the turn to so many seconds from now."""
        if self._scope is not None:
            self._scope.deadline = anyio.current_time() + seconds

    async def boundary(self, tell: Callable[[Paused], None]) -> None:
        """Stand between two iterations: end here if that was asked, wait here while paused.

        Raises:
            Interrupted: An interrupt was asked for at the boundary.
        """
        while True:
            with self._lock:
                if self._source is not None:
                    raise Interrupted(self._source)
                if not self._paused or self._steps > 0:
                    self._steps = max(0, self._steps - 1)
                    break
                self._wake = self._wake or anyio.Event()
                wake = self._wake
            tell(Paused("paused"))
            try:
                await wake.wait()
            finally:
                self._wake = None
            tell(Paused("resumed"))

    def take(self, iteration: int) -> list[Steer]:
        """The steers in the queue, now delivered in this iteration."""
        with self._lock:
            notes, self._queue = self._queue, []
            for note in notes:
                note.status, note.iteration = "delivered", iteration
        return notes

    def close(self, reason: str) -> list[Steer]:
        """End of the turn: what is still queued is returned, undelivered; later steers are refused with the reason."""
        with self._lock:
            self._closed = reason
            notes, self._queue = self._queue, []
            for note in notes:
                note.status, note.reason = "undelivered", reason
        return notes

    # ------------------------------------------------------------------------------------- in the turn's loop

    def _call(self, function: Callable[[], None]) -> None:
        """Call a function in the turn's loop, if it is open."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def _rouse(self) -> None:
        if self._wake is not None:
            self._wake.set()
