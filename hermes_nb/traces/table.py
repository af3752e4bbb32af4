"""The neutral table of spans: what every source is turned into, and what all frames are made of.

A source appends rows to a `Builder`; the builder turns them into Arrow columns, a block at a time, so that memory
holds one block of Python objects and otherwise columns. Attributes become two columns of JSON text: those that say
how it went, and apart from them the *content*, what was said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from hermes_nb.traces import names
from hermes_nb.traces.columns import TEXT, TIME, array
from hermes_nb.traces.jsons import dumps, loads_mapping
from hermes_nb.traces.rows import EventRow, LinkRow, MessageRow, MetricRow, SpanRow
from hermes_nb.traces.values import as_int, as_text, pick

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

BLOCK: Final = 20_000
"""Rows that are held as Python objects before they become columns."""


_BLOCKS: Final[dict[str, tuple[str, ...]]] = {
    kind.__name__: kind._fields for kind in (SpanRow, EventRow, LinkRow, MessageRow, MetricRow)
}
_SPAN_FIELDS = [name for name in SpanRow._fields if name != "attributes"] + ["attributes_json", "content_json"]
_TYPES = dict.fromkeys(("start_time", "end_time", "time"), TIME)
_TYPES |= dict.fromkeys(("value", "total"), pa.float64())
_TYPES |= dict.fromkeys(
    ("n_events", "n_links", "dropped_attributes", "dropped_events", "seq", "message_index", "part_index", "iteration",
     "tokens", "observations", "own_iteration"),
    pa.int64(),
)  # fmt: skip


@dataclass(frozen=True)
class Tables:
    """Spans, events, links, messages and metrics of one source, as Arrow tables with the fields of the row types.

    Attributes:
        spans: `attributes` is replaced by `attributes_json` and `content_json`, and what a span says of itself that
            every frame needs stands in columns of its own (`own_*`).
        content: Whether what was said was kept.
    """

    spans: pa.Table
    events: pa.Table
    links: pa.Table
    messages: pa.Table
    metrics: pa.Table
    content: bool = True

    def span_rows(self) -> Iterator[SpanRow]:
        """The spans one by one, content included."""
        for record in records(self.spans.select(_SPAN_FIELDS)):
            attributes = loads_mapping(record.pop("attributes_json")) | loads_mapping(record.pop("content_json"))
            yield SpanRow(attributes=attributes, **record)


def records(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows one by one, times in nanoseconds."""
    schema = pa.schema([(field.name, pa.int64() if field.type == TIME else field.type) for field in table.schema])
    for batch in table.cast(schema).to_batches(1_000):
        yield from batch.to_pylist()


@dataclass
class Builder:
    """Collects rows and turns them into `Tables`.

    Args:
        content: Keep what was said; otherwise it is counted in `left_out` and dropped.
    """

    content: bool = True
    left_out: int = 0
    _rows: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _BLOCKS})
    _blocks: dict[str, list[pa.Table]] = field(default_factory=lambda: {name: [] for name in _BLOCKS})

    def add(self, rows: Iterable[NamedTuple]) -> None:
        """Add rows of any of the row types."""
        for row in rows:
            waiting = self._rows[type(row).__name__]
            waiting.append(row)
            if len(waiting) >= BLOCK:
                self._flush(type(row).__name__)

    def build(self) -> Tables:
        """All rows so far, as tables."""
        for name in _BLOCKS:
            if self._rows[name] or not self._blocks[name]:
                self._flush(name)
        spans, events, links, messages, metrics = (pa.concat_tables(self._blocks[name]) for name in _BLOCKS)
        return Tables(spans, events, links, messages, metrics, self.content)

    def _flush(self, name: str) -> None:
        rows = self._rows[name]
        if name == MessageRow.__name__ and not self.content:
            self.left_out += len(rows)
            rows = []
        columns = _transposed(name, rows)
        if name == SpanRow.__name__:
            _describe_spans(columns, self)
        elif "attributes" in columns:
            _describe(columns, self)
        self._blocks[name].append(
            pa.table({key: array(values, _TYPES.get(key, TEXT)) for key, values in columns.items()})
        )
        self._rows[name] = []


def _transposed(name: str, rows: Sequence[NamedTuple]) -> dict[str, Any]:
    fields = _BLOCKS[name]
    return dict(zip(fields, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(fields, ())


def _describe_spans(columns: dict[str, Any], builder: Builder) -> None:
    """Replace the attributes by JSON, and add the columns that tell what each span says of itself."""
    attributes: Sequence[Mapping[str, Any]] = columns.pop("attributes")
    said = [any(map(names.is_content, each)) for each in attributes]
    builder.left_out += 0 if builder.content else sum(said)
    columns["attributes_json"] = [
        _json(_part(each, content=False) if has else each) for each, has in zip(attributes, said, strict=True)
    ]
    columns["content_json"] = [
        _json(_part(each, content=True)) if has and builder.content else None
        for each, has in zip(attributes, said, strict=True)
    ]
    columns["own_type"] = list(map(names.span_type, attributes))
    columns["own_turn_id"] = pick(attributes, (names.TURN_ID,), as_text)
    columns["own_conversation_id"] = pick(attributes, names.CONVERSATIONS, as_text)
    columns["own_agent_name"] = pick(attributes, names.AGENTS, as_text)
    columns["own_iteration"] = pick(attributes, (names.ITERATION,), as_int)
    columns["own_error_type"] = pick(attributes, names.ERRORS, as_text)


def _describe(columns: dict[str, Any], builder: Builder) -> None:
    """Replace the attributes of events, links and data points by JSON."""
    attributes = columns.pop("attributes")
    if not builder.content and "body" in columns:
        told = [bool(name) and name.startswith(names.MESSAGE_EVENTS) for name in columns["name"]]
        builder.left_out += sum(told)
        columns["body"] = [None if each else body for each, body in zip(told, columns["body"], strict=True)]
        attributes = [{} if each else _part(said, content=False) for each, said in zip(told, attributes, strict=True)]
    columns["attributes_json"] = list(map(_json, attributes))


def _part(attributes: Mapping[str, Any], *, content: bool) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if names.is_content(key) == content}


def _json(attributes: Mapping[str, Any]) -> str | None:
    return dumps(attributes) if attributes else None
