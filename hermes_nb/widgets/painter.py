"""The painter: one plain thread that keeps every live display up to date, a few times a second.

It is not pinned to a cell, on purpose: what a pinned thread publishes is filed under the cell that started it, which a
notebook executed from a script no longer listens to. And it is the only thread that writes to widgets.
"""

from __future__ import annotations

import logging
import threading
import time
from contextvars import Context
from typing import Protocol

logger = logging.getLogger("hermes_nb")

PERIOD = 0.12
"""Seconds between two looks: about eight a second."""

EACH = 0.004
"""Seconds that a look takes at least for each display: a notebook server drops messages beyond 1,000 a second, and the
displays of one kernel share them."""


class Painted(Protocol):
    """A live display."""

    def paint(self) -> bool:
        """Show what is new; returns False once there will be nothing new any more."""

    def stop(self) -> None:
        """End what is shown: the kernel's Stop button was pressed while no cell was running."""


class Painter:
    """Paints displays until they are finished; its thread lives only as long as there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._displays: list[Painted] = []
        self._thread: threading.Thread | None = None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to paint."""
        return not self._displays

    def add(self, display: Painted) -> None:
        """Paint this display from now on."""
        with self._lock:
            self._displays.append(display)
            if self._thread is None:
                empty = Context()
                self._thread = threading.Thread(
                    target=empty.run, args=(self._work,), name="hermes_nb painter", daemon=True
                )
                self._thread.start()
        self._wake.set()

    def hurry(self) -> None:
        """Paint now rather than at the next look."""
        self._wake.set()

    def finish(self) -> None:
        """Paint every display here and now, in the caller's thread: the end of a cell must show the last state."""
        for display in tuple(self._displays):
            self._paint(display)

    def stop(self) -> None:
        """End whatever the displays show."""
        for display in tuple(self._displays):
            display.stop()

    def _work(self) -> None:
        while self._displays_left():
            self._wake.clear()
            began = time.monotonic()
            for display in tuple(self._displays):
                self._paint(display)
            # As much rest as work, however many displays there are and however long they take.
            took = time.monotonic() - began
            if self._wake.wait(max(PERIOD - took, took, EACH * len(self._displays) - took)):
                time.sleep(PERIOD / 6)  # whoever hurries may have more to say

    def _displays_left(self) -> bool:
        with self._lock:
            if not self._displays:
                self._thread = None
            return bool(self._displays)

    def _paint(self, display: Painted) -> None:
        try:
            goes_on = display.paint()
        except Exception:
            logger.exception("a display failed and is not brought up to date any more")
            goes_on = False
        if not goes_on:
            with self._lock:
                if display in self._displays:
                    self._displays.remove(display)


painter = Painter()
