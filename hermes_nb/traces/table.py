"""The neutral table of spans: what every source is turned into, and what all frames are made of.

A source appends rows to a `Builder`; the builder turns them into Arrow columns, a block at a time, so that memory
holds one block of Python objects and otherwise columns. Attributes become two columns of JSON text: those that say
how it went, and apart from them the *content*, what was said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.traces import names
from hermes_nb.traces.columns import DISTINCT, TEXT, TIME, array, json_column
from hermes_nb.traces.jsons import dumps, loads_mapping
from hermes_nb.traces.rows import EventRow, LinkRow, MessageRow, MetricRow, SpanRow
from hermes_nb.traces.values import as_int, as_text, pick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

BLOCK: Final = 5_000
"""Rows that are held as Python objects before they become columns."""


_BLOCKS: Final[dict[str, tuple[str, ...]]] = {
    kind.__name__: kind._fields for kind in (SpanRow, EventRow, LinkRow, MessageRow, MetricRow)
}
_SPAN_FIELDS = [name for name in SpanRow._fields if name != "attributes"] + ["attributes_json", "content_json"]
_TYPES = dict.fromkeys(("start_time", "end_time", "time"), TIME)
_TYPES["resource_json"] = DISTINCT
_TYPES |= dict.fromkeys(("value", "total"), pa.float64())
_TYPES["monotonic"] = pa.bool_()
_TYPES |= dict.fromkeys(
    ("n_events", "n_links", "dropped_attributes", "dropped_events", "seq", "message_index", "part_index", "iteration",
     "tokens", "observations", "own_iteration"),
    pa.int64(),
)  # fmt: skip


def _schema(fields: tuple[str, ...]) -> pa.Schema:
    """The columns that rows become."""
    names_: list[str] = [name for name in fields if name != "attributes"]
    if "attributes" in fields:
        names_ += ["attributes_json", "content_json", *_OWN] if "parent_span_id" in fields else ["attributes_json"]
    return pa.schema([(name, _TYPES.get(name, TEXT)) for name in names_])


_OWN: Final = (
    "own_type", "own_turn_id", "own_conversation_id", "own_agent_name", "own_iteration", "own_error_type",
)  # fmt: skip
_SCHEMAS: Final = {name: _schema(fields) for name, fields in _BLOCKS.items()}


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


def without_words(events: pa.Table) -> pa.Table:
    """Events and log records without what was said; those that hold a message keep their name and time."""
    told = pa.array(list(map(names.is_message, events["name"].to_pylist())), pa.bool_())
    kept = pa.array(list(map(_how_it_went, events["attributes_json"].to_pylist())), TEXT)
    for column, values in (("attributes_json", kept), ("body", events["body"])):
        place = events.column_names.index(column)
        events = events.set_column(place, column, pc.if_else(told, pa.scalar(None, TEXT), values))
    return events


def _how_it_went(text: str | None) -> str | None:
    said = loads_mapping(text)
    kept = {key: value for key, value in said.items() if not names.is_content(key)}
    return text if len(kept) == len(said) else dumps(kept) if kept else None


def assembled(blocks: Mapping[str, Sequence[pa.Table]], *, content: bool) -> Tables:
    """The tables of blocks, by the name of their row type."""
    parts = (pa.concat_tables([_SCHEMAS[name].empty_table(), *blocks.get(name, ())]) for name in _BLOCKS)
    spans, events, links, messages, metrics = parts
    return Tables(spans, events, links, messages, metrics, content)


@dataclass
class Builder:
    """Collects rows and turns them into `Tables`.

    Args:
        content: Keep what was said; otherwise it is counted in `left_out` and dropped.
        spill: Takes each block, with the name of its row type, instead of memory.
    """

    content: bool = True
    spill: Callable[[str, pa.Table], None] | None = None
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

    def flush(self) -> None:
        """Make columns of all rows that wait."""
        for name in _BLOCKS:
            self._flush(name)

    def build(self) -> Tables:
        """All rows so far, as tables."""
        self.flush()
        return assembled(self._blocks, content=self.content)

    def add_columns(self, kind: type[NamedTuple], columns: dict[str, Any]) -> None:
        """Add rows that are in columns already: all fields of a row type, in lists of one length."""
        self._flush(kind.__name__)
        self._append(kind.__name__, dict(columns))

    def _flush(self, name: str) -> None:
        """Make columns of the rows that wait."""
        rows, self._rows[name] = self._rows[name], []
        if rows:
            fields = _BLOCKS[name]
            self._append(name, dict(zip(fields, zip(*rows, strict=True), strict=True)))

    def _append(self, name: str, columns: dict[str, Any]) -> None:
        if name == MessageRow.__name__ and not self.content:
            self.left_out += len(columns["content"])
            return
        if name == SpanRow.__name__:
            _describe_spans(columns, self)
        elif "attributes" in columns:
            _describe(columns, self)
        arrays = {key: array(values, _TYPES.get(key, TEXT)) for key, values in columns.items()}
        if self.spill is None:
            self._blocks[name].append(pa.table(arrays))
        else:
            self.spill(name, pa.table(arrays))


_TYPES_OF_OURS: Final = frozenset(names.SPAN_TYPES)


def _describe_spans(columns: dict[str, Any], builder: Builder) -> None:
    """Replace the attributes by JSON, and add the columns that tell what each span says of itself."""
    attributes = columns.pop("attributes")
    present = set().union(*attributes)
    spoken = set(filter(names.is_content, present))
    said = [not each.keys().isdisjoint(spoken) for each in attributes] if spoken else [False] * len(attributes)
    columns["attributes_json"] = json_column(attributes, spoken, said)
    if builder.content and spoken:
        words = [each if has else None for each, has in zip(attributes, said, strict=True)]
        columns["content_json"] = json_column(words, present - spoken, said)
    else:
        columns["content_json"] = [None] * len(attributes)
        builder.left_out += sum(said)
    marks = pick(attributes, (names.SPAN_TYPE,), as_text, present)
    if not _TYPES_OF_OURS.issuperset(marks):
        pairs = zip(marks, attributes, strict=True)
        marks = [own if own in _TYPES_OF_OURS else names.span_type(each) for own, each in pairs]
    columns["own_type"] = marks
    columns["own_turn_id"] = pick(attributes, (names.TURN_ID,), as_text, present)
    columns["own_conversation_id"] = pick(attributes, names.CONVERSATIONS, as_text, present)
    columns["own_agent_name"] = pick(attributes, names.AGENTS, as_text, present)
    columns["own_iteration"] = pick(attributes, (names.ITERATION,), as_int, present)
    columns["own_error_type"] = pick(attributes, names.ERRORS, as_text, present)


def _describe(columns: dict[str, Any], builder: Builder) -> None:
    """Replace the attributes of events, links and data points by JSON."""
    attributes = columns.pop("attributes")
    spoken: set[str] = set()
    if not builder.content and "body" in columns:
        spoken = set(filter(names.is_content, set().union(*attributes)))
        told = list(map(names.is_message, columns["name"]))
        builder.left_out += sum(told)
        columns["body"] = [None if each else body for each, body in zip(told, columns["body"], strict=True)]
        attributes = [{} if each else said for each, said in zip(told, attributes, strict=True)]
    columns["attributes_json"] = json_column(attributes, spoken, [bool(spoken)] * len(attributes))
