"""Plain functions in threads that can be left behind.

Worker threads of the usual pools are waited for when Python exits, so that one tool that never returns would keep the
whole process alive. These are daemon threads: when the waiting task is cancelled, the thread runs on unwatched, and
ends with the process at the latest. A thread that has become free serves the next call, for starting one costs more
than most tools; after some idle seconds it ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

IDLE = 10.0
"""Seconds that a free thread waits for another call."""

BRIEF = 0.0005
"""Seconds that the event loop itself waits for a tool whose last call was this quick: a way through the loop's queue
would cost more than most tools take."""


class _Worker(threading.Thread):
    """Runs one job after the other; free ones stand in `free`."""

    free: list[_Worker] = []  # noqa: RUF012  shared by all, under the lock
    lock = threading.Lock()

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    @classmethod
    def start_job(cls, name: str, job: Callable[[], None]) -> None:
        """Give a job to a free thread, or to a new one."""
        with cls.lock:
            worker = cls.free.pop() if cls.free else cls()
        worker.name = name
        worker.jobs.put(job)
        if not worker.is_alive():
            worker.start()

    @classmethod
    def begin_anew(cls) -> None:
        """In a forked process, in which threads do not live on, and one of them may have held the lock."""
        cls.free.clear()
        cls.lock = threading.Lock()

    def run(self) -> None:
        """The thread's body."""
        while (job := self._next()) is not None:
            job()
            del job
            with self.lock:
                self.free.append(self)

    def _next(self) -> Callable[[], None] | None:
        """The next job; None when none has come in time, and none is on its way."""
        while True:
            try:
                return self.jobs.get(timeout=IDLE)
            except queue.Empty:
                with self.lock:
                    if self in self.free:
                        self.free.remove(self)
                        return None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Worker.begin_anew)


def in_thread(name: str, job: Callable[[], None]) -> None:
    """Run a job that never raises in a daemon thread of this name; nobody waits for it."""
    _Worker.start_job(name, job)


class Pace:
    """Remembers whether the last call of a function was quick; before the first, it is taken to be."""

    def __init__(self) -> None:
        self.quick = True


async def run_in_thread(
    function: Callable[[], T], *, name: str = "tool", pace: Pace | None = None, on_abandoned: Callable[[], None]
) -> T:
    """Run a function in a daemon thread, with the context variables of the caller.

    Args:
        function: What to run.
        name: The thread's name.
        pace: Of all calls of the function.
        on_abandoned: Called when the wait is cancelled while the function is still running.

    Returns:
        What the function returned.

    Raises:
        BaseException: Whatever the function raised.
    """
    pace = pace or Pace()
    job = _Job(contextvars.copy_context(), function, pace)
    in_thread(name, job)
    if not job.ended.acquire(timeout=BRIEF if pace.quick else 0):
        try:
            await job.wait()
        finally:
            if job.running:
                on_abandoned()
    if job.error is not None:
        raise job.error
    return job.value


class _Job(Generic[T]):
    """One call, and what became of it; the thread tells the event loop only where that waits."""

    value: T

    def __init__(self, context: contextvars.Context, function: Callable[[], T], pace: Pace) -> None:
        self._context = context
        self._function = function
        self._pace = pace
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self.error: BaseException | None = None
        self.running = True
        self.ended = threading.Lock()
        self.ended.acquire()

    def __call__(self) -> None:
        """The thread's part."""
        began = time.perf_counter()
        try:
            self.value = self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001  it is raised again where the result is awaited
            self.error = error
        self._pace.quick = time.perf_counter() - began < BRIEF
        self.running = False
        self.ended.release()
        if self._waiting is not None:
            loop, event = self._waiting
            with suppress(RuntimeError):  # the loop is closed: the turn has ended without this thread
                loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """The event loop's part, for a call that takes its time."""
        event = asyncio.Event()
        self._waiting = (asyncio.get_running_loop(), event)
        if self.running:  # looked at after the thread can know of the wait
            await event.wait()
