"""Exporters that leave the turn alone: they fail quietly, and tell of it once."""

from __future__ import annotations

import logging
import os
import threading
from typing import IO, TYPE_CHECKING, Any, cast

from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from hermes_nb.telemetry.redaction import without_keys
from hermes_nb.vocabulary.failures import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.trace import ReadableSpan

logger = logging.getLogger("hermes_nb")


class Lines:
    """A file that takes whole lines: each in one write, so that processes may share it and a kill tears one at most.

    Args:
        path: The file; made, with its folders, if it is not there.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self.closed = False
        self._file = os.open(path, flags, 0o600)
        self._torn = _ends_torn(self._file)
        self._lock = threading.Lock()

    def write(self, line: str) -> int:
        """Write one line; a line behind a torn one starts anew."""
        with self._lock:
            if self.closed:
                msg = "the file is closed"
                raise ValueError(msg)
            left = memoryview((b"\n" if self._torn else b"") + line.encode("utf-8", "replace"))
            self._torn = True
            while left:
                left = left[os.write(self._file, left) :]
            self._torn = False
        return len(line)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if not self.closed:
                self.closed = True
                os.close(self._file)


def _ends_torn(file: int) -> bool:
    if os.fstat(file).st_size == 0:
        return False
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1) != b"\n"


def spans_to(lines: Lines) -> SpanExporter:
    """The official OTLP JSON lines exporter of spans."""
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter  # noqa: PLC0415  loaded on first use

    return FileSpanExporter(stream=cast("IO[str]", lines))


def metrics_to(lines: Lines) -> MetricExporter:
    """The official OTLP JSON lines exporter of metrics."""
    from opentelemetry.exporter.otlp.json.file import FileMetricExporter  # noqa: PLC0415  loaded on first use

    return FileMetricExporter(stream=cast("IO[str]", lines))


def logs_to(lines: Lines) -> LogRecordExporter:
    """The official OTLP JSON lines exporter of log records."""
    from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter  # noqa: PLC0415  no other

    return FileLogExporter(stream=cast("IO[str]", lines))


class _Mute(logging.Filter):
    """Keeps what an exporter logs while it works for us, instead of letting it out."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        if (heard := getattr(self._thread, "heard", None)) is None:
            return True
        heard.append(record.getMessage())
        return False

    def listen(self) -> list[str]:
        """From now on this thread's messages go into the list returned."""
        heard: list[str] = []
        self._thread.heard = heard
        return heard

    def stop(self) -> None:
        """This thread's messages go out again."""
        self._thread.heard = None


_MUTE = _Mute()


class Trouble:
    """Tells of a destination's failures once, in one line, and counts the others.

    Args:
        exporter: What works for the destination; what it logs meanwhile is kept.
        signal: What does not get there: spans, log records, metrics.
        destination: Where to, in words that hold no key.
    """

    def __init__(self, exporter: object, signal: str, destination: str) -> None:
        self.count = 0
        self._signal = signal
        self._destination = destination
        for kind in type(exporter).__mro__:
            logging.getLogger(kind.__module__).addFilter(_MUTE)

    def guard(self, work: Callable[[], Any], ok: Any = None) -> bool:
        """Do some work of the exporter's; whether it did not raise, and came to `ok` if something is given."""
        heard = _MUTE.listen()
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  an exporter may never break a turn
            self._tell(in_words(error))
            return False
        finally:
            _MUTE.stop()
        if ok is not None and result is not ok:
            self._tell(heard[0] if heard else "no reason given")
            return False
        return True

    def _tell(self, reason: str) -> None:
        self.count += 1
        if self.count == 1:
            words = without_keys(reason.splitlines()[0] if reason else "")
            logger.warning("%s do not reach %s (%s); turns go on", self._signal, self._destination, words)


class QuietSpans(SpanExporter):
    """A span exporter whose failures reach nobody but `trouble`."""

    def __init__(self, exporter: SpanExporter, destination: str) -> None:
        self.trouble = Trouble(exporter, "spans", destination)
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export; a failure is told of."""
        done = self.trouble.guard(lambda: self._exporter.export(spans), SpanExportResult.SUCCESS)
        return SpanExportResult.SUCCESS if done else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self.trouble.guard(self._exporter.shutdown)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the exporter."""
        return self.trouble.guard(lambda: self._exporter.force_flush(timeout_millis))


class QuietLogs(LogRecordExporter):
    """An exporter of log records whose failures reach nobody but `trouble`."""

    def __init__(self, exporter: LogRecordExporter, destination: str) -> None:
        self.trouble = Trouble(exporter, "log records", destination)
        self._exporter = exporter

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Export; a failure is told of."""
        done = self.trouble.guard(lambda: self._exporter.export(batch), LogRecordExportResult.SUCCESS)
        return LogRecordExportResult.SUCCESS if done else LogRecordExportResult.FAILURE

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self.trouble.guard(self._exporter.shutdown)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the exporter."""
        return self.trouble.guard(lambda: self._exporter.force_flush(timeout_millis))


class QuietMetrics(MetricExporter):
    """A metric exporter whose failures reach nobody but `trouble`."""

    def __init__(self, exporter: MetricExporter, destination: str) -> None:
        super().__init__(
            preferred_temporality=exporter._preferred_temporality,  # noqa: SLF001  the SDK's own readers look there
            preferred_aggregation=exporter._preferred_aggregation,  # noqa: SLF001
        )
        self.trouble = Trouble(exporter, "metrics", destination)
        self._exporter = exporter

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        """Export; a failure is told of."""
        done = self.trouble.guard(
            lambda: self._exporter.export(metrics_data, timeout_millis, **kwargs), MetricExportResult.SUCCESS
        )
        return MetricExportResult.SUCCESS if done else MetricExportResult.FAILURE

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Shut the exporter down."""
        self.trouble.guard(lambda: self._exporter.shutdown(timeout_millis, **kwargs))

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Flush the exporter."""
        return self.trouble.guard(lambda: self._exporter.force_flush(timeout_millis))
