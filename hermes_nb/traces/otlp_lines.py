"""Traces as OTLP JSON lines, for any tool that reads OpenTelemetry: spans, then log records, then metrics."""

from __future__ import annotations

from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from hermes_nb.traces.jsons import dumps, loads, loads_mapping
from hermes_nb.traces.names import RUN_ID, SERVICE
from hermes_nb.traces.readers.otlp import EXTRA
from hermes_nb.traces.table import records, without_words
from hermes_nb.traces.whole import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

    from hermes_nb.traces.table import Tables

_LINE: Final = 200
"""Spans or data points in one line of JSON at most; log records stay in the lists in which they were."""
_KINDS: Final = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUSES: Final = {"UNSET": 0, "OK": 1, "ERROR": 2}
_SEVERITIES: Final = {"TRACE": 1, "DEBUG": 5, "INFO": 9, "WARN": 13, "ERROR": 17, "FATAL": 21}
_TEMPORALITIES: Final = {"delta": 1, "cumulative": 2}
_INT64: Final = 2**63


def to_otlp_json(tables: Tables, path: str | PathLike[str], *, content: bool) -> None:
    """Write spans with their events and links, log records and metrics; the file appears when it is whole.

    Each line holds one of the three signals, as OpenTelemetry's file format asks.

    Args:
        tables: What to write.
        path: The file; replaced if it is there.
        content: Write what was said too.
    """
    with whole(path) as file, file.open("w", encoding="utf-8", newline="\n") as stream:
        for document in _documents(tables, content=content):
            stream.write(dumps(document) + "\n")


def _documents(tables: Tables, *, content: bool) -> Iterator[Record]:
    told = tables.events if content else without_words(tables.events)
    is_log = pc.fill_null(pc.equal(told["source"], "log"), False)
    events = _below(records(told.filter(pc.invert(is_log))))
    links = _below(records(tables.links))
    for block in _blocks(records(tables.spans)):
        yield {"resourceSpans": list(_resources(block, events, links, content=content))}
    for (run, _), group in groupby(enumerate(records(told.filter(is_log))), _list_of_logs):
        yield {"resourceLogs": [_logs(run, (record for _, record in group))]}
    for block in _blocks(records(tables.metrics)):
        yield {"resourceMetrics": [_metrics(known, group) for known, group in _runs(block, "service_name", "run_id")]}


# ---------------------------------------------------------------------------------------------- spans


Record = dict[str, Any]
_Key = tuple[str | None, str | None]


def _below(rows: Iterable[Record]) -> dict[_Key, list[Record]]:
    """Events or links by their span."""
    found: dict[_Key, list[Record]] = {}
    for row in rows:
        found.setdefault((row["trace_id"], row["span_id"]), []).append(row)
    return found


def _resources(
    block: list[Record], events: dict[_Key, list[Record]], links: dict[_Key, list[Record]], *, content: bool
) -> Iterator[Record]:
    for (told, service, run, scope), group in _runs(block, "resource_json", "service_name", "run_id", "scope_name"):
        resource = loads_mapping(told) or _known(service, run)
        spans = [_span(each, events, links, content=content) for each in group]
        yield {
            "resource": {"attributes": _attributes(resource)},
            "scopeSpans": [{"scope": {"name": scope} if scope else {}, "spans": spans}],
        }


def _span(span: Record, events: dict[_Key, list[Record]], links: dict[_Key, list[Record]], *, content: bool) -> Record:
    key = span["trace_id"], span["span_id"]
    said = loads_mapping(span["attributes_json"])
    if content:
        said |= loads_mapping(span["content_json"])
    out: Record = {
        "traceId": span["trace_id"] or "",
        "spanId": span["span_id"] or "",
        "name": span["name"],
        "kind": _KINDS.get(span["kind"], 1),
        "attributes": _attributes(said),
        "events": [_event(each) for each in events.get(key, ())],
        "links": [_link(each) for each in links.get(key, ())],
        "status": {"code": _STATUSES.get(span["status"], 0)},
    }
    if span["parent_span_id"]:
        out["parentSpanId"] = span["parent_span_id"]
    if span["status_message"]:
        out["status"]["message"] = span["status_message"]
    for name, field in (("startTimeUnixNano", "start_time"), ("endTimeUnixNano", "end_time")):
        if span[field] is not None:
            out[name] = str(span[field])
    for name, field in (("droppedAttributesCount", "dropped_attributes"), ("droppedEventsCount", "dropped_events")):
        if span[field]:
            out[name] = span[field]
    return out


