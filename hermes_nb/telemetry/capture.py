"""Observing a turn, and sending what is observed to files and servers."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self
from urllib.parse import urlsplit

from hermes_nb.telemetry.channel import Channel
from hermes_nb.telemetry.exporting import Rendering, file_exporter
from hermes_nb.telemetry.hiding import Hidden
from hermes_nb.telemetry.hub import HUB, SCOPE_NAME, here, own_provider
from hermes_nb.telemetry.spans import SpanSink
from hermes_nb.telemetry.store import LiveStore
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import TracerProvider

    from hermes_nb.telemetry.content import Content
    from hermes_nb.vocabulary.events import Event, Sink

logger = logging.getLogger("hermes_nb")

Metrics = Literal["latest", "1.37"]

_GOODBYE: Final = 3.0
"""Seconds that the end of the process waits for spans to be sent at most."""


# ---------------------------------------------------------------------------------------------- one turn


@dataclass(frozen=True, slots=True)
class Observation:
    """What watches one turn.

    Attributes:
        sink: Takes the turn's events.
        store: Holds the turn's spans, open ones included.
    """

    sink: Sink
    store: LiveStore

    def flush(self) -> None:
        """The turn is over: what is still held begins to be sent. Does not wait."""
        for outlet in HUB.outlets:
            outlet.send()


def observe(tracer_provider: TracerProvider | None = None) -> Observation:
    """Watch one turn; called where the turn is started, so that a span open there becomes its parent.

    Args:
        tracer_provider: Makes the spans instead of the process's own; it gets a processor, so that the store and the
            captures have them too.
    """
    around = here()
    store = LiveStore() if around is None else around.store
    provider = own_provider() if tracer_provider is None else tracer_provider
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        store.notes.append("no spans: OTEL_SDK_DISABLED is set")
    elif not HUB.listen_to(provider):
        store.notes.append(f"no spans here: {type(provider).__qualname__} takes no span processor")
    tracer = provider.get_tracer(SCOPE_NAME, version("hermes-nb"))
    if tracer_provider is None:
        spans = SpanSink(tracer, store=store, openinference=False)
    else:
        spans = SpanSink(tracer, store=store, content=content_of_environment())
    others = tuple(outlet.sink for outlet in HUB.outlets if outlet.sink is not None)
    return Observation(_with(spans, others) if others else spans, store)


def _with(spans: SpanSink, others: tuple[Sink, ...]) -> Sink:
    """The span sink, and others beside it that may fail without it."""

    def tell(event: Event) -> AbstractContextManager[object] | None:
        for other in others:
            try:
                other(event)
            except Exception:
                logger.warning("metrics of %s could not be recorded", type(event.what).__name__, exc_info=True)
        return spans(event)

    return tell


def content_of_environment() -> Content:
    """What `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says of content on spans; `none` if unset."""
    given = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower()
    return "full" if given in ("span_only", "span_and_event", "true", "full") else "new" if given == "new" else "none"


# ---------------------------------------------------------------------------------------------- capture


_channels: dict[object, Channel] = {}
_lock = threading.Lock()


class Capture:
    """Spans of all turns from here on, sent somewhere; made by `capture()`.

    Usable in a `with` statement, or ended by `shutdown()`, or left alone until the process ends.
    """

    def __init__(self, channels: Mapping[object, Channel]) -> None:
        self._channels = dict(channels)
        with _lock:
            replaced = [_channels.pop(key) for key in self._channels if key in _channels]
            _channels.update(self._channels)
        for old in replaced:
            HUB.remove(old)
            old.close(_GOODBYE)
        for channel in self._channels.values():
            HUB.add(channel)

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what is still held, and wait for it.

        Args:
            timeout: Seconds.

        Returns:
            Whether everything was handed over in time; a server may still have refused it.
        """
        done = [channel.flush(timeout) for channel in self._channels.values()]
        return all(done)

    def shutdown(self, timeout: float = _GOODBYE) -> None:
        """Send what is still held, and stop capturing. A second call does nothing.

        Args:
            timeout: Seconds to wait at most for each destination.
        """
        with _lock:
            mine = [(key, c) for key, c in self._channels.items() if _channels.get(key) is c]
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


def capture(
    path: str | os.PathLike[str] | None = None,
    *,
    otlp: str | None = None,
    exporter: SpanExporter | None = None,
    content: Content | None = None,
    redact: Callable[[str], str] | None = None,
    openinference: bool = True,
    headers: Mapping[str, str] | None = None,
) -> Capture:
    """Send the spans of all turns from here on to a file, a server, or an exporter of your own.

    Run again with the same destination it replaces the capture before, so that a cell can be run twice. Captures with
    other destinations stack, each with its own content, redactor and form. Spans in memory (`run.trace`) and the global
    tracer provider are not touched. A destination that fails never touches a turn: it is told of once.

    Args:
        path: A file of OTLP JSON lines, appended to; each span is on disk as soon as it ends.
        otlp: An OTLP/HTTP endpoint: `"http://localhost:6006/v1/traces"`; `/v1/traces` is added to a bare host. Needs
            the extra `hermes-nb[otlp]`.
        exporter: Any OpenTelemetry span exporter.
        content: What was said: `"none"`, `"new"` (messages that the call before did not have) or `"full"`; left out, as
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says, which defaults to none.
        redact: Applied to every text that people, models or tools wrote; a text that it fails on is dropped. Whatever
            has the form of a key is taken out anyway.
        openinference: Add what Phoenix and other viewers read beside the GenAI conventions.
        headers: Sent with each request to the endpoint.

    Returns:
        A handle to flush or end the capture.

    Raises:
        ConfigurationError: There is no destination, or one that cannot work.
    """
    if content not in (None, "none", "new", "full"):
        msg = f"content is 'none', 'new' or 'full', not {content!r}"
        raise ConfigurationError(msg)
    chosen = content_of_environment() if content is None else content
    rendering = Rendering(chosen, Hidden.from_environment(), openinference=openinference, redact=redact)
    otlp = otlp or (None if path or exporter else _endpoint_of_environment())
    channels: dict[object, Channel] = {}
    if path is not None:
        place = Path(path).expanduser().resolve()
        channels[place] = Channel(place.name, _opened(place), rendering, held=False)
    if otlp is not None:
        endpoint = _endpoint(otlp)
        channels[endpoint] = Channel(_shown(endpoint), _otlp_exporter(endpoint, headers), rendering, held=True)
    if exporter is not None:
        channels[exporter] = Channel(type(exporter).__qualname__, exporter, rendering, held=True)
    if not channels:
        msg = "say where to: capture('turns.jsonl'), capture(otlp='http://localhost:6006'), or capture(exporter=...)"
        raise ConfigurationError(msg)
    return Capture(channels)


def _opened(path: Path) -> SpanExporter:
    try:
        return file_exporter(path)
    except OSError as error:
        msg = f"cannot write spans to {path}: {error.strerror or error}"
        raise ConfigurationError(msg) from error


def _endpoint(url: str) -> str:
    """The URL that spans are posted to."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        msg = f"otlp is the address of a server, like 'http://localhost:6006/v1/traces', not {_shown(url)!r}"
        raise ConfigurationError(msg)
    return url if parts.path.strip("/") else parts._replace(path="/v1/traces").geturl()


def _shown(url: str) -> str:
    """A URL without user, password and query."""
    parts = urlsplit(url)
    if not parts.hostname:
        return url.partition("?")[0]
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"


def _endpoint_of_environment() -> str | None:
    return os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")


def _otlp_exporter(endpoint: str, headers: Mapping[str, str] | None) -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  an extra
    except ImportError as error:
        msg = "sending spans needs another package: pip install 'hermes-nb[otlp]'"
        raise ConfigurationError(msg) from error
    return OTLPSpanExporter(endpoint, headers=dict(headers) if headers else None)


@atexit.register
def _goodbye() -> None:
    """The process ends: send what is held."""
    with _lock:
        left = list(_channels.values())
        _channels.clear()
    for channel in left:
        HUB.remove(channel)
        with suppress(RuntimeError):  # no more threads can be started
            channel.close(_GOODBYE)
