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
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

IDLE = 10.0
"""Seconds that a free thread waits for another call."""


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
    os.register_at_fork(after_in_child=_Worker.free.clear)  # threads do not live on in a forked process


def in_thread(name: str, job: Callable[[], None]) -> None:
    """Run a job that never raises in a daemon thread of this name; nobody waits for it."""
    _Worker.start_job(name, job)


async def run_in_thread(function: Callable[[], T], *, name: str = "tool", on_abandoned: Callable[[], None]) -> T:
    """Run a function in a daemon thread, with the context variables of the caller.

    Args:
        function: What to run.
        name: The thread's name.
        on_abandoned: Called when the wait is cancelled while the function is still running.

    Returns:
        What the function returned.

    Raises:
        BaseException: Whatever the function raised.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    outcome: list[tuple[T | None, BaseException | None]] = []

    def work() -> None:
        try:
            outcome.append((context.run(function), None))
        except BaseException as error:  # noqa: BLE001  it is raised again where the result is awaited
            outcome.append((None, error))
        try:
            loop.call_soon_threadsafe(done.set)
        except RuntimeError:
            return  # the loop is closed: the turn has ended without this thread

    context = contextvars.copy_context()
    in_thread(name, work)
    try:
        await done.wait()
    finally:
        if not outcome:
            on_abandoned()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # set whenever there is no error
