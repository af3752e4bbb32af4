"""Log records: the events of a span as records of their own, and one of each model call with all its attributes.

They are made of the span as its reader sees it, so that a record says what the span event says, and no more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from hermes_nb.telemetry import semconv as s
from hermes_nb.vocabulary import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan

    from hermes_nb.vocabulary.events import Scoped

Events: TypeAlias = Literal["span", "both"]
"""`span`: events stand on their spans; `both`: and as log records."""

_EXCEPTIONS: Final = {
    events.Attempt: s.EVENT_GEN_AI_CLIENT_OPERATION_EXCEPTION,
    events.Tool: s.EVENT_GEN_AI_EXECUTE_TOOL_EXCEPTION,
}
"""What the conventions call the record of an exception; on a span it is always `exception`."""
_WARNINGS: Final = {*_EXCEPTIONS.values(), s.EVENT_HERMES_DEGRADED, s.EVENT_HERMES_GUARD_DEGRADED}
_STRUCTURED: Final = (
    s.GEN_AI_INPUT_MESSAGES, s.GEN_AI_OUTPUT_MESSAGES, s.GEN_AI_SYSTEM_INSTRUCTIONS, s.GEN_AI_TOOL_DEFINITIONS,
)  # fmt: skip
"""JSON text on spans, data on events, as the conventions demand."""


def records(span: ReadableSpan, what: Scoped) -> Iterator[LogRecord]:
    """The log records of an ended span.

    Args:
        span: As the reader of the records sees it.
        what: The scope that it tells of.
    """
    context = span.get_span_context()
    assert context is not None, "spans of the SDK always have a context"
    around = set_span_in_context(NonRecordingSpan(context))
    for event in span.events:
        name = _EXCEPTIONS[type(what)] if event.name == s.EVENT_EXCEPTION else event.name
        yield _record(around, event.timestamp, name, dict(event.attributes or {}))
    if isinstance(what, events.Chat):
        told: dict[str, Any] = dict(span.attributes or {})
        told |= {key: json.loads(told[key]) for key in _STRUCTURED if key in told}
        yield _record(around, span.end_time, s.EVENT_GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS, told)


def _record(around: Context, at: int | None, name: str, attributes: dict[str, Any]) -> LogRecord:
    severity = SeverityNumber.WARN if name in _WARNINGS else SeverityNumber.INFO
    return LogRecord(
        timestamp=at,
        context=around,
        severity_text=severity.name,
        severity_number=severity,
        attributes=attributes,
        event_name=name,
    )
