"""Spans as one reader is to see them: with or without what was said, and what viewers want beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Status

from hermes_nb.telemetry import mapping, semconv
from hermes_nb.telemetry.content import content_attributes, point_content
from hermes_nb.telemetry.redaction import redacting, safe_attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermes_nb.telemetry.content import Content
    from hermes_nb.telemetry.hiding import Hidden
    from hermes_nb.telemetry.store import Kept

_ADDED = semconv.CONTENT | semconv.VIEWER | {semconv.HERMES_MESSAGES_OFFSET}
"""What a rendering decides about; taken off a span before it adds its own."""


class Rendering:
    """How spans look to one reader.

    Args:
        content: How much of what was said they see.
        openinference: Whether they see what viewers of OpenInference read.
        redact: Applied to every text, after what has the form of a key was taken out.
        hidden: What the environment's `OPENINFERENCE_HIDE_*` hide.
        exceptions: Whether they see exceptions as span events.
    """

    def __init__(
        self,
        content: Content,
        hidden: Hidden,
        *,
        openinference: bool = True,
        redact: Callable[[str], str] | None = None,
        exceptions: bool = True,
    ) -> None:
        self._content: Content = content
        self._left_out = "" if exceptions else semconv.EVENT_EXCEPTION
        self._openinference = openinference
        self._hidden = hidden
        self._custom = redact is not None
        self._redact = redacting(redact)
        self._input = hidden.text("INPUT", self._redact)
        self._output = hidden.text("OUTPUT", self._redact)

    def __call__(self, kept: Kept) -> ReadableSpan:
        """The span as this reader sees it; a span of the user's own as it is."""
        span = kept.span
        if kept.what is None:
            return span
        return ReadableSpan(
            name=span.name,
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes=self._attributes(span, kept),
            events=[self._event(event, kept) for event in span.events if event.name != self._left_out],
            links=span.links,
            kind=span.kind,
            status=self._status(span.status),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _attributes(self, span: ReadableSpan, kept: Kept) -> dict[str, Any]:
        assert kept.what is not None
        out = _without(span.attributes, _ADDED)
        if self._custom:
            safe_attributes(out, self._redact)
        if self._openinference:
            out |= mapping.viewer_attributes(kept.what, str(out.get(semconv.GEN_AI_CONVERSATION_ID, "")))
        said = content_attributes(
            kept, self._content, redact=self._input, redact_output=self._output, openinference=self._openinference
        )
        return self._hidden.attributes(out | safe_attributes(said))

    def _event(self, event: SpanEvent, kept: Kept) -> SpanEvent:
        point = kept.points.get(event.timestamp)
        if point is None and not self._custom:
            return event
        out = _without(event.attributes, semconv.CONTENT)
        if self._content != "none":
            out |= point_content(point, redact=self._input)
        return SpanEvent(event.name, safe_attributes(out, self._redact), event.timestamp)

    def _status(self, status: Status) -> Status:
        if status.description is None or not self._custom:
            return status
        return Status(status.status_code, self._redact(status.description))


def _without(attributes: Mapping[str, Any] | None, keys: frozenset[str]) -> dict[str, Any]:
    """A copy of a span's or an event's attributes without some of them."""
    out: dict[str, Any] = dict(attributes.copy()) if attributes else {}  # type: ignore[attr-defined]  # the SDK's mapping
    for key in keys & out.keys():
        del out[key]
    return out
