"""OTLP in JSON, as the specification has it and as it is found: spans, events, links, logs and metrics as rows.

Ids may be hexadecimal in any case or base64, keys in camelCase or snake_case, enumerations numbers or names, 64-bit
numbers text or numbers; unknown fields are ignored.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.jsons import dumps
from hermes_nb.traces.names import RUN_ID, SERVICE
from hermes_nb.traces.rows import EventRow, LinkRow, MetricRow, SpanRow
from hermes_nb.traces.values import as_bool, as_float, as_int, as_text, as_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermes_nb.traces.readers.report import File
    from hermes_nb.traces.rows import Row

    Json = Mapping[str, Any]

_SIGNALS: Final = frozenset(
    {"resourceSpans", "resourceLogs", "resourceMetrics", "resource_spans", "resource_logs", "resource_metrics"}
)
_KINDS: Final = ("INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
"""By number; unspecified is shown as internal, as the specification asks."""
_STATUSES: Final = ("UNSET", "OK", "ERROR")
_HEX: Final = frozenset("0123456789abcdef")


def is_otlp(value: Any) -> bool:
    """Whether a document holds any of the three signals."""
    return isinstance(value, dict) and not _SIGNALS.isdisjoint(value)


def rows(document: Json, file: File) -> Iterator[Row]:
    """The rows of one document: spans, events, links, log records, data points."""
    if any("_" in key for key in document):
        document = _camel(document)
    for resource in _list(document, "resourceSpans"):
        yield from _spans(resource, _resource(resource), file)
    for resource in _list(document, "resourceLogs"):
        yield from _logs(resource, _resource(resource))
    for resource in _list(document, "resourceMetrics"):
        yield from _metrics(resource, _resource(resource), file)


# ---------------------------------------------------------------------------------------------- fields


def _camel(value: Any) -> Any:
    """A document with its keys in camelCase, as the specification wants them."""
    if isinstance(value, dict):
        return {_camel_key(key): _camel(each) for key, each in value.items()}
    return [_camel(each) for each in value] if isinstance(value, list) else value


@lru_cache(maxsize=512)
def _camel_key(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(word.capitalize() for word in others)


def _list(value: Json, key: str) -> list[Json]:
    found = value.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _mapping(value: Json, key: str) -> Json:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def hex_id(value: object, digits: int) -> str | None:
    """An id in lower-case hexadecimal; None if it is missing, or all zeros.

    Args:
        value: Hexadecimal in any case, or base64; other tools' ids of another form stay as they are.
        digits: 32 for a trace, 16 for a span; shorter hexadecimal ids are filled with zeros.
    """
    if not isinstance(value, str) or not value:
        return None
    if value.endswith("=") or (len(value) in (11, 22) and not _HEX.issuperset(value.lower())):
        try:
            value = b64decode(value + "==", validate=False).hex()
        except binascii.Error:
            return value
    found = value.lower()
    if not _HEX.issuperset(found):
        return value
    found = found.rjust(digits, "0")
    return found if found.strip("0") else None


def _enum(value: Any, words: tuple[str, ...]) -> str:
    """A word of an enumeration, by number or by name such as `SPAN_KIND_SERVER`."""
    if isinstance(value, str) and not value.isdigit():
        last = value.rpartition("_")[2].upper()
        return last if last in words else words[0]
    number = as_int(value) or 0
    return words[number] if 0 <= number < len(words) else words[0]


def _nanoseconds(value: Any) -> int | None:
    """A time; None for none, and for 0, which means unknown."""
    return as_int(value) or None


def any_value(value: Any) -> Any:
    """The value of an `AnyValue`; None for an empty one."""
    if not isinstance(value, dict):
        return value
    for key, read in _READERS:
        if key in value:
            return read(value[key])
    return None


def _array(value: Any) -> list[Any]:
    found = value.get("values") if isinstance(value, dict) else value
    return [any_value(each) for each in found] if isinstance(found, list) else []


def _double(value: Any) -> Any:
    number = as_float(value)
    return value if number is None else number


_READERS: Final = (
    ("stringValue", lambda value: value),
    ("intValue", lambda value: value if (number := as_int(value)) is None else number),
    ("boolValue", lambda value: value),
    ("doubleValue", _double),
    ("arrayValue", _array),
    ("kvlistValue", lambda value: key_values(value.get("values") if isinstance(value, dict) else value)),
    ("bytesValue", lambda value: value),
)


def key_values(values: Any) -> dict[str, Any]:
    """Attributes, from a list of keys with values; a plain mapping stays one."""
    if isinstance(values, dict):
        return values
    if not isinstance(values, list):
        return {}
    return {
        str(each["key"]): any_value(each.get("value")) for each in values if isinstance(each, dict) and "key" in each
    }


# ---------------------------------------------------------------------------------------------- traces


class _Resource:
    """What the spans of one resource have in common."""

    __slots__ = ("json", "run_id", "service_name")

    def __init__(self, attributes: Json) -> None:
        self.run_id = as_word(attributes.get(RUN_ID))
        self.service_name = as_word(attributes.get(SERVICE))
        self.json = dumps(attributes) if attributes else None


def _resource(value: Json) -> _Resource:
    return _Resource(key_values(_mapping(value, "resource").get("attributes")))


def _spans(value: Json, resource: _Resource, file: File) -> Iterator[Row]:
    scopes = _list(value, "scopeSpans")
    if old := _list(value, "instrumentationLibrarySpans"):
        scopes = [*scopes, *old]
    for scope in scopes:
        named = _mapping(scope, "scope") or _mapping(scope, "instrumentationLibrary")
        scope_name = as_word(named.get("name"))
        for span in _list(scope, "spans"):
            yield from _span(span, resource, scope_name, file)


def _span(span: Json, resource: _Resource, scope_name: str | None, file: File) -> Iterator[Row]:
    if "trace_id" in span:
        span = _camel(span)
    if not span.get("name") and not span.get("startTimeUnixNano"):
        file.skip("a span without name and times")
        return
    trace_id, span_id = hex_id(span.get("traceId"), 32), hex_id(span.get("spanId"), 16)
    events, links, status = _list(span, "events"), _list(span, "links"), _mapping(span, "status")
    if trace_id is None or span_id is None:
        file.skip("a span without ids was kept without them")
    yield SpanRow(
        trace_id,
        span_id,
        hex_id(span.get("parentSpanId"), 16),
        as_text(span.get("name", "")) or "",
        _enum(span.get("kind"), _KINDS),
        _nanoseconds(span.get("startTimeUnixNano")),
        _nanoseconds(span.get("endTimeUnixNano")),
        _enum(status.get("code"), _STATUSES),
        as_word(status.get("message")),
        key_values(span.get("attributes")),
        resource.run_id,
        resource.service_name,
        scope_name,
        len(events),
        len(links),
        as_int(span.get("droppedAttributesCount")) or 0,
        as_int(span.get("droppedEventsCount")) or 0,
        resource.json,
    )
    for seq, event in enumerate(events):
        when = _nanoseconds(event.get("timeUnixNano"))
        said = key_values(event.get("attributes"))
        yield EventRow(trace_id, span_id, "span", seq, when, as_word(event.get("name")), said, run_id=resource.run_id)
    for link in links:
        linked = hex_id(link.get("traceId"), 32), hex_id(link.get("spanId"), 16)
        yield LinkRow(trace_id, span_id, *linked, key_values(link.get("attributes")))


# ---------------------------------------------------------------------------------------------- logs and metrics


def _logs(value: Json, resource: _Resource) -> Iterator[Row]:
    for scope in [*_list(value, "scopeLogs"), *_list(value, "instrumentationLibraryLogs")]:
        for seq, record in enumerate(_list(scope, "logRecords")):
            attributes = key_values(record.get("attributes"))
            body = any_value(record.get("body"))
            yield EventRow(
                hex_id(record.get("traceId"), 32),
                hex_id(record.get("spanId"), 16),
                "log",
                seq,
                _nanoseconds(record.get("timeUnixNano")) or _nanoseconds(record.get("observedTimeUnixNano")),
                as_word(record.get("eventName")) or as_word(attributes.get("event.name")),
                attributes,
                as_word(record.get("severityText")) or _severity(record.get("severityNumber")),
                None if body is None else as_text(body),
                resource.run_id,
            )


def _severity(value: Any) -> str | None:
    """The word of a severity number or name."""
    if isinstance(value, str) and not value.isdigit():
        return value.removeprefix("SEVERITY_NUMBER_").rstrip("234") or None
    number = as_int(value) or 0
    return _SEVERITIES[(number - 1) // 4] if 1 <= number <= 24 else None  # noqa: PLR2004  the range of the specification


_SEVERITIES: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_INSTRUMENTS: Final = {
    "sum": "sum",
    "gauge": "gauge",
    "histogram": "histogram",
    "exponentialHistogram": "exponential_histogram",
    "summary": "summary",
}


def _metrics(value: Json, resource: _Resource, file: File) -> Iterator[Row]:
    for scope in [*_list(value, "scopeMetrics"), *_list(value, "instrumentationLibraryMetrics")]:
        for metric in _list(scope, "metrics"):
            instrument = next((each for each in _INSTRUMENTS if _mapping(metric, each)), None)
            if instrument is None:
                file.skip("a metric of no known kind")
                continue
            data = _mapping(metric, instrument)
            for point in _list(data, "dataPoints"):
                yield _point(metric, _INSTRUMENTS[instrument], point, resource, data)


def _point(metric: Json, kind: str, point: Json, resource: _Resource, data: Json) -> MetricRow:
    counts, bounds = point.get("bucketCounts"), point.get("explicitBounds")
    number = point.get("asDouble") if point.get("asDouble") is not None else point.get("asInt")
    extra = {key: point[key] for key in EXTRA if key in point}
    return MetricRow(
        as_text(metric.get("name", "")) or "",
        as_word(metric.get("unit")),
        kind,
        _nanoseconds(point.get("startTimeUnixNano")),
        _nanoseconds(point.get("timeUnixNano")),
        None if number is None else as_float(number),
        as_int(point["count"]) if "count" in point else None,
        as_float(point["sum"]) if "sum" in point else None,
        key_values(point.get("attributes")) | extra,
        None if counts is None else dumps([as_int(each) for each in counts]),
        None if bounds is None else dumps([as_float(each) for each in bounds]),
        resource.run_id,
        resource.service_name,
        _TEMPORALITY.get(_enum(data.get("aggregationTemporality"), _TEMPORALITIES)),
        (as_bool(data.get("isMonotonic")) or False) if kind == "sum" else None,
    )


_TEMPORALITIES: Final = ("UNSPECIFIED", "DELTA", "CUMULATIVE")
_TEMPORALITY: Final = {"DELTA": "delta", "CUMULATIVE": "cumulative"}
EXTRA: Final = ("scale", "zeroCount", "positive", "negative", "min", "max", "quantileValues")
"""What the other kinds of data points have, kept among their attributes."""
