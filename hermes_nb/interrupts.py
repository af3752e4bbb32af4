"""The notebook's Stop button, and Ctrl-C, while somebody waits for a turn or for a sweep.

Without a guard the kernel's interrupt ends the waiting and leaves the work running, reaches an awaiting cell only when
its event loop happens to wake up, and, raised inside that loop, can end the kernel. With it the first press stops the
work, and the waiting goes on to its orderly end; the second press gives up the waiting.
"""

from __future__ import annotations

import _thread
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from types import FrameType


class StopButton:
    """The handler of SIGINT while something is waited for; made by `stop_button`.

    Attributes:
        presses: How often it was pressed.
    """

    def __init__(self, stop: Callable[[], object], task: asyncio.Task[Any] | None) -> None:
        self.presses = 0
        self._stop = stop
        self._task = task
        self._previous: Any = None
        self._over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Runs in the main thread between any two instructions: it may take no lock."""
        if self._over:  # the kernel brought this handler back after its time, or an outer guard did
            if callable(self._previous):
                self._previous(number, frame)
            return
        self.presses += 1
        if isinstance(self._previous, StopButton):  # several turns are awaited at the same time
            self._previous(number, frame)
        if self.presses == 1:
            _thread.start_new_thread(self._stop, ())  # below `threading`, whose own locks the main thread may hold
        elif self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        else:
            raise KeyboardInterrupt

    def install(self) -> None:
        """Take the signal over."""
        self._previous = signal.signal(signal.SIGINT, self)

    def remove(self) -> None:
        """Give the signal back, unless somebody else has taken it meanwhile: the kernel does at the end of a cell."""
        self._over = True
        current: object = signal.getsignal(signal.SIGINT)
        if current is self:
            signal.signal(signal.SIGINT, self._previous)


@contextmanager
def stop_button(stop: Callable[[], object], task: asyncio.Task[Any] | None = None) -> Iterator[StopButton]:
    """Let the Stop button stop what the body waits for, also where the process was started with signals ignored.

    The first press calls `stop` from another thread. The second gives up: it raises `KeyboardInterrupt` in a
    body that blocks, or cancels `task`. Off the main thread, where Python delivers no signals, the body just runs.

    Args:
        stop: Asks for the end of what is waited for.
        task: The task that awaits it; None for a body that blocks.

    Yields:
        The button, which counts its presses.
    """
    button = StopButton(stop, task)
    guarded = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not None
    if not guarded:
        yield button
        return
    button.install()
    try:
        yield button
    finally:
        button.remove()
