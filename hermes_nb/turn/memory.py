"""The memory of a run: its events so far, and those who are told of the next ones."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from hermes_nb.turn.recorder import is_control_c
from hermes_nb.vocabulary import events

if TYPE_CHECKING:
    from hermes_nb.vocabulary.events import Event, Sink

logger = logging.getLogger("hermes_nb")


class Memory:
    """Keeps the events of a run for those who come later; pieces of replies only while they are streaming."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._sinks: list[Sink] = []
        self._first_delta: int | None = None
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Keep an event, and pass it on."""
        with self._lock:
            kind = type(event.what)
            if kind is events.Delta and self._first_delta is None:
                self._first_delta = len(self._events)
            elif kind is events.Chat and event.phase == "ended":
                self._forget_deltas(event.turn_id)
            self._events.append(event)
            sinks = tuple(self._sinks)
        for sink in sinks:
            try:
                sink(event)
            except BaseException as error:
                if is_control_c(error):
                    raise
                logger.warning("a watcher of turn %s failed and is told nothing more", event.turn_id, exc_info=True)
                self.unsubscribe(sink)

    def _forget_deltas(self, turn_id: str) -> None:
        """The reply is complete, so its pieces need not be kept; those of other agents' replies are still coming."""
        if (first := self._first_delta) is None:
            return
        later = self._events[first:]
        left = [kept for kept in later if kept.turn_id != turn_id or not isinstance(kept.what, events.Delta)]
        self._events[first:] = left
        self._first_delta = first if any(isinstance(kept.what, events.Delta) for kept in left) else None

    @property
    def events(self) -> list[Event]:
        """The events so far."""
        with self._lock:
            return list(self._events)

    def subscribe(self, sink: Sink) -> list[Event]:
        """The events so far; the sink is told of each later one, exactly once."""
        with self._lock:
            self._sinks.append(sink)
            return list(self._events)

    def unsubscribe(self, sink: Sink) -> None:
        """Tell the sink nothing more."""
        with self._lock, suppress(ValueError):
            self._sinks.remove(sink)
