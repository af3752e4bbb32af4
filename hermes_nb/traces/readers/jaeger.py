"""Jaeger's JSON: the answer of its API, one trace, or a bare list of spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.jsons import dumps
from hermes_nb.traces.names import RUN_ID, SERVICE
from hermes_nb.traces.readers.otlp import hex_id
from hermes_nb.traces.rows import EventRow, LinkRow, SpanRow
from hermes_nb.traces.values import as_bool, as_float, as_int, as_text, as_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermes_nb.traces.readers.report import File
    from hermes_nb.traces.rows import Row

    Json = Mapping[str, Any]

_MICROSECOND: Final = 1_000
_KINDS: Final = frozenset({"INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"})


def is_span(value: Any) -> bool:
    """Whether this is one of Jaeger's spans."""
    return isinstance(value, dict) and "traceID" in value and "spanID" in value


def is_jaeger(value: Any) -> bool:
    """Whether a document is Jaeger's."""
    if isinstance(value, list):
        return any(map(is_jaeger, value[:3]))
    if not isinstance(value, dict):
        return False
    data = value.get("data")
    return is_span(value) or ("traceID" in value and "spans" in value) or (isinstance(data, list) and is_jaeger(data))


def rows(document: Any, file: File) -> Iterator[Row]:
    """The rows of one document: spans, events (Jaeger's logs), links."""
    for trace in _traces(document):
        processes = trace.get("processes")
        for span in trace["spans"] if isinstance(trace.get("spans"), list) else ():
            if is_span(span):
                yield from _span(span, processes if isinstance(processes, dict) else {})
            else:
                file.skip("an entry among the spans that is no span")


def _traces(document: Any) -> Iterator[Json]:
    if isinstance(document, list):
        for each in document:
            yield from _traces(each)
    elif is_span(document):
        yield {"spans": [document]}
    elif isinstance(document, dict):
        if isinstance(document.get("data"), list):
            yield from _traces(document["data"])
        else:
            yield document


def _span(span: Json, processes: Json) -> Iterator[Row]:
    trace_id, span_id = hex_id(span["traceID"], 32), hex_id(span["spanID"], 16)
    process = span.get("process") or processes.get(span.get("processID", "")) or {}
    resource = _tags(process.get("tags")) | {SERVICE: process.get("serviceName")}
    tags = _tags(span.get("tags"))
    start, duration = as_int(span.get("startTime")), as_int(span.get("duration"))
    start = None if start is None else start * _MICROSECOND
    parents, links = _references(span)
    logs = [log for log in span.get("logs") or () if isinstance(log, dict)]
    kind = str(tags.pop("span.kind", "internal")).upper()
    yield SpanRow(
        trace_id,
        span_id,
        parents[0] if parents else hex_id(span.get("parentSpanID"), 16),
        as_text(span.get("operationName", "")) or "",
        kind if kind in _KINDS else "INTERNAL",
        start,
        None if start is None or duration is None else start + duration * _MICROSECOND,
        _status(tags),
        as_word(tags.pop("otel.status_description", None)),
        tags,
        as_word(resource.get(RUN_ID)),
        as_word(resource.get(SERVICE)),
        as_word(tags.get("otel.scope.name") or tags.get("otel.library.name")),
        len(logs),
        len(links),
        resource_json=dumps(resource),
    )
    for seq, log in enumerate(logs):
        fields = _tags(log.get("fields"))
        when = as_int(log.get("timestamp"))
        name = as_word(fields.pop("event", None) or fields.pop("message", None))
        yield EventRow(trace_id, span_id, "span", seq, None if when is None else when * _MICROSECOND, name, fields)
    for linked in links:
        yield LinkRow(trace_id, span_id, *linked, {})


def _references(span: Json) -> tuple[list[str | None], list[tuple[str | None, str | None]]]:
    """The parents, and what is only linked: other references, and those into other traces."""
    parents: list[str | None] = []
    links: list[tuple[str | None, str | None]] = []
    for each in span.get("references") or ():
        if not isinstance(each, dict):
            continue
        ids = hex_id(each.get("traceID"), 32), hex_id(each.get("spanID"), 16)
        if each.get("refType") == "CHILD_OF" and each.get("traceID") == span["traceID"] and not parents:
            parents.append(ids[1])
        else:
            links.append(ids)
    return parents, links


def _status(tags: dict[str, Any]) -> str:
    said = str(tags.pop("otel.status_code", "")).upper()
    if said in ("OK", "ERROR"):
        return said
    return "ERROR" if as_bool(tags.get("error")) else "UNSET"


def _tags(tags: Any) -> dict[str, Any]:
    """Tags by name, as their types say: all values may be written as text."""
    if not isinstance(tags, list):
        return {}
    return {str(tag["key"]): _typed(tag) for tag in tags if isinstance(tag, dict) and "key" in tag}


def _typed(tag: Json) -> Any:
    value, read = tag.get("value"), _READERS.get(str(tag.get("type", "")).lower())
    found = None if read is None else read(value)
    return value if found is None else found


_READERS: Final = {"int64": as_int, "float64": as_float, "bool": as_bool}
