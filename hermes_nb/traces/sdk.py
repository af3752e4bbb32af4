"""Spans of the OpenTelemetry SDK in memory, open ones included, column by column.

What a span holds is read from where the SDK keeps it, in comprehensions: the interpreter makes these the fastest way to
an attribute, and the SDK's properties take longer than all the rest. What is kept elsewhere is read by its public name.
"""

# ruff: noqa: SLF001  see above

from __future__ import annotations

from operator import attrgetter, or_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hermes_nb.telemetry.content import content_attributes, point_content
from hermes_nb.traces.jsons import dumps
from hermes_nb.traces.names import RUN_ID, SERVICE
from hermes_nb.traces.rows import EventRow, LinkRow, SpanRow
from hermes_nb.traces.values import as_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status

    from hermes_nb.telemetry.store import Kept
    from hermes_nb.traces.table import Builder

    Columns = dict[str, Sequence[Any]]

T = TypeVar("T")


def add(builder: Builder, spans: Iterable[ReadableSpan], block: int = 2_000) -> None:
    """Add any SDK spans, with their events and links; `block` spans at a time."""
    from hermes_nb.traces.columns import hex_column  # noqa: PLC0415  loads pyarrow

    ordered = _by_start(spans)
    for place in range(0, len(ordered), block):
        fields = _fields(ordered[place : place + block])
        columns = _columns(fields, _settled(fields), hex_column)
        builder.add_columns(SpanRow, columns)
        builder.add(_beside(fields, columns))


def add_kept(builder: Builder, kept: Sequence[Kept]) -> None:
    """Add the spans of a turn, with all that was said."""
    from hermes_nb.traces.columns import hex_column  # noqa: PLC0415  loads pyarrow

    if not kept:
        return
    fields = _fields([item.span for item in kept])
    said = (content_attributes(item, "new", openinference=False) for item in kept)
    attributes = [_copy(own) | more for own, more in zip(fields.attributes, said, strict=True)]
    columns = _columns(fields, attributes, hex_column)
    builder.add_columns(SpanRow, columns)
    points = {
        (f"{context.span_id:016x}", time): point
        for context, item in zip(fields.context, kept, strict=True)
        for time, point in item.points.items()
    }
    for row in _beside(fields, columns):
        point = points.get((row.span_id or "", row.time or 0)) if isinstance(row, EventRow) else None
        more = {} if point is None else point_content(point)
        builder.add([row._replace(attributes={**row.attributes, **more}) if more else row])


def rows(spans: Sequence[ReadableSpan]) -> list[SpanRow]:
    """The spans as rows, without what was said."""
    if not spans:
        return []
    fields = _fields(spans)
    return list(map(SpanRow, *_columns(fields, list(map(_copy, fields.attributes)), _hex).values()))


class _Fields(NamedTuple):
    """What is read of spans, a column for each."""

    context: Sequence[SpanContext]
    parent: Sequence[SpanContext | None]
    name: Sequence[str]
    kind: Sequence[SpanKind]
    start_time: Sequence[int | None]
    end_time: Sequence[int | None]
    status: Sequence[Status]
    attributes: Sequence[Mapping[str, Any] | None]
    events: Sequence[Sequence[Event]]
    links: Sequence[Sequence[Link]]
    resource: Sequence[Resource]
    instrumentation_scope: Sequence[InstrumentationScope | None]


def _fields(spans: Sequence[ReadableSpan]) -> _Fields:
    """The fields of spans."""
    try:
        return _Fields(
            [span._context for span in spans],  # type: ignore[misc]  # the SDK's spans have one
            [span._parent for span in spans],
            [span._name for span in spans],
            [span._kind for span in spans],
            [span._start_time for span in spans],
            [span._end_time for span in spans],
            [span._status for span in spans],
            [span._attributes for span in spans],
            [span._events for span in spans],
            [span._links for span in spans],
            [span._resource for span in spans],
            [span._instrumentation_scope for span in spans],
        )
    except AttributeError:  # another SDK's spans
        return _Fields(*(list(map(attrgetter(name), spans)) for name in _Fields._fields))


def _by_start(spans: Iterable[ReadableSpan]) -> list[ReadableSpan]:
    try:
        return sorted(spans, key=attrgetter("_start_time"))
    except (AttributeError, TypeError):  # another SDK's spans, or one that has not started
        return sorted(spans, key=lambda span: span.start_time or 0)


