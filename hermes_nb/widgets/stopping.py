"""The notebook's Stop button beyond the cell that waits: the cells behind it, and turns that run while no cell does."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from IPython import get_ipython

from hermes_nb.widgets.painter import painter

if TYPE_CHECKING:
    from types import FrameType

_SOON = 0.05
"""Seconds until the kernel has taken its own handler back at the end of a cell (measured; it may also take longer)."""

_TWICE = 1.0
"""Seconds after a stopped cell in which one more press is meant for that cell."""


# ------------------------------------------------------------------------------------------ the cells behind it


def end_with_this_cell() -> None:
    """Let the cell that is being run be the last one of a Run All.

    The cell itself goes on with its partial result, without a traceback. But its answer says that it was interrupted,
    so that the kernel drops the cells that are queued behind it, as after every cell that was stopped.
    """
    shell = get_ipython()
    if getattr(shell, "kernel", None) is not None and threading.current_thread() is threading.main_thread():
        shell.events.register("post_run_cell", _interrupted)


def _interrupted(result: Any) -> None:
    with suppress(ValueError):
        get_ipython().events.unregister("post_run_cell", _interrupted)
    if result is not None and result.success:
        result.error_in_exec = KeyboardInterrupt("stopped while it waited for a turn")
        idle_stop.cell_ended(result)


# ------------------------------------------------------------------------------------------ while no cell runs


class IdleStop:
    """The handler of SIGINT while the kernel runs no cell: it ends what the live panels show.

    A kernel ignores the signal then. It puts its own handler in place for each cell, and this one back afterwards.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._quiet_until = 0.0

    def watch(self) -> None:
        """Take the signal over as soon as the kernel is idle; called in a cell that shows a panel."""
        if threading.current_thread() is threading.main_thread():
            with suppress(RuntimeError):  # no event loop: a kernel of another kind
                self._loop = asyncio.get_running_loop()
                self._loop.call_later(_SOON, self._take)

    def cell_ended(self, result: Any) -> None:
        """Note whether the cell was stopped: people press twice."""
        stopped = isinstance(getattr(result, "error_in_exec", None), KeyboardInterrupt | asyncio.CancelledError)
        self._quiet_until = time.monotonic() + _TWICE if stopped else 0.0

    def __call__(self, _: int, __: FrameType | None) -> None:
        """Runs in the main thread between any two instructions: it may take no lock."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop)

    def _take(self) -> None:
        if painter.idle or self._loop is None or signal.getsignal(signal.SIGINT) is self:
            return
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, self)
        else:  # another cell is running already
            self._loop.call_later(5 * _SOON, self._take)

    def _stop(self) -> None:
        if painter.idle and signal.getsignal(signal.SIGINT) is self:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        elif time.monotonic() > self._quiet_until:
            painter.stop()


idle_stop = IdleStop()
