"""Plain functions in threads that can be left behind.

Worker threads of the usual pools are waited for when Python exits, so that one tool that never returns would keep the
whole process alive. These are daemon threads: when the waiting task is cancelled, the thread runs on unwatched, and
ends with the process at the latest.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


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
    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        await done.wait()
    finally:
        if not outcome:
            on_abandoned()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # set whenever there is no error