def _columns(fields: _Fields, attributes: list[dict[str, Any]], written: Callable[[Sequence[Any]], Any]) -> Columns:
    """The fields of `SpanRow`, in their order; there is at least one span.

    Args:
        fields: What was read.
        attributes: Of each span, instead of those among the fields.
        written: Writes the ids of spans in hexadecimal.
    """
    codes, messages = _read_once(fields.status, _status)
    runs, services, told = _read_once(fields.resource, _resource)
    (scopes,) = _read_once(fields.instrumentation_scope, _name)
    traces = [context[0] for context in fields.context]
    known = {number: f"{number:032x}" for number in set(traces)}
    return {
        "trace_id": [known[number] for number in traces],
        "span_id": written([context[1] for context in fields.context]),
        "parent_span_id": written([0 if parent is None else parent[1] for parent in fields.parent]),
        "name": fields.name,
        "kind": [kind._name_ for kind in fields.kind],
        "start_time": fields.start_time,
        "end_time": fields.end_time,
        "status": codes,
        "status_message": messages,
        "attributes": attributes,
        "run_id": runs,
        "service_name": services,
        "scope_name": scopes,
        "n_events": _number(fields.events),
        "n_links": _number(fields.links),
        "dropped_attributes": _dropped(fields.attributes),
        "dropped_events": _dropped(fields.events),
        "resource_json": told,
    }


def _hex(numbers: Sequence[int]) -> list[str | None]:
    return [f"{number:016x}" if number else None for number in numbers]


def _read_once(objects: Sequence[T], read: Callable[[T], tuple[Any, ...]]) -> Iterable[Sequence[Any]]:
    """The columns that `read` makes of objects, each a row; one that many spans share is read once."""
    if objects.count(objects[0]) == len(objects):
        return [[value] * len(objects) for value in read(objects[0])]
    keys = list(map(id, objects))
    found = {key: read(each) for key, each in dict(zip(keys, objects, strict=True)).items()}
    return zip(*map(found.__getitem__, keys), strict=True)


def _number(collections: Sequence[Any]) -> list[int]:
    """The length of each."""
    try:
        return [len(each._dq) for each in collections]
    except AttributeError:  # plain sequences
        return list(map(len, collections))


def _dropped(collections: Sequence[Any]) -> list[int]:
    try:
        return [each.dropped for each in collections]
    except AttributeError:  # plain mappings and sequences, which drop nothing
        return [getattr(each, "dropped", 0) for each in collections]


def _name(scope: InstrumentationScope | None) -> tuple[str | None]:
    return (None if scope is None else str(scope.name),)


def _status(status: Status) -> tuple[str, str | None]:
    return status.status_code.name, status.description


def _resource(resource: Resource) -> tuple[str | None, str | None, str]:
    """Run, service, and everything as JSON."""
    said = resource.attributes
    return as_word(said.get(RUN_ID)), as_word(said.get(SERVICE)), dumps(dict(said))


def _beside(fields: _Fields, columns: Columns) -> Iterator[EventRow | LinkRow]:
    """The events and links of the spans that have any."""
    some = map(or_, columns["n_events"], columns["n_links"])
    for place in [place for place, number in enumerate(some) if number]:
        context, events, links = fields.context[place], fields.events[place], fields.links[place]
        ids = f"{context.trace_id:032x}", f"{context.span_id:016x}"
        for seq, event in enumerate(tuple(events)):
            yield EventRow(*ids, "span", seq, event.timestamp, event.name, _copy(event.attributes))
        for link in tuple(links):
            linked = f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}"
            yield LinkRow(*ids, *linked, _copy(link.attributes))


def _settled(fields: _Fields) -> list[dict[str, Any]]:
    """The attributes of each span: those of an ended span as the SDK keeps them, of an open one a copy."""
    try:
        inner: list[dict[str, Any]] = [each._dict for each in fields.attributes]  # type: ignore[union-attr]  # see above
    except AttributeError:  # another SDK's spans
        return list(map(_copy, fields.attributes))
    if None in fields.end_time:
        ended = zip(inner, fields.end_time, strict=True)
        return [each.copy() if end is None else each for each, end in ended]
    return inner


def _copy(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy made in one step, since an open span may be written to by another thread."""
    if attributes is None:
        return {}
    copied: dict[str, Any] = attributes.copy()  # type: ignore[attr-defined]  # the proxy and the SDK's mapping have it
    return copied
