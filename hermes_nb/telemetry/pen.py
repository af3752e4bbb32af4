"""The pen: writes a scope onto a span, at its start, at its end, and what happens in between."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import SpanKind, StatusCode

from hermes_nb.telemetry import mapping, semconv
from hermes_nb.telemetry.content import content_attributes, point_content
from hermes_nb.telemetry.hub import IDS
from hermes_nb.telemetry.redaction import safe_attributes, without_keys
from hermes_nb.vocabulary import events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer

    from hermes_nb.telemetry.content import Content
    from hermes_nb.telemetry.mapping import Mark
    from hermes_nb.telemetry.store import Kept
    from hermes_nb.vocabulary.events import Event

_KINDS: Final = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class Pen:
    """Writes spans of one tracer; the arguments are those of the span sink.

    Attributes:
        lock: Held by whoever writes, or leaves for later, what is written onto a span.
    """

    def __init__(self, tracer: Tracer, *, content: Content, openinference: bool) -> None:
        self._tracer = tracer
        self.content = content
        self._openinference = openinference
        self.lock = RLock()

    def begin(self, event: Event, around: Context, links: Sequence[Link] | None) -> Span:
        """The span of a scope that starts."""
        what: Any = event.what
        IDS.expect(event.turn_id, event.scope)
        return self._tracer.start_span(
            mapping.span_name(what),
            around,
            kind=_KINDS[mapping.span_kind(what)],
            attributes=safe_attributes(mapping.start_attributes(event)),
            links=links,
            start_time=event.at,
            record_exception=False,
            set_status_on_exception=False,
        )

    def mark(self, event: Event, mark: Mark, span: Span) -> None:
        """A point, as a span event."""
        attributes = mark.attributes
        if self.content != "none" and isinstance(event.what, events.Steered):
            attributes = attributes | point_content(event.what, redact=without_keys)
        span.add_event(mark.name, safe_attributes(attributes), timestamp=event.at)

    def end(self, event: Event, kept: Kept | None, span: Span) -> None:
        """What is known when the scope ends; the span itself is still open.

        Args:
            event: The scope's `ended`.
            kept: Where to find what was said, if that is wanted.
            span: What is written onto.
        """
        what: Any = event.what
        out = mapping.end_attributes(event, openinference=self._openinference)
        if kept is not None:
            out |= content_attributes(kept, self.content, redact=without_keys, openinference=self._openinference)
        span.set_attributes(safe_attributes(out))
        if not mapping.failed(event):
            return
        if (exception := mapping.exception(what)) is not None:
            span.add_event(semconv.EVENT_EXCEPTION, safe_attributes(exception), timestamp=event.at)
        words = safe_attributes({semconv.EXCEPTION_MESSAGE: mapping.description(what)})
        span.set_status(StatusCode.ERROR, words[semconv.EXCEPTION_MESSAGE] or None)
