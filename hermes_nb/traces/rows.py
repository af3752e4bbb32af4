"""The neutral rows that every source of traces is read into: spans, events, links, message parts, data points."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple


class SpanRow(NamedTuple):
    """One span; times in nanoseconds since the epoch, `end_time` None while it runs, ids in lower case or None."""

    trace_id: str | None
    span_id: str | None
    parent_span_id: str | None
    name: str
    kind: str
    start_time: int | None
    end_time: int | None
    status: str
    status_message: str | None
    attributes: dict[str, Any]
    run_id: str | None = None
    service_name: str | None = None
    scope_name: str | None = None
    n_events: int = 0
    n_links: int = 0
    dropped_attributes: int = 0
    dropped_events: int = 0
    resource_json: str | None = None


class EventRow(NamedTuple):
    """One event of a span (`source` "span") or log record ("log")."""

    trace_id: str | None
    span_id: str | None
    source: str
    seq: int
    time: int | None
    name: str | None
    attributes: dict[str, Any]
    severity: str | None = None
    body: str | None = None
    run_id: str | None = None


class LinkRow(NamedTuple):
    """One link from a span to another."""

    trace_id: str | None
    span_id: str | None
    linked_trace_id: str | None
    linked_span_id: str | None
    attributes: dict[str, Any]


class MessageRow(NamedTuple):
    """One part of a message, from sources that keep messages apart from spans."""

    turn_id: str
    message_index: int
    part_index: int
    role: str
    part_type: str
    content: str
    iteration: int | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    direction: str = "input"
    origin: str | None = None
    first_span_id: str | None = None
    tokens: int | None = None
    trace_id: str | None = None
    span_id: str | None = None
    conversation_id: str | None = None
    run_id: str | None = None


class MetricRow(NamedTuple):
    """One data point of a metric."""

    name: str
    unit: str | None
    kind: str
    start_time: int | None
    time: int | None
    value: float | None
    observations: int | None
    total: float | None
    attributes: dict[str, Any]
    bucket_counts_json: str | None = None
    explicit_bounds_json: str | None = None
    run_id: str | None = None
    service_name: str | None = None
    temporality: str | None = None
    monotonic: bool | None = None


Row = SpanRow | EventRow | LinkRow | MessageRow | MetricRow


def made_id(size: int, *parts: object) -> str:
    """An id of so many bytes for what its source gives none: the same parts, the same id."""
    return blake2b("/".join(map(str, parts)).encode("utf-8", "replace"), digest_size=size).hexdigest()
