"""Frames and Parquet files with a row for each span: Phoenix's, and our own frame of spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.jsons import loads_mapping
from hermes_nb.traces.readers import spandicts
from hermes_nb.traces.readers.spandicts import nanoseconds
from hermes_nb.traces.rows import SpanRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_nb.traces.readers.report import File
    from hermes_nb.traces.rows import Row

    Record = dict[str, Any]

_ROWS: Final = 2_000
"""Rows that are held as mappings at a time."""
_OURS: Final = frozenset({"trace_id", "span_id", "parent_span_id", "span_type", "attributes_json"})


def frame_rows(frame: Any, file: File) -> Iterator[Row]:
    """The rows of a pandas frame."""
    for start in range(0, len(frame), _ROWS):
        part = frame.iloc[start : start + _ROWS]
        named = [index for index in frame.index.names if index is not None and index not in frame.columns]
        yield from _rows((part.reset_index() if named else part).to_dict("records"), file)


def parquet_rows(stream: Any, file: File) -> Iterator[Row]:
    """The rows of a Parquet file."""
    import pyarrow.parquet as pq  # noqa: PLC0415  loaded on first use

    for batch in pq.ParquetFile(stream).iter_batches(_ROWS):
        yield from _rows(batch.to_pylist(), file)


def _rows(records: list[Record], file: File) -> Iterator[Row]:
    for record in records:
        file.lines += 1
        if record.keys() >= _OURS:
            file.format = "frame of spans"
            yield _own(record)
        elif spandicts.is_span(record):
            file.format = "Phoenix spans"
            yield from spandicts.rows(record)
        else:
            file.skip("a row that is no span")


def _own(record: Record) -> SpanRow:
    """A row of our own frame of spans; what the frame inherits is said by the span itself."""
    record = {name: found for name, value in record.items() if (found := _known(value)) is not None}
    said = {key: record[name] for key, name in _INHERITED.items() if name in record}
    said |= loads_mapping(record.get("attributes_json")) | loads_mapping(record.get("content_json"))
    fields = {name: value for name, value in record.items() if name in SpanRow._fields}
    times = {name: nanoseconds(record.get(name)) for name in ("start_time", "end_time")}
    return SpanRow(**{**_MISSING, **fields, **times}, attributes=said)


_INHERITED: Final = {
    "hermes.span.type": "span_type",
    "hermes.turn.id": "turn_id",
    "gen_ai.conversation.id": "conversation_id",
    "gen_ai.agent.name": "agent_name",
    "hermes.iteration.number": "iteration",
}
_MISSING: Final[Record] = dict.fromkeys(("trace_id", "span_id", "parent_span_id", "status_message")) | {
    "name": "",
    "kind": "INTERNAL",
    "status": "UNSET",
}


def _known(value: Any) -> Any:
    """The value, or None for any of the ways in which frames say that there is none."""
    return None if value is None or value != value or str(value) in ("NaT", "<NA>") else value  # noqa: PLR0124  NaN
