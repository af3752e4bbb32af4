"""Spans as one reader is to see them: with or without what was said, and what viewers want beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan

from hermes_nb.telemetry import mapping, semconv
from hermes_nb.telemetry.content import content_attributes, point_content
from hermes_nb.telemetry.redaction import Redactor, safe_attributes
from hermes_nb.vocabulary.events import Steered

if TYPE_CHECKING:
    from collections.abc import Callable

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
