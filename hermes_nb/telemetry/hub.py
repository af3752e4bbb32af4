"""Where spans go: the process's own tracer provider, and the processor that spreads them.

The context of a turn carries its store, so that whatever is started below it (also by the user, also in a worker
thread with a copied context) finds the way there. Nothing here is OpenTelemetry's global provider.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from functools import cache
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from opentelemetry import context as otel
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanContext, TraceFlags

from hermes_nb.telemetry import mapping, semconv
from hermes_nb.vocabulary.process import run_id

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span
    from opentelemetry.trace import Tracer

    from hermes_nb.telemetry.deferred import Deferred
    from hermes_nb.telemetry.spans import TurnSpans
    from hermes_nb.telemetry.store import Kept, LiveStore
    from hermes_nb.vocabulary.events import Sink

SCOPE_NAME: Final = "hermes_nb"
LIMITS: Final = {"max_span_attributes": 1024, "max_events": 1024, "max_links": 1024, "max_event_attributes": 128}
"""The SDK's own limits (128 each) throw the oldest away without a word."""

_ROOTS_KEPT: Final = 4096


class Here(NamedTuple):
    """Where in which turn a context belongs; its value under `HERE`."""

    store: LiveStore
    turn_id: str
    scope: int


HERE: Final = otel.create_key("hermes_nb")


def here(context: Context | None = None) -> Here | None:
    """The place in a turn that a context (the current one) belongs to."""
    found = otel.get_value(HERE, context)
    return found if isinstance(found, Here) else None


class Outlet(Protocol):
    """Somewhere that ended spans go."""

    @property
    def sink(self) -> Sink | None:
        """Wants each turn's events as well."""

    def take(self, kept: Kept) -> None:
        """One span that has ended; never raises, never waits for a network."""

    def flush(self, timeout: float) -> bool:
        """Send what is still held, and wait for it, at most so many seconds; False if that was not enough."""


class Hub(SpanProcessor):
    """Puts each span that starts below a turn into the turn's store, and gives it to the outlets when it ends."""

    def __init__(self) -> None:
        self.outlets: tuple[Outlet, ...] = ()
        self.turns: WeakValueDictionary[str, TurnSpans] = WeakValueDictionary()
        self._roots: OrderedDict[str, SpanContext] = OrderedDict()
        self._open: dict[int, Kept] = {}
        self._providers: WeakValueDictionary[int, object] = WeakValueDictionary()
        self._lock = threading.Lock()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Keep the span, if a turn is around it."""
        if (place := here(parent_context)) is not None:
            self.keep(span, place.store, place.turn_id)

    def keep(self, span: Span | Deferred, store: LiveStore, turn_id: str) -> Kept:
        """Keep a span that starts in a turn, until it ends for the outlets too."""
        number = span.get_span_context().span_id
        kept = self._open[number] = store.add(number, span, turn_id)
        return kept

    def on_end(self, span: ReadableSpan | Deferred) -> None:
        """Hand the span on."""
        context = span.get_span_context()
        kept = self._open.pop(context.span_id, None) if context is not None else None
        if kept is not None:
            for outlet in self.outlets:
                outlet.take(kept)

    def shutdown(self) -> None:
        """Nothing: the outlets outlive a provider of the user's that is shut down."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the outlets."""
        done = [outlet.flush(timeout_millis / 1000) for outlet in self.outlets]
        return all(done)

    def add(self, outlet: Outlet) -> None:
        """Give ended spans to this outlet too."""
        with self._lock:
            self.outlets = (*self.outlets, outlet)

    def remove(self, outlet: Outlet) -> None:
        """Give no more spans to this outlet."""
        with self._lock:
            self.outlets = tuple(other for other in self.outlets if other is not outlet)

    def listen_to(self, provider: object) -> bool:
        """Become a processor of a provider, once; False if it takes none."""
        if not hasattr(provider, "add_span_processor"):
            return False
        with self._lock:
            if id(provider) not in self._providers:  # some cannot be hashed
                provider.add_span_processor(self)
                self._providers[id(provider)] = provider
        return True

    def remember(self, turn_id: str, context: SpanContext) -> None:
        """Note where a turn's root span is, for links from the next turn."""
        with self._lock:
            self._roots[turn_id] = context
            while len(self._roots) > _ROOTS_KEPT:
                self._roots.popitem(last=False)

    def root(self, turn_id: str) -> SpanContext:
        """Where a turn's root span is; for a turn of another kernel, where it would be."""
        with self._lock:
            known = self._roots.get(turn_id)
        if known is not None:
            return known
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(mapping.trace_id(turn_id), mapping.span_id(turn_id, 1), is_remote=True, trace_flags=flags)


HUB: Final = Hub()


@cache
def version() -> str:
    """The library's version."""
    return version_of("hermes-nb")


class _TurnIds(RandomIdGenerator):
    """Ids that follow from the turn, where a turn's scope starts; random ones elsewhere."""

    def __init__(self) -> None:
        self._next = threading.local()

    def expect(self, turn_id: str, scope: int) -> None:
        """The next span that this thread starts is that of the scope."""
        self._next.value = (turn_id, scope)

    def generate_span_id(self) -> int:
        """The scope's span, or a random one."""
        wanted, self._next.value = getattr(self._next, "value", None), None
        return super().generate_span_id() if wanted is None else mapping.span_id(*wanted)

    def generate_trace_id(self) -> int:
        """The turn's trace, or a random one; asked for before the span's id."""
        wanted = getattr(self._next, "value", None)
        return super().generate_trace_id() if wanted is None else mapping.trace_id(wanted[0])

    def is_trace_id_random(self) -> bool:
        """Not promised: a turn's id may be one of the user's."""
        return False


IDS: Final = _TurnIds()


@cache
def own_tracer() -> Tracer:
    """The tracer of the process's own provider: every span, wide limits, and never the global one.

    A span around the turn that was not sampled does not take the turn's spans away.
    """
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=resource(),
        id_generator=IDS,
        span_limits=SpanLimits(**LIMITS),
        shutdown_on_exit=False,
    )
    HUB.listen_to(provider)
    return provider.get_tracer(SCOPE_NAME, version())


@cache
def resource() -> Resource:
    """Who emits: the service, its version, this process, and the conventions followed."""
    named = os.environ.get("OTEL_SERVICE_NAME") or "hermes_nb"
    return Resource.create(
        {
            semconv.SERVICE_NAME: named,
            semconv.SERVICE_VERSION: version(),
            semconv.OPENINFERENCE_PROJECT_NAME: os.environ.get("PHOENIX_PROJECT_NAME") or named,
            semconv.HERMES_SEMCONV_GENAI: semconv.GENAI_RELEASE,
            semconv.HERMES_RUN_ID: run_id(),
        }
    )
