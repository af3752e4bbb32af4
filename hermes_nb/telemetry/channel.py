"""One destination of spans."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from hermes_nb.telemetry.exporting import Quiet

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

    from hermes_nb.telemetry.exporting import Rendering
    from hermes_nb.telemetry.store import Kept
    from hermes_nb.vocabulary.events import Sink

logger = logging.getLogger("hermes_nb")

_SEND_EVERY: Final = 1000
"""Milliseconds that a span waits for others at most, before they are sent together; a turn's end sends at once."""
_QUEUE: Final = 32_768
"""Spans that wait for a server at most."""


class Channel:
    """One destination: renders ended spans for it, and hands them to its exporter.

    Args:
        name: The destination, in words that hold no key.
        exporter: Writes or sends.
        rendering: How spans look there.
        held: Spans are sent together, by another thread; otherwise each is written at once.
        sink: Wants each turn's events as well.
        close: Called last.
    """

    def __init__(self, name: str, exporter: SpanExporter, rendering: Rendering, *, held: bool) -> None:
        self.name = name
        self.sink: Sink | None = None
        self._exporter = Quiet(exporter, name)
        self._rendering = rendering
        self._processor = (
            BatchSpanProcessor(self._exporter, max_queue_size=_QUEUE, schedule_delay_millis=_SEND_EVERY)
            if held
            else SimpleSpanProcessor(self._exporter)
        )
        self._held = held
        self._sending: threading.Thread | None = None
        self._broken = False

    def take(self, span: ReadableSpan, kept: Kept) -> None:
        """Render a span and pass it on."""
        try:
            self._processor.on_end(self._rendering(span, kept))
        except Exception:
            if not self._broken:
                logger.warning("a span could not be prepared for %s and is left out there", self.name, exc_info=True)
            self._broken = True

    def send(self) -> None:
        """Begin to send what is held."""
        if self._held and (self._sending is None or not self._sending.is_alive()):
            self._sending = _in_background(self._processor.force_flush)

    def flush(self, timeout: float) -> bool:
        """Send what is held; wait at most so many seconds."""
        thread = _in_background(self._processor.force_flush)
        thread.join(timeout)
        return not thread.is_alive()

    def close(self, timeout: float) -> None:
        """Send what is held, and stop; takes about so many seconds at most."""
        thread = _in_background(self._processor.shutdown)
        thread.join(timeout)
        if thread.is_alive():
            self._exporter.shutdown()

    @property
    def failures(self) -> int:
        """Exports that failed."""
        return self._exporter.failures


def _in_background(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work, name="hermes_nb spans", daemon=True)
    thread.start()
    return thread
