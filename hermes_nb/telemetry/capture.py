"""Observing a turn."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from hermes_nb.telemetry.hub import HUB, SCOPE_NAME, here, own_provider
from hermes_nb.telemetry.spans import SpanSink
from hermes_nb.telemetry.store import LiveStore

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from hermes_nb.vocabulary.events import Sink


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
    provider = own_provider() if tracer_provider is None else tracer_provider
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        store.notes.append("no spans: OTEL_SDK_DISABLED is set")
    elif not HUB.listen_to(provider):
        store.notes.append(f"no spans here: {type(provider).__qualname__} takes no span processor")
    tracer = provider.get_tracer(SCOPE_NAME, version("hermes-nb"))
    own = tracer_provider is None
    return Observation(SpanSink(tracer, store=store, openinference=not own), store)
