"""Observing one turn: its sink, and where its spans are kept."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hermes_nb.telemetry.hub import HUB, SCOPE_NAME, here, own_tracer, version
from hermes_nb.telemetry.spans import SpanSink
from hermes_nb.telemetry.store import LiveStore

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import TracerProvider

    from hermes_nb.telemetry.content import Content
    from hermes_nb.vocabulary.events import Event, Sink

logger = logging.getLogger("hermes_nb")


@dataclass(frozen=True, slots=True)
class Observation:
    """What watches one turn.

    Attributes:
        sink: Takes the turn's events.
        store: Holds the turn's spans, open ones included.
    """

    sink: Sink
    store: LiveStore


def observe(tracer_provider: TracerProvider | None = None) -> Observation:
    """Watch one turn; called where the turn is started, so that a span open there becomes its parent.

    Args:
        tracer_provider: Makes the spans instead of the process's own; it gets a processor, so that the store and the
            captures have them too.
    """
    around = here()
    store = LiveStore() if around is None else around.store
    others = [outlet.sink for outlet in HUB.outlets if outlet.sink is not None]
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        store.notes.append("no spans: OTEL_SDK_DISABLED is set")
        return Observation(_spread(others), store)
    if tracer_provider is None:
        spans = SpanSink(own_tracer(), store=store, openinference=False, defer=True)
    else:
        if not HUB.listen_to(tracer_provider):
            store.notes.append(f"no spans here: {type(tracer_provider).__qualname__} takes no span processor")
        tracer = tracer_provider.get_tracer(SCOPE_NAME, version())
        spans = SpanSink(tracer, store=store, content=content_of_environment())
    return Observation(_spread(others, spans) if others else spans, store)


def _nothing(_event: Event) -> None:
    """No spans are wanted."""


def _spread(others: list[Sink], spans: Sink = _nothing) -> Sink:
    """The span sink, and others beside it; one that fails is told of, and not called again in this turn."""

    def tell(event: Event) -> AbstractContextManager[object] | None:
        for other in tuple(others):
            try:
                other(event)
            except Exception:
                others.remove(other)
                logger.warning("metrics of this turn are not recorded any more", exc_info=True)
        return spans(event)

    return tell


def content_of_environment(signal: Literal["span", "event"] = "span") -> Content:
    """What `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says of content; `none` if unset.

    Args:
        signal: On spans, or on events that are log records.
    """
    given = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower()
    if given in (f"{signal}_only", "span_and_event", "true", "full"):
        return "full"
    return "new" if given == "new" else "none"
