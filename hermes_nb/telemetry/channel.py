"""Destinations: of spans, of log records, and of metrics."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opentelemetry.sdk._logs import LoggerProvider as SdkLoggerProvider
from opentelemetry.sdk._logs import LogRecordLimits
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from hermes_nb.telemetry.exporting import QuietLogs, QuietMetrics, QuietSpans
from hermes_nb.telemetry.hub import LIMITS, SCOPE_NAME, resource, version
from hermes_nb.telemetry.logs import records
from hermes_nb.telemetry.metrics import MetricSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk._logs import LogRecordProcessor
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter

    from hermes_nb.telemetry.exporting import Lines
    from hermes_nb.telemetry.metrics import Release
    from hermes_nb.telemetry.rendering import Rendering
    from hermes_nb.telemetry.store import Kept
    from hermes_nb.vocabulary.events import Sink

    _Processor: TypeAlias = SpanProcessor | LogRecordProcessor
    _Quiet: TypeAlias = QuietSpans | QuietLogs

logger = logging.getLogger("hermes_nb")

_SEND_EVERY: Final = 1000
"""Milliseconds that a span waits for others at most, before they are sent together."""
_METRICS_EVERY: Final = 10_000
"""Milliseconds between two exports of metrics."""
_QUEUE: Final = 32_768
"""Spans, or log records, that wait for a server at most."""


class _Held(ABC):
    """What a processor holds for a destination: prepared, sent in the background, flushed and closed in time.

    Args:
        name: The destination, in words that hold no key.
        processor: Holds what is to be sent; None for a provider of the user's, which has its own.
        exporter: Writes or sends.
        file: Where the exporter writes at once.
    """

    sink: Sink | None = None
    """Spans are enough."""

    def __init__(self, name: str, processor: _Processor | None, exporter: _Quiet | None, file: Lines | None) -> None:
        self.name = name
        self._processor = processor
        self._exporter = exporter
        self._file = file
        self._broken = False

    def take(self, kept: Kept) -> None:
        """Prepare a span and pass it on."""
        try:
            self._pass_on(kept)
        except Exception:
            if not self._broken:
                logger.warning("a span could not be prepared for %s and is left out there", self.name, exc_info=True)
            self._broken = True

    @abstractmethod
    def _pass_on(self, kept: Kept) -> None:
        """Make of a span what this destination wants."""

    def flush(self, timeout: float) -> bool:
        """Send what is held; wait at most so many seconds."""
        return self._processor is None or _within(timeout, self._processor.force_flush)

    def close(self, timeout: float) -> None:
        """Send what is held, and stop; takes about so many seconds at most."""
        if self._processor is not None and not _within(timeout, self._processor.shutdown) and self._exporter:
            self._exporter.shutdown()
        if self._file is not None:
            self._file.close()

    @property
    def failures(self) -> int:
        """Exports that failed."""
        return 0 if self._exporter is None else self._exporter.trouble.count


class SpanChannel(_Held):
    """Renders ended spans for a destination, and hands them to its exporter.

    Args:
        name: The destination, in words that hold no key.
        exporter: Writes or sends.
        rendering: How spans look there.
        file: Where the exporter writes each span at once; without a file, spans are sent together, by a thread.
    """

    def __init__(self, name: str, exporter: SpanExporter, rendering: Rendering, file: Lines | None = None) -> None:
        quiet = QuietSpans(exporter, name)
        self._rendering = rendering
        self._spans = (
            BatchSpanProcessor(quiet, max_queue_size=_QUEUE, schedule_delay_millis=_SEND_EVERY)
            if file is None
            else SimpleSpanProcessor(quiet)
        )
        super().__init__(name, self._spans, quiet, file)

    def _pass_on(self, kept: Kept) -> None:
        self._spans.on_end(self._rendering(kept))


class LogChannel(_Held):
    """Makes log records of ended spans for a destination, and hands them to its exporter.

    Args:
        name: The destination, in words that hold no key.
        exporter: Writes or sends; None for a provider of the user's, which has its own.
        rendering: How the spans look of which the records are made.
        file: Where the exporter writes each record at once; without a file, records are sent together, by a thread.
        provider: Takes the records instead of one for this exporter.
    """

    def __init__(
        self,
        name: str,
        exporter: LogRecordExporter | None,
        rendering: Rendering,
        *,
        file: Lines | None = None,
        provider: LoggerProvider | None = None,
    ) -> None:
        self._rendering = rendering
        quiet = None if exporter is None else QuietLogs(exporter, name)
        processor: BatchLogRecordProcessor | SimpleLogRecordProcessor | None = None
        if quiet is not None:
            processor = (
                BatchLogRecordProcessor(quiet, max_queue_size=_QUEUE, schedule_delay_millis=_SEND_EVERY)
                if file is None
                else SimpleLogRecordProcessor(quiet)
            )
            limits = LogRecordLimits(max_log_record_attributes=LIMITS["max_span_attributes"])
            provider = own = SdkLoggerProvider(resource(), shutdown_on_exit=False, log_record_limits=limits)
            own.add_log_record_processor(processor)
        assert provider is not None, "a channel has an exporter or a provider"
        self._logger = provider.get_logger(SCOPE_NAME, version())
        super().__init__(name, processor, quiet, file)

    def _pass_on(self, kept: Kept) -> None:
        if kept.what is not None:
            for record in records(self._rendering(kept), kept.what):
                self._logger.emit(record)


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

    def take(self, kept: Kept) -> None:
        """Nothing: events are enough."""

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
