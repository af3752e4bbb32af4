"""A thing to be done a moment later, from a thread that goes when it is not needed any more."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DELAY = 0.05
"""Seconds from the asking to the doing."""

IDLE = 1.0
"""Seconds after which a thread that nobody has asked for anything ends."""


class Later:
    """Does one thing a moment after it was asked for; asked again meanwhile, it still does it once.

    Args:
        do: What to do; must not raise.
    """

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Have it done; costs the asker next to nothing."""
        if self._asked.is_set():
            return
        with self._lock:
            self._asked.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hermes_nb logbook", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._wanted():
            time.sleep(DELAY)
            self._asked.clear()
            self._do()

    def _wanted(self) -> bool:
        """Wait until somebody asks; False when nobody does, and the thread is to end."""
        if self._asked.wait(IDLE):
            return True
        with self._lock:
            if not self._asked.is_set():
                self._thread = None
            return self._asked.is_set()
