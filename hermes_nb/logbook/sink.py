"""The sink: writes a turn's messages and events as they happen."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hermes_nb.vocabulary import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_nb.logbook.store import Store

logger = logging.getLogger("hermes_nb")

_AT_ONCE = (events.MessageAdded, events.HistoryReplaced, events.SystemPrompt)
"""Points that are in the file before the sink returns."""

_LONG = (events.Attempt, events.Retry, events.Tool)
"""Scopes that may last: that they have begun is in the file while they do."""


class LogbookSink:
    """A sink of events that never raises; what cannot be written is kept and tried again.

    A finished message is in the file when the sink returns, so that a killed process loses none; other events go with
    the next message, or with the beginning of something that may last.

    Args:
        store: The file.
        on_trouble: Called with one sentence when the file cannot be written, once until it can be again.
    """

    def __init__(self, store: Store, on_trouble: Callable[[str], None] | None = None) -> None:
        self.on_trouble = on_trouble
        self.trouble = ""
        self._store = store

    def __call__(self, event: events.Event) -> None:
        """Take an event; write if it is time."""
        with self._store.lock:
            try:
                self._store.writer(event.turn_id, event.conversation_id).take(event)
                trouble = self._store.flush(at_once=_ends(event)) if _due(event) else self.trouble
            except Exception as error:
                logger.warning("the logbook could not keep an event", exc_info=True)
                trouble = f"{type(error).__name__}: {error}"
        self._tell(trouble)

    def _tell(self, trouble: str) -> None:
        first, self.trouble = trouble and not self.trouble, trouble
        if first and self.on_trouble is not None:
            self.on_trouble(f"{self._store.path} could not be written ({trouble}); kept in memory, and tried again")


def _due(event: events.Event) -> bool:
    return (
        isinstance(event.what, _AT_ONCE) or (event.phase == "started" and isinstance(event.what, _LONG)) or _ends(event)
    )


def _ends(event: events.Event) -> bool:
    return event.phase == "ended" and isinstance(event.what, events.Turn)
