"""Destinations: of spans, and of metrics."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from hermes_nb.telemetry.exporting import QuietMetrics, QuietSpans
from hermes_nb.telemetry.hub import SCOPE_NAME, resource, version
from hermes_nb.telemetry.metrics import MetricSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

    from hermes_nb.telemetry.exporting import Lines
    from hermes_nb.telemetry.metrics import Release
    from hermes_nb.telemetry.rendering import Rendering
    from hermes_nb.telemetry.store import Kept
    from hermes_nb.vocabulary.events import Sink

logger = logging.getLogger("hermes_nb")

_SEND_EVERY: Final = 1000
"""Milliseconds that a span waits for others at most, before they are sent together; a turn's end sends at once."""
_METRICS_EVERY: Final = 10_000
"""Milliseconds between two exports of metrics."""
_QUEUE: Final = 32_768
"""Spans that wait for a server at most."""


class SpanChannel:
    """Renders ended spans for a destination, and hands them to its exporter.

    Args:
        name: The destination, in words that hold no key.
        exporter: Writes or sends.
        rendering: How spans look there.
        file: Where the exporter writes each span at once; without a file, spans are sent together, by a thread.
    """

    def __init__(self, name: str, exporter: SpanExporter, rendering: Rendering, file: Lines | None = None) -> None:
        self.name = name
        self._file = file
        self._exporter = QuietSpans(exporter, name)
        self._rendering = rendering
        self._processor = (
            BatchSpanProcessor(self._exporter, max_queue_size=_QUEUE, schedule_delay_millis=_SEND_EVERY)
            if file is None
            else SimpleSpanProcessor(self._exporter)
        )
        self._sending: threading.Thread | None = None
        self._broken = False

    @property
    def sink(self) -> Sink | None:
        """Spans are enough."""
        return None

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
        if self._file is None and (self._sending is None or not self._sending.is_alive()):
            self._sending = _in_background(self._processor.force_flush)

    def flush(self, timeout: float) -> bool:
        """Send what is held; wait at most so many seconds."""
        return _within(timeout, self._processor.force_flush)

    def close(self, timeout: float) -> None:
        """Send what is held, and stop; takes about so many seconds at most."""
        if not _within(timeout, self._processor.shutdown):
            self._exporter.shutdown()
        if self._file is not None:
            self._file.close()

    @property
    def failures(self) -> int:
        """Exports that failed."""
        return self._exporter.trouble.count


class MetricChannel:
    """Records metrics of the turns' events, and hands them to an exporter now and then.

    Args:
        name: The destination, in words that hold no key.
        exporter: Writes or sends; None for a provider of the user's, which has its own.
        release: Whose names model calls are recorded under.
        file: Where the exporter writes, if to a file.
        provider: Makes the instruments instead of one for this exporter.
    """

    def __init__(
        self,
        name: str,
        exporter: MetricExporter | None,
        release: Release,
        *,
        file: Lines | None = None,
        provider: MeterProvider | None = None,
    ) -> None:
        self.name = name
        self._file = file
        self._exporter = None if exporter is None else QuietMetrics(exporter, name)
        self._own: SdkMeterProvider | None = None
        if self._exporter is not None:
            reader = PeriodicExportingMetricReader(self._exporter, export_interval_millis=_METRICS_EVERY)
            provider = self._own = SdkMeterProvider([reader], resource=resource(), shutdown_on_exit=False)
        assert provider is not None, "a channel has an exporter or a provider"
        self.sink: Sink | None = MetricSink(provider.get_meter(SCOPE_NAME, version()), release)

    def take(self, span: ReadableSpan, kept: Kept) -> None:
        """Nothing: events are enough."""

    def send(self) -> None:
        """Nothing: metrics are sent at their own pace."""

    def flush(self, timeout: float) -> bool:
        """Send what was recorded; wait at most so many seconds."""
        return self._own is None or _within(timeout, self._own.force_flush)

    def close(self, timeout: float) -> None:
        """Send what was recorded, and stop; takes so many seconds at most."""
        if self._own is not None:
            _within(timeout, self._own.shutdown)
        if self._file is not None:
            self._file.close()

    @property
    def failures(self) -> int:
        """Exports that failed."""
        return 0 if self._exporter is None else self._exporter.trouble.count


def _within(timeout: float, work: Callable[[], Any]) -> bool:
    """Do something, and wait so many seconds at most; says whether it is done."""
    try:
        thread = _in_background(work)
    except RuntimeError:  # while a program ends, Python 3.12 starts no more threads
        work()
        return True
    thread.join(timeout)
    return not thread.is_alive()


def _in_background(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work, name="hermes_nb spans", daemon=True)
    thread.start()
    return thread
