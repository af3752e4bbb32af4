"""Spans of the OpenTelemetry SDK in memory, open ones included, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_nb.telemetry.content import content_attributes, point_content
from hermes_nb.traces.jsons import dumps
from hermes_nb.traces.names import RUN_ID, SERVICE
from hermes_nb.traces.rows import EventRow, LinkRow, SpanRow
from hermes_nb.traces.values import as_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

    from hermes_nb.telemetry.store import Kept


def rows(spans: Iterable[ReadableSpan]) -> Iterator[SpanRow | EventRow | LinkRow]:
    """The rows of any SDK spans, with their events and links behind each."""
    seen: _Seen = {}
    for span in spans:
        yield from _rows(span, _copy(span.attributes), seen)


def kept_rows(kept: Iterable[Kept]) -> Iterator[SpanRow | EventRow | LinkRow]:
    """The rows of a turn's spans, with all that was said."""
    seen: _Seen = {}
    for item in kept:
        attributes = _copy(item.span.attributes) | content_attributes(item, "new", openinference=False)
        for row in _rows(item.span, attributes, seen):
            point = item.points.get(row.time or 0) if isinstance(row, EventRow) else None
            yield row if point is None else row._replace(attributes={**row.attributes, **point_content(point)})


_Seen = dict[int, tuple[str | None, str | None, str]]
"""Run, service and JSON of resources, by identity."""


def _rows(span: ReadableSpan, attributes: Mapping[str, Any], seen: _Seen) -> Iterator[SpanRow | EventRow | LinkRow]:
    context, parent, status, scope = span.context, span.parent, span.status, span.instrumentation_scope
    if context is None:
        return
    trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    events, links, resource = span.events, span.links, span.resource
    run, service, told = seen.get(id(resource)) or seen.setdefault(id(resource), _resource(resource))
    yield SpanRow(
        trace_id,
        span_id,
        None if parent is None else f"{parent.span_id:016x}",
        span.name,
        span.kind.name,
        span.start_time,
        span.end_time,
        status.status_code.name,
        status.description,
        attributes,
        run,
        service,
        None if scope is None else scope.name,
        len(events),
        len(links),
        span.dropped_attributes,
        span.dropped_events,
        told,
    )
    for seq, event in enumerate(events):
        yield EventRow(trace_id, span_id, "span", seq, event.timestamp, event.name, _copy(event.attributes))
    for link in links:
        linked = link.context
        yield LinkRow(trace_id, span_id, f"{linked.trace_id:032x}", f"{linked.span_id:016x}", _copy(link.attributes))


def _resource(resource: Resource) -> tuple[str | None, str | None, str]:
    said = resource.attributes
    return as_word(said.get(RUN_ID)), as_word(said.get(SERVICE)), dumps(dict(said))


def _copy(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy made in one step, since an open span may be written to by another thread."""
    if attributes is None:
        return {}
    copied: dict[str, Any] = attributes.copy()  # type: ignore[attr-defined]  # the proxy and the SDK's mapping have it
    return copied
