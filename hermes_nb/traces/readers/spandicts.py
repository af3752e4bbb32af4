"""Spans as mappings: the SDK's `to_json()`, Phoenix's spans (JSON, frame or Parquet), and bare sets of attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.jsons import dumps
from hermes_nb.traces.names import MODELS, OPENINFERENCE_KIND, OPERATION, RUN_ID, SERVICE
from hermes_nb.traces.readers.otlp import hex_id
from hermes_nb.traces.rows import EventRow, LinkRow, SpanRow
from hermes_nb.traces.values import as_int, as_text, as_word, iso_nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermes_nb.traces.rows import Row

    Json = Mapping[str, Any]

_KINDS: Final = frozenset({"INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"})
_NAMESPACES: Final = ("gen_ai.", "llm.", "openinference.", "hermes.")


def is_span(value: Any) -> bool:
    """Whether this is one span with its ids."""
    return (
        isinstance(value, dict) and "name" in value and (isinstance(value.get("context"), dict) or value.keys() >= _IDS)
    )


_IDS: Final = {"context.trace_id", "context.span_id"}


def is_attributes(value: Any) -> bool:
    """Whether this is nothing but the attributes of one span."""
    return isinstance(value, dict) and any(isinstance(key, str) and key.startswith(_NAMESPACES) for key in value)


def rows(span: Json) -> Iterator[Row]:
    """The rows of one span with its ids."""
    context = _mapping(span.get("context")) or {key.removeprefix("context."): span[key] for key in _IDS}
    trace_id, span_id = _id(context.get("trace_id"), 32), _id(context.get("span_id"), 16)
    attributes = _flat(_attributes(span))
    if span.get("span_kind") and OPENINFERENCE_KIND not in attributes:
        attributes[OPENINFERENCE_KIND] = span["span_kind"]
    status, resource = _mapping(span.get("status")), _mapping(_mapping(span.get("resource")).get("attributes"))
    events, links = _mappings(span.get("events")), _mappings(span.get("links"))
    kind = str(span.get("kind") or "INTERNAL").rpartition(".")[2].upper()
    yield SpanRow(
        trace_id,
        span_id,
        _id(span.get("parent_id"), 16),
        as_text(span["name"]) or "",
        kind if kind in _KINDS else "INTERNAL",
        nanoseconds(span.get("start_time")),
        nanoseconds(span.get("end_time")),
        _status(status.get("status_code") or span.get("status_code")),
        as_word(status.get("description") or span.get("status_message")),
        attributes,
        as_word(resource.get(RUN_ID)),
        as_word(resource.get(SERVICE)),
        None,
        len(events),
        len(links),
        resource_json=dumps(resource) if resource else None,
    )
    for seq, event in enumerate(events):
        said = _flat(_mapping(event.get("attributes")))
        yield EventRow(
            trace_id, span_id, "span", seq, nanoseconds(event.get("timestamp")), as_word(event.get("name")), said
        )
    for link in links:
        linked = _mapping(link.get("context"))
        ids = _id(linked.get("trace_id"), 32), _id(linked.get("span_id"), 16)
        yield LinkRow(trace_id, span_id, *ids, _flat(_mapping(link.get("attributes"))))


def bare(attributes: Json) -> Iterator[Row]:
    """The row of a span of which only the attributes are known."""
    model = next((str(attributes[key]) for key in MODELS if key in attributes), "")
    operation = str(attributes.get(OPERATION) or attributes.get(OPENINFERENCE_KIND) or "span").lower()
    yield SpanRow(
        None, None, None, f"{operation} {model}".rstrip(), "INTERNAL", None, None, "UNSET", None, dict(attributes)
    )


def _attributes(span: Json) -> dict[str, Any]:
    """The attributes, also where a frame has a column for each: `attributes.llm.model_name`."""
    spread = {key[11:]: value for key, value in span.items() if isinstance(key, str) and key.startswith("attributes.")}
    return {**_mapping(span.get("attributes")), **spread}


def _flat(values: Json, prefix: str = "") -> dict[str, Any]:
    """Nested attributes under dotted names, lists of mappings by their places; what is missing is left out."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= _flat(value, f"{name}.")
        elif _holds_mappings(value):
            flat |= _flat(dict(enumerate(value)), f"{name}.")  # type: ignore[arg-type]  # numbers are turned to text
        elif value is not None and value == value:  # noqa: PLR0124  NaN, a frame's word for missing, differs from itself
            flat[name] = value
    return flat


def _holds_mappings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _id(value: Any, digits: int) -> str | None:
    return hex_id(value.removeprefix("0x"), digits) if isinstance(value, str) else None


def nanoseconds(value: Any) -> int | None:
    """Nanoseconds, from a number of them, ISO text, or a date-time object of a frame."""
    if isinstance(value, int):
        return as_int(value)
    nanoseconds = getattr(value, "value", None)  # pandas' Timestamp
    return as_int(nanoseconds) if isinstance(nanoseconds, int) else iso_nanoseconds(_text(value))


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _status(value: Any) -> str:
    word = str(value or "").rpartition(".")[2].upper()
    return word if word in ("OK", "ERROR") else "UNSET"


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list | tuple) else []
