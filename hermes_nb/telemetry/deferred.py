"""A span that is written when somebody looks at it.

To write a span costs more than all else that happens to it, and the spans of most turns are never looked at. What is to
be written is known from the events of the scope, so it can wait: until a frame or a picture is made, until the span
ends and a destination wants it, or until a tool asks for the span around it and writes onto it.
"""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any, Final, cast

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, get_current_span, set_span_in_context

from hermes_nb.telemetry import mapping
from hermes_nb.telemetry.hub import HUB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.sdk.trace import Span as SdkSpan
    from opentelemetry.trace import Link, Status, StatusCode
    from opentelemetry.util.types import AnyValue, Attributes

    from hermes_nb.telemetry.pen import Pen
    from hermes_nb.vocabulary.events import Event


_RANDOM: Final[int] = getattr(TraceFlags, "RANDOM_TRACE_ID", 0)
"""Handed down from a parent, by the versions of the SDK that know it."""

_FLAGS: Final = {flags: TraceFlags(TraceFlags.SAMPLED | flags) for flags in (0, _RANDOM)}


class Deferred(Span):
    """The span of a scope; safe to use from any thread.

    It holds nothing that leads back to itself, so that nothing is left for the garbage collector.

    Args:
        pen: Writes it.
        event: The scope's `started`.
        around: The context that it starts in.
        links: To other spans.

    Attributes:
        parent: The span around it; None if there is none.
        end_time: In nanoseconds; None while it is open.
    """

    def __init__(self, pen: Pen, event: Event, around: Context, links: Sequence[Link] | None) -> None:
        above = get_current_span(around).get_span_context()
        within = above.is_valid
        self.parent = above if within else None
        self.end_time: int | None = None
        self._context = SpanContext(
            above.trace_id if within else mapping.trace_id(event.turn_id),
            mapping.span_id(event.turn_id, event.scope),
            is_remote=False,
            trace_flags=_FLAGS[above.trace_flags & _RANDOM],
            trace_state=above.trace_state,
        )
        self._pen = pen
        self._event, self._links = event, links
        self._later: tuple[tuple[Any, ...], ...] = ()
        self._span: SdkSpan | None = None

    def later(self, stroke: Callable[..., object], *what: Any) -> None:
        """Have the pen write something when the span is written; now, if it is.

        Args:
            stroke: A method of the pen.
            what: Its arguments before the span.
        """
        with self._pen.lock:
            if self._span is None:
                self._later += ((stroke, *what),)
            else:
                stroke(self._pen, *what, self._span)

    def written(self) -> SdkSpan:
        """The span itself."""
        with self._pen.lock:
            if self._span is None:
                around = Context()
                if self.parent is not None:
                    around = set_span_in_context(NonRecordingSpan(self.parent), around)
                span = self._span = cast("SdkSpan", self._pen.begin(self._event, around, self._links))
                for stroke, *what in self._later:
                    stroke(self._pen, *what, span)
                self._later = ()
                if self.end_time is not None:
                    span.end(self.end_time)
            return self._span

    # ------------------------------------------------------------------------------------- as any other span

    def __getattr__(self, name: str) -> Any:
        """What else a span of the SDK has: tools and span processors read its name, attributes, resource."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.written(), name)

    def get_span_context(self) -> SpanContext:
        """The ids, which are known before anything is written."""
        return self._context

    def is_recording(self) -> bool:
        """Whether the span is still open."""
        return self.end_time is None

    def end(self, end_time: int | None = None) -> None:
        """End the span, once."""
        with self._pen.lock:
            if self.end_time is not None:
                return
            self.end_time = time_ns() if end_time is None else end_time
            if self._span is not None:
                self._span.end(self.end_time)
        HUB.on_end(self)

    def set_attributes(self, attributes: Mapping[str, AnyValue]) -> None:
        """Write it, and set attributes."""
        self.written().set_attributes(attributes)

    def set_attribute(self, key: str, value: AnyValue) -> None:
        """Write it, and set an attribute."""
        self.written().set_attribute(key, value)

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        """Write it, and add an event."""
        self.written().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        """Write it, and add a link."""
        self.written().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        """Write it, and give it another name."""
        self.written().update_name(name)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Write it, and set its status."""
        self.written().set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Write it, and record an exception."""
        self.written().record_exception(exception, attributes, timestamp, escaped)
