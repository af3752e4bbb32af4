"""Reading traces from files and frames: which reader takes what, and the report of it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hermes_nb.traces import merging, parquet
from hermes_nb.traces.readers import hermes_db, inspect_logs, logbook, protobuf, tabular, texts
from hermes_nb.traces.readers.report import File, Report
from hermes_nb.traces.readers.sources import Opened, is_dataset, name, spread
from hermes_nb.traces.table import Builder, Tables
from hermes_nb.vocabulary.failures import UnreadableTrace, in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from hermes_nb.traces.readers.selection import Selection
    from hermes_nb.traces.readers.sources import Source
    from hermes_nb.traces.rows import Row

_KINDS: Final = {
    "SpanRow": "spans",
    "EventRow": "events",
    "LinkRow": "links",
    "MessageRow": "messages",
    "MetricRow": "metrics",
}
_EXAMPLES: Final = 3
_AT_ONCE: Final = 8 << 20
"""Bytes of a file whose rows are held as Python objects at most, beside the line or document that is being read."""


class Loaded(NamedTuple):
    """What was loaded.

    Attributes:
        sources: The single sources.
        tables: Gives the tables.
        report: What was read, and what was not.
        spans: The frame of spans, where it was ready.
    """

    sources: list[Any]
    tables: Callable[[], Tables]
    report: Report
    spans: pa.Table | None = None


def single(source: Source) -> list[Any]:
    """The single sources that a source names.

    Raises:
        UnreadableTrace: There are none.
    """
    sources = list(spread(source))
    if not sources:
        msg = f"there are no files at {source!r}"
        raise UnreadableTrace(msg)
    return sources


def read(source: Source, selection: Selection, *, content: bool) -> Loaded:
    """Read everything that a source names.

    Raises:
        UnreadableTrace: There is nothing, or nothing of it could be read.
    """
    sources = single(source)
    if len(sources) == 1 and _is_plain_dataset(sources[0]):
        file = File(name(sources[0]))
        spans, tables = parquet.read(sources[0], file, selection, content=content)
        report = Report([file])
        if file.skipped and not file.rows.total():
            raise _unreadable(report)
        return Loaded(sources, tables, report, spans)
    builder = Builder(content=content)
    report, parts = stream(sources, selection, builder)
    everything = _finished(merging.concat([*parts, builder.build()]), report, selection, builder.left_out)
    return Loaded(sources, lambda: everything, report)


def stream(sources: list[Any], selection: Selection, builder: Builder) -> tuple[Report, list[Tables]]:
    """Give the rows of single sources to a builder; folders of ours are read as they are.

    Returns:
        What was read, and the tables of such folders.

    Raises:
        UnreadableTrace: Nothing could be read.
    """
    report = Report([File(name(each)) for each in sources])
    parts = [_tables(*each, selection, builder) for each in zip(sources, report.files, strict=True)]
    if not any(file.rows or file.format for file in report.files):
        raise _unreadable(report)
    return report, [part for part in parts if part is not None]


def _is_plain_dataset(source: Any) -> bool:
    """Whether a source is one folder of ours in which no trace stands twice."""
    return isinstance(source, Path) and is_dataset(source) and parquet.has_each_trace_once(source)


def _tables(source: Any, file: File, selection: Selection, builder: Builder) -> Tables | None:
    """The tables of a folder of ours; the rows of anything else go to the builder."""
    if isinstance(source, Path) and is_dataset(source):
        return parquet.read(source, file, selection, content=builder.content)[1]()
    for row in _counted(_rows(source, file, selection), file):
        builder.add([row])
        if file.waiting > _AT_ONCE:
            builder.flush()
            file.waiting = 0
    return None


def _counted(rows: Iterator[Row], file: File) -> Iterator[Row]:
    """The rows, counted; whatever goes wrong ends this source and is told in the report."""
    try:
        for row in rows:
            file.rows[_KINDS[type(row).__name__]] += 1
            yield row
    except Exception as error:  # noqa: BLE001  a foreign file may break a reader in any way
        file.skip(in_words(error))


def _rows(source: Any, file: File, selection: Selection) -> Iterator[Row]:
    """The rows of one source, by its first bytes."""
    if hasattr(source, "columns"):
        yield from tabular.frame_rows(source, file)
        return
    with Opened(source) as opened:
        head = opened.head
        if isinstance(source, Path) and head.startswith(_SQLITE):
            yield from _database(source, file, selection)
        elif isinstance(source, Path) and head.startswith(_ZIP):
            yield from inspect_logs.rows(source, file)
        elif head.startswith(_PARQUET):
            yield from tabular.parquet_rows(io.BytesIO(opened.stream.read()), file)
        elif texts.is_text(head):
            yield from texts.rows(opened.lines(), file)
        elif protobuf.is_protobuf(head):
            yield from protobuf.rows(opened.stream, file)
        else:
            file.skip("of no known format" if head else "the file is empty")


_SQLITE: Final = b"SQLite format 3\x00"
_ZIP: Final = b"PK\x03\x04"
_PARQUET: Final = b"PAR1"


def _database(path: Path, file: File, selection: Selection) -> Iterator[Row]:
    if logbook.is_logbook(path):
        yield from logbook.rows(path, file, selection)
    elif hermes_db.is_state_db(path):
        yield from hermes_db.rows(path, file, selection)
    else:
        file.skip("a SQLite database of another program")


def _unreadable(report: Report) -> UnreadableTrace:
    reasons = [f"{file.path}: {'; '.join(file.examples) or 'no traces in it'}" for file in report.files]
    more = f" (and {len(reasons) - _EXAMPLES:,} more)" if len(reasons) > _EXAMPLES else ""
    return UnreadableTrace("nothing could be read: " + " | ".join(reasons[:_EXAMPLES]) + more, report.files[0].path)


def _finished(tables: Tables, report: Report, selection: Selection, left_out: int) -> Tables:
    """Each span once, and the traces that are asked for; the report says so."""
    tables, repeated = merging.once(tables)
    tables, others = merging.select(tables, selection)
    notes = {
        "records of spans that are there twice were dropped": repeated,
        "traces were not asked for, or are beyond the limit": others,
        "spans, events or message parts had content, which was left out; load(..., content=True) keeps it": left_out,
    }
    report.notes += [f"{number:,} {note}" for note, number in notes.items() if number]
    return tables