def _event(event: Record) -> Record:
    out: Record = {"name": event["name"] or "", "attributes": _attributes(loads_mapping(event["attributes_json"]))}
    if event["time"] is not None:
        out["timeUnixNano"] = str(event["time"])
    return out


def _link(link: Record) -> Record:
    return {
        "traceId": link["linked_trace_id"] or "",
        "spanId": link["linked_span_id"] or "",
        "attributes": _attributes(loads_mapping(link["attributes_json"])),
    }


# ---------------------------------------------------------------------------------------------- log records


def _list_of_logs(numbered: tuple[int, Record]) -> tuple[str | None, int]:
    """What records have in common that stood in one list: their run, and where the list begins."""
    place, record = numbered
    return record["run_id"], place - record["seq"]


def _logs(run: str | None, group: Iterable[Record]) -> Record:
    return {
        "resource": {"attributes": _attributes(_known(None, run))},
        "scopeLogs": [{"scope": {}, "logRecords": [_log(each) for each in group]}],
    }


def _log(record: Record) -> Record:
    severity = record["severity"] or ""
    out: Record = {
        "timeUnixNano": record["time"] and str(record["time"]),
        "traceId": record["trace_id"],
        "spanId": record["span_id"],
        "eventName": record["name"],
        "severityText": severity,
        "severityNumber": _SEVERITIES.get(severity.upper()),
        "body": None if record["body"] is None else _value(_structured(record["body"])),
    }
    return {key: value for key, value in out.items() if value} | _event(record)


def _structured(text: str) -> Any:
    """What the text is the JSON of, if it is exactly that of a list or an object; else the text."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        value = loads(text)
    except ValueError:
        return text
    return value if dumps(value) == text else text


# ---------------------------------------------------------------------------------------------- metrics

_FIELDS: Final = {
    "sum": "sum",
    "gauge": "gauge",
    "histogram": "histogram",
    "exponential_histogram": "exponentialHistogram",
    "summary": "summary",
}


def _metrics(known: tuple[str | None, ...], group: Iterable[Record]) -> Record:
    metrics = [_metric(*each) for each in _runs(group, "name", "unit", "kind", "temporality", "monotonic")]
    return {
        "resource": {"attributes": _attributes(_known(*known))},
        "scopeMetrics": [{"scope": {}, "metrics": metrics}],
    }


def _metric(known: tuple[Any, ...], points: Iterable[Record]) -> Record:
    name, unit, kind, temporality, monotonic = known
    data: Record = {"dataPoints": [_point(each) for each in points]}
    if temporality is not None:
        data["aggregationTemporality"] = _TEMPORALITIES.get(temporality, 0)
    if monotonic is not None:
        data["isMonotonic"] = monotonic
    return {"name": name, "unit": unit or "", _FIELDS[kind]: data}


def _point(point: Record) -> Record:
    said = loads_mapping(point["attributes_json"])
    own = {} if point["kind"] in ("sum", "gauge") else {key: said.pop(key) for key in EXTRA if key in said}
    counts, bounds = point["bucket_counts_json"], point["explicit_bounds_json"]
    fields: Record = {
        "startTimeUnixNano": point["start_time"] and str(point["start_time"]),
        "timeUnixNano": point["time"] and str(point["time"]),
        "asDouble": point["value"],
        "count": None if point["observations"] is None else str(point["observations"]),
        "sum": point["total"],
        "bucketCounts": None if counts is None else [str(each) for each in loads(counts)],
        "explicitBounds": None if bounds is None else loads(bounds),
    }
    told: Record = {key: each for key, each in fields.items() if each is not None}
    return {"attributes": _attributes(said)} | own | told


# ---------------------------------------------------------------------------------------------- fields


def _blocks(rows: Iterator[Record]) -> Iterator[list[Record]]:
    while block := list(islice(rows, _LINE)):
        yield block


def _runs(rows: Iterable[Record], *names: str) -> Iterator[tuple[tuple[Any, ...], Iterator[Record]]]:
    """Neighbours that have the same values of some fields, with these values."""
    return groupby(rows, lambda row: tuple(row[name] for name in names))


def _known(service: str | None, run: str | None) -> Record:
    """A resource of which only this is known."""
    known: Record = {SERVICE: service, RUN_ID: run}
    return dict(filter(itemgetter(1), known.items()))


def _attributes(values: Record) -> list[Record]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> Record:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _attributes(value)}}
    return {} if value is None else {"stringValue": str(value)}
