"""Exporters that leave the turn alone: they fail quietly, once, and what they write is for their reader's eyes."""

from __future__ import annotations

import logging
import os
import threading
from typing import IO, TYPE_CHECKING, Any, cast

from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from hermes_nb.telemetry import mapping, semconv
from hermes_nb.telemetry.content import content_attributes, point_content
from hermes_nb.telemetry.redaction import Redactor, safe_attributes
from hermes_nb.vocabulary.events import Steered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hermes_nb.telemetry.content import Content
    from hermes_nb.telemetry.hiding import Hidden
    from hermes_nb.telemetry.store import Kept

logger = logging.getLogger("hermes_nb")

_ADDED = semconv.CONTENT | semconv.VIEWER | {semconv.HERMES_MESSAGES_OFFSET}
"""What a rendering decides about; taken off a span before it adds its own."""


class Rendering:
    """How spans look to one reader.

    Args:
        content: How much of what was said they see.
        openinference: Whether they see what viewers of OpenInference read.
        redact: Applied to every text, after what has the form of a key was taken out.
        hidden: What the environment's `OPENINFERENCE_HIDE_*` hide.
    """

    def __init__(
        self,
        content: Content,
        hidden: Hidden,
        *,
        openinference: bool = True,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self.content: Content = content
        self.openinference = openinference
        self._hidden = hidden
        self._redact = Redactor(custom=redact)

    def __call__(self, span: ReadableSpan, kept: Kept) -> ReadableSpan:
        """The span as this reader sees it; a span of the user's own as it is."""
        if kept.what is None:
            return span
        return ReadableSpan(
            name=span.name,
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes=self._attributes(span, kept),
            events=[self._event(event, kept) for event in span.events],
            links=span.links,
            kind=span.kind,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _attributes(self, span: ReadableSpan, kept: Kept) -> dict[str, Any]:
        assert kept.what is not None
        out = {key: value for key, value in (span.attributes or {}).items() if key not in _ADDED}
        if self.openinference:
            out |= mapping.viewer_attributes(kept.what, str(out.get(semconv.GEN_AI_CONVERSATION_ID, "")))
        out |= content_attributes(
            kept,
            self.content,
            redact=self._hidden.text("INPUT", self._redact),
            redact_output=self._hidden.text("OUTPUT", self._redact),
            openinference=self.openinference,
        )
        return self._hidden.attributes(safe_attributes(out, self._redact))

    def _event(self, event: SpanEvent, kept: Kept) -> SpanEvent:
        point = kept.points.get(event.timestamp)
        if self.content == "none" or not isinstance(point, Steered):
            return event
        said = point_content(point, redact=self._hidden.text("INPUT", self._redact))
        return SpanEvent(event.name, {**(event.attributes or {}), **said}, event.timestamp)


class Lines:
    """A file that takes whole lines: each in one write, so that several processes may share it and a kill tears none.

    Args:
        path: The file; made, with its folders, if it is not there.

    Raises:
        OSError: It cannot be opened.
    """

    closed = False

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._file = os.open(path, flags, 0o600)
        self._torn = _ends_torn(self._file)

    def write(self, line: str) -> int:
        """Write one line; a line behind a torn one starts anew."""
        data = (b"\n" if self._torn else b"") + line.encode("utf-8", "replace")
        self._torn = True
        written = os.write(self._file, data)
        if written < len(data):
            os.write(self._file, data[written:])
        self._torn = False
        return len(line)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self.closed = True
            os.close(self._file)


def _ends_torn(file: int) -> bool:
    if os.fstat(file).st_size == 0:
        return False
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1) != b"\n"


def file_exporter(path: Path) -> SpanExporter:
    """The official OTLP JSON lines exporter, writing through `Lines`."""
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter  # noqa: PLC0415  loaded on first use

    return FileSpanExporter(stream=cast("IO[str]", Lines(path)))


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


class Quiet(SpanExporter):
    """An exporter whose failures are told once, in one line, and reach nobody else.

    Args:
        exporter: Does the work.
        destination: Where to, in words that hold no key.
    """

    def __init__(self, exporter: SpanExporter, destination: str) -> None:
        self.failures = 0
        self._exporter = exporter
        self._destination = destination
        for kind in type(exporter).__mro__:
            logging.getLogger(kind.__module__).addFilter(_MUTE)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export; a failure is counted."""
        heard = _MUTE.listen()
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001  an exporter may never break a turn
            self._fail(f"{type(error).__name__}: {error}")
            return SpanExportResult.FAILURE
        finally:
            _MUTE.stop()
        if result is not SpanExportResult.SUCCESS:
            self._fail(heard[0] if heard else "no reason given")
        return result

    def _fail(self, reason: str) -> None:
        self.failures += 1
        if self.failures == 1:
            words = Redactor()(reason.splitlines()[0] if reason else "")
            logger.warning("spans do not reach %s (%s); turns and traces in memory go on", self._destination, words)

    def shutdown(self) -> None:
        """Shut the exporter down; also one that fails at it."""
        _MUTE.listen()
        try:
            self._exporter.shutdown()
        except Exception as error:  # noqa: BLE001
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            _MUTE.stop()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the exporter."""
        return self._exporter.force_flush(timeout_millis)
