"""Sending what is observed to files and servers."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias
from urllib.parse import urlsplit

from hermes_nb.telemetry.channel import LogChannel, MetricChannel, SpanChannel
from hermes_nb.telemetry.exporting import Lines, logs_to, metrics_to, spans_to
from hermes_nb.telemetry.hiding import Hidden
from hermes_nb.telemetry.hub import HUB
from hermes_nb.telemetry.observing import content_of_environment
from hermes_nb.telemetry.rendering import Rendering
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

    from hermes_nb.telemetry.content import Content
    from hermes_nb.telemetry.logs import Events
    from hermes_nb.telemetry.metrics import Release

Channel: TypeAlias = SpanChannel | LogChannel | MetricChannel
Channels: TypeAlias = dict[object, Channel]

_GOODBYE: Final = 3.0
"""Seconds that the end of the process waits for each destination at most."""

_channels: Channels = {}
_lock = threading.Lock()


class _Wanted(NamedTuple):
    """What a destination is sent: spans, and log records and metrics beside them unless they are None."""

    spans: Rendering
    logs: Rendering | None
    metrics: Release | None


class Capture:
    """Spans of all turns from here on, sent somewhere; made by `capture()`.

    Usable in a `with` statement, or ended by `shutdown()`, or left alone until the process ends.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        with _lock:
            replaced = [_channels.pop(key) for key in channels if key in _channels]
            _channels.update(channels)
        for old in replaced:
            HUB.remove(old)
            old.close(_GOODBYE)
        for channel in channels.values():
            HUB.add(channel)

    @property
    def failures(self) -> int:
        """Exports that failed so far."""
        return sum(channel.failures for channel in self._channels.values())

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what is still held, and wait for it.

        Args:
            timeout: Seconds for each destination.

        Returns:
            Whether everything was handed over in time; `failures` tells what was refused.
        """
        done = [channel.flush(timeout) for channel in self._channels.values()]
        return all(done)

    def shutdown(self, timeout: float = _GOODBYE) -> None:
        """Send what is still held, and stop capturing. A second call does nothing.

        Args:
            timeout: Seconds to wait at most for each destination.
        """
        with _lock:
            mine = [(key, channel) for key, channel in self._channels.items() if _channels.get(key) is channel]
            for key, _ in mine:
                del _channels[key]
        for _, channel in mine:
            HUB.remove(channel)
            channel.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        """Shows where to, and what went wrong: `<Capture to runs.jsonl, http://localhost:6006 (2 failures)>`."""
        shown = [f"{c.name} ({c.failures} failures)" if c.failures else c.name for c in self._channels.values()]
        return f"<Capture to {', '.join(shown)}>"


def capture(  # noqa: PLR0913  each argument is one independent choice, all but the first by keyword
    path: str | os.PathLike[str] | None = None,
    *,
    otlp: str | None = None,
    exporter: SpanExporter | None = None,
    content: Content | None = None,
    redact: Callable[[str], str] | None = None,
    openinference: bool = True,
    headers: Mapping[str, str] | None = None,
    events: Events = "span",
    metrics: Release | None = None,
    meter_provider: MeterProvider | None = None,
    logger_provider: LoggerProvider | None = None,
) -> Capture:
    """Send the spans of all turns from here on to a file, a server, or an exporter of your own.

    Run again with the same destination it replaces the capture before, so that a cell can be run twice. Captures with
    other destinations stack, each with its own content, redactor and form. Spans in memory (`run.trace`) and the global
    tracer provider are not touched. A destination that fails never touches a turn: it is told of once.

    Args:
        path: A file of OTLP JSON lines, appended to; each span is on disk as soon as it ends.
        otlp: An OTLP/HTTP endpoint: `"http://localhost:6006/v1/traces"`; `/v1/traces` is added to a bare host. Needs
            the extra `hermes-nb[otlp]`. Without any destination, that of `OTEL_EXPORTER_OTLP_ENDPOINT` is taken.
        exporter: Any OpenTelemetry span exporter.
        content: What was said: `"none"`, `"new"` (messages that the call before did not have) or `"full"`; left out, as
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says, which defaults to none.
        redact: Applied to every text that people, models or tools wrote; a text that it fails on is dropped. Whatever
            has the form of a key is taken out anyway.
        openinference: Add what Phoenix and other viewers read beside the GenAI conventions.
        headers: Sent with each request to the endpoint.
        events: Where events stand: on their spans (`"span"`), or as log records too (`"both"`): beside the file as
            `*.logs.jsonl`, at the endpoint under `/v1/logs`. Each model call is then a record as well, what was said as
            data. With `OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN=logs` exceptions are log records only.
        metrics: Record metrics too, under the newest names (`"latest"`) or those of semantic conventions 1.37
            (`"1.37"`): beside the file as `*.metrics.jsonl`, at the endpoint under `/v1/metrics`.
        meter_provider: Record metrics with a provider of your own.
        logger_provider: Emit log records with a provider of your own.

    Returns:
        A handle to flush or end the capture.

    Raises:
        ConfigurationError: There is no destination, or one that cannot work.
    """
    _check("content", content, ("none", "new", "full"))
    _check("events", events, ("span", "both"))
    _check("metrics", metrics, ("latest", "1.37"))
    if path is None and otlp is None and exporter is None and meter_provider is None and logger_provider is None:
        otlp = _endpoint_of_environment()
    if events == "both" and path is None and otlp is None and logger_provider is None:
        msg = "events='both' needs a file, a server, or a logger_provider, which log records go to"
        raise ConfigurationError(msg)
    as_logs = events == "both" or logger_provider is not None
    hidden = Hidden.from_environment()
    said, said_in_logs = (content or content_of_environment(signal) for signal in ("span", "event"))
    on_spans = not (as_logs and _exceptions_are_logs())
    spans = Rendering(said, hidden, openinference=openinference, redact=redact, exceptions=on_spans)
    logs = Rendering(said_in_logs, hidden, openinference=False, redact=redact)
    wanted = _Wanted(spans, logs if events == "both" else None, metrics)
    channels: Channels = {}
    if otlp is not None:
        channels |= _to_server(otlp, headers, wanted)
    if path is not None:
        channels |= _to_file(Path(path).expanduser().resolve(), wanted)
    if exporter is not None:
        channels[exporter] = SpanChannel(type(exporter).__qualname__, exporter, spans)
    if meter_provider is not None:
        name = type(meter_provider).__qualname__
        channels[meter_provider] = MetricChannel(name, None, metrics or "latest", provider=meter_provider)
    if logger_provider is not None:
        name = type(logger_provider).__qualname__
        channels[logger_provider] = LogChannel(name, None, logs, provider=logger_provider)
    return Capture(channels)


def _exceptions_are_logs() -> bool:
    """Whether the environment wants exceptions as log records only; `logs/dup` wants both."""
    wanted = os.environ.get("OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN", "").split(",")
    return "logs" in (each.strip().lower() for each in wanted)


def _check(name: str, given: object, known: tuple[str, ...]) -> None:
    if given is not None and given not in known:
        msg = f"{name} is one of {', '.join(map(repr, known))}, not {given!r}"
        raise ConfigurationError(msg)


# ---------------------------------------------------------------------------------------------- files


def _to_file(path: Path, wanted: _Wanted) -> Channels:
    file = _opened(path)
    channels: Channels = {path: SpanChannel(path.name, spans_to(file), wanted.spans, file)}
    if wanted.logs is not None:
        beside = path.with_suffix(".logs.jsonl")
        file = _opened(beside)
        channels[beside] = LogChannel(beside.name, logs_to(file), wanted.logs, file=file)
    if wanted.metrics is not None:
        beside = path.with_suffix(".metrics.jsonl")
        file = _opened(beside)
        channels[beside] = MetricChannel(beside.name, metrics_to(file), wanted.metrics, file=file)
    return channels


def _opened(path: Path) -> Lines:
    try:
        return Lines(path)
    except OSError as error:
        msg = f"cannot write to {path}: {error.strerror or error}"
        raise ConfigurationError(msg) from error


# ---------------------------------------------------------------------------------------------- servers

_TRACES: Final = "/v1/traces"


def _endpoint_of_environment() -> str:
    if endpoint := os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return endpoint
    if base := os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return base.rstrip("/") + _TRACES
    msg = "say where to: capture('turns.jsonl'), capture(otlp='http://localhost:6006'), or capture(exporter=...)"
    raise ConfigurationError(msg)


def _to_server(url: str, headers: Mapping[str, str] | None, wanted: _Wanted) -> Channels:
    endpoint, name = _endpoint(url), _shown(url)
    if (wanted.metrics or wanted.logs) and not endpoint.endswith(_TRACES):
        msg = (
            f"metrics and log records go beside an endpoint that ends in {_TRACES}; "
            f"for {name} give a meter_provider or a logger_provider instead"
        )
        raise ConfigurationError(msg)
    base = endpoint.removesuffix(_TRACES)
    channels: Channels = {endpoint: SpanChannel(name, _exporter_of_spans(endpoint, headers), wanted.spans)}
    if wanted.logs is not None:
        beside = f"{base}/v1/logs"
        channels[beside] = LogChannel(name, _exporter_of_logs(beside, headers), wanted.logs)
    if wanted.metrics is not None:
        beside = f"{base}/v1/metrics"
        channels[beside] = MetricChannel(name, _exporter_of_metrics(beside, headers), wanted.metrics)
    return channels


def _endpoint(url: str) -> str:
    """The URL that spans are posted to."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        msg = f"otlp is the address of a server, like 'http://localhost:6006/v1/traces', not {_shown(url)!r}"
        raise ConfigurationError(msg)
    return url if parts.path.strip("/") else parts._replace(path=_TRACES).geturl()


def _shown(url: str) -> str:
    """A URL without user, password and query."""
    parts = urlsplit(url)
    if not parts.hostname:
        return url.partition("?")[0]
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"


def _exporter_of_spans(endpoint: str, headers: Mapping[str, str] | None) -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigurationError(_NEEDS_EXTRA) from error
    return OTLPSpanExporter(endpoint, headers=dict(headers) if headers else None)


def _exporter_of_logs(endpoint: str, headers: Mapping[str, str] | None) -> LogRecordExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(_NEEDS_EXTRA) from error
    return OTLPLogExporter(endpoint, headers=dict(headers) if headers else None)


def _exporter_of_metrics(endpoint: str, headers: Mapping[str, str] | None) -> MetricExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(_NEEDS_EXTRA) from error
    return OTLPMetricExporter(endpoint, headers=dict(headers) if headers else None)


_NEEDS_EXTRA: Final = "sending to a server needs another package: pip install 'hermes-nb[otlp]'"


@atexit.register
def _goodbye() -> None:
    """The process ends: send what is held."""
    with _lock:
        left = list(_channels.values())
        _channels.clear()
    for channel in left:
        HUB.remove(channel)
        channel.close(_GOODBYE)
