"""The sink: writes a turn's messages and events as they happen."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import in_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_nb.logbook.store import Store

logger = logging.getLogger("hermes_nb")

_ENDINGS = frozenset({events.Turn})
_BEGINNINGS = frozenset({events.Tool})
_POINTS = frozenset({events.MessageAdded, events.HistoryReplaced, events.SystemPrompt})
_LASTING = frozenset({events.Attempt, events.Retry})


def _when(event: events.Event) -> Literal["now", "soon", "at some time"]:
    """When an event must be in the file.

    Now: what is finished, so that a killed process loses none of it, and the beginning of a call, which may have an
    effect from then on. Soon: the beginning of what may last, and the model's message with calls, which is written with
    the beginning of the first of them.
    """
    what = event.what
    cls = type(what)
    if event.phase == "point":
        if isinstance(what, events.MessageAdded) and what.message.tool_calls:
            return "soon"
        return "now" if cls in _POINTS else "at some time"
    if event.phase == "ended":
        return "now" if cls in _ENDINGS else "at some time"
    if cls in _BEGINNINGS:
        return "now"
    return "soon" if cls in _LASTING else "at some time"


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
        store, trouble = self._store, self.trouble
        with store.lock:
            try:
                writer = store.writers.get(event.turn_id)
                if writer is None:
                    writer = store.writer(event.turn_id, event.conversation_id)
                    writer.late = event.seq > 1
                writer.take(event)
                if (when := _when(event)) == "now":
                    trouble = store.flush(writer, at_once=event.phase == "ended")
                elif when == "soon":
                    store.later.ask()
            except Exception as error:
                if not self.trouble:
                    logger.warning("the logbook could not keep an event", exc_info=True)
                trouble = f"an event could not be kept in {store.path} ({in_words(error)})"
        if trouble or self.trouble:
            self._tell(trouble)

    def _tell(self, trouble: str) -> None:
        first, self.trouble = trouble and not self.trouble, trouble
        if first and self.on_trouble is not None:
            self.on_trouble(trouble)
