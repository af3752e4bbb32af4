"""Spans of the OpenTelemetry SDK in memory, open ones included, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_nb.traces.rows import EventRow, LinkRow, SpanRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry.sdk.resources import Resource

    from hermes_nb.telemetry.store import Kept


def rows(kept: Iterable[Kept]) -> Iterator[SpanRow | EventRow | LinkRow]:
    """The rows of spans, with their events and links behind each."""
    resources: dict[int, tuple[str | None, str | None]] = {}
    for item in kept:
        span = item.span
        context = span.context
        if context is None:
            continue
        trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
        resource = span.resource
        ids = resources.get(id(resource)) or resources.setdefault(id(resource), _ids(resource))
        parent, status, scope, events, links = (
            span.parent,
            span.status,
            span.instrumentation_scope,
            span.events,
            span.links,
        )
        yield SpanRow(
            trace_id, span_id, None if parent is None else f"{parent.span_id:016x}", span.name, span.kind.name,
            span.start_time, span.end_time, status.status_code.name, status.description, _attributes(span.attributes),
            *ids, None if scope is None else scope.name, len(events), len(links), span.dropped_attributes,
            span.dropped_events,
        )  # fmt: skip
        for seq, event in enumerate(events):
            yield EventRow(trace_id, span_id, "span", seq, event.timestamp, event.name, _attributes(event.attributes))
        for link in links:
            linked = link.context
            yield LinkRow(
                trace_id, span_id, f"{linked.trace_id:032x}", f"{linked.span_id:016x}", _attributes(link.attributes)
            )


def _ids(resource: Resource) -> tuple[str | None, str | None]:
    """Run and service of a resource."""
    said = resource.attributes
    run, service = said.get("hermes.run.id"), said.get("service.name")
    return None if run is None else str(run), None if service is None else str(service)


def _attributes(attributes: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A copy that nobody changes any more; in one step, since an open span may be written to by another thread."""
    return {} if attributes is None else attributes.copy()  # type: ignore[attr-defined]  mappingproxy and BoundedAttributes have it
