"""Traces as Parquet: a folder with one dataset for each frame, partitioned by the day on which a trace began.

    turns/spans/day=2026-01-31/3f0c....parquet
    turns/turns/day=2026-01-31/3f0c....parquet

Any tool reads them (`read_parquet('turns/turns/*/*.parquet', hive_partitioning=true)` in DuckDB). Reading them back
gives the same frames: spans, events, links, messages and metrics are the source, the others are made of them again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hermes_nb.traces.builders import build
from hermes_nb.traces.catalogue import FRAMES
from hermes_nb.traces.columns import TEXT, conform
from hermes_nb.traces.readers.report import File
from hermes_nb.traces.schema import VERSION
from hermes_nb.traces.table import Builder, Tables, without_words
from hermes_nb.traces.whole import whole
from hermes_nb.vocabulary.failures import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.readers.selection import Selection

MORE: Final = ("content_json", "resource_json")
"""Columns of the files of spans that the frame does not have."""
_OWN: Final = {
    "own_type": "span_type",
    "own_turn_id": "turn_id",
    "own_conversation_id": "conversation_id",
    "own_agent_name": "agent_name",
    "own_iteration": "iteration",
    "own_error_type": "error_type",
}
_NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"


# ---------------------------------------------------------------------------------------------- writing


def write(analysis: Analysis, folder: Path, *, content: bool) -> None:
    """Write every frame but that of attributes, which repeats the spans' JSON; files of the same traces are replaced.

    Args:
        analysis: The spans.
        folder: Where; made if it is not there.
        content: Write what was said too.
    """
    days = _days(analysis)
    for name in FRAMES:
        if name == "spans_attributes" or (name == "messages" and not content):
            continue
        table = build(name, analysis)
        if name == "spans":
            for more in MORE:
                kept = analysis.spans[more] if content or more != "content_json" else pa.nulls(len(table), TEXT)
                table = table.append_column(more, kept)
        elif not content:
            table = without_words(table) if name == "events" else _without_words(name, table)
        for day, part in _by_day(table, days):
            _write(part, folder / name / f"day={day}")


def _without_words(name: str, table: pa.Table) -> pa.Table:
    for column in _WORDS.get(name, ()):
        place = table.column_names.index(column)
        table = table.set_column(place, table.schema.field(place), pa.nulls(len(table), TEXT))
    return table


_WORDS: Final = {"turns": ("user_message", "final_response"), "tool_calls": ("arguments_json", "result")}
"""Columns that hold what was said."""


def _days(analysis: Analysis) -> dict[str, str]:
    """The day on which each trace began, in UTC."""
    spans = analysis.spans.select(["trace_id", "start_time"])
    first = spans.group_by("trace_id").aggregate([("start_time", "min")])
    days = pc.strftime(first["start_time_min"], format="%Y-%m-%d")
    return dict(zip(first["trace_id"].to_pylist(), days.to_pylist(), strict=True))


def _by_day(table: pa.Table, days: dict[str, str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each day: that of their trace, else their own."""
    names = table.column_names
    own = table["time"] if "time" in names else pa.nulls(len(table), pa.timestamp("ns", "UTC"))
    day = pc.strftime(own, format="%Y-%m-%d").cast(TEXT)
    if "trace_id" in names:
        ids = table["trace_id"].combine_chunks().dictionary_encode()
        known = pa.array([days.get(each) for each in ids.dictionary.to_pylist()], TEXT)
        day = pc.coalesce(known.take(ids.indices), day)
    for each in pc.unique(day).to_pylist():
        mask = pc.is_null(day) if each is None else pc.fill_null(pc.equal(day, each), False)
        yield each or _NO_DAY, table.filter(mask)


def _write(table: pa.Table, folder: Path) -> None:
    """Write one file, whole or not at all; it is named after what is in it."""
    mark = blake2b(digest_size=12)
    key = next((name for name in ("trace_id", "name") if name in table.column_names), None)
    for each in sorted(filter(None, pc.unique(table[key].cast(TEXT)).to_pylist())) if key else ():
        mark.update(each.encode())
    with whole(folder / f"{mark.hexdigest()}.parquet") as file:
        pq.write_table(table, file, compression="zstd")


# ---------------------------------------------------------------------------------------------- reading


def read(folder: Path, file: File, selection: Selection, *, content: bool) -> tuple[pa.Table, Callable[[], Tables]]:
    """The frame of spans of a folder, and a function that makes the tables for all other frames.

    Args:
        folder: A folder that `write` made.
        file: Where to note what was read.
        selection: The traces to read; the others are not loaded.
        content: Read what was said too.
    """
    file.format = "Parquet of hermes_nb"
    wanted = None if selection.is_everything else _chosen(folder, selection, file)
    stored = _stored(folder, "spans", file, wanted, leave_out=() if content else ("content_json",))
    kinds = ("events", "links", "metrics", *(("messages",) if content else ()))
    others = {kind: _stored(folder, kind, file, wanted) for kind in kinds}
    frame = _sorted(stored)
    columns = {name: frame[name] for name in frame.column_names}
    return conform("spans", columns, len(frame)), partial(_tables, columns, others, content=content)


def has_each_trace_once(folder: Path) -> bool:
    """Whether no two files of a day hold spans of the same trace."""
    days: dict[Path, list[Path]] = {}
    for path in (folder / "spans").rglob("*.parquet"):
        days.setdefault(path.parent, []).append(path)
    return all(_are_apart(paths) for paths in days.values() if len(paths) > 1)


def _are_apart(paths: list[Path]) -> bool:
    try:
        ids = [pc.unique(_table(path, ["trace_id"])["trace_id"]) for path in paths]
    except (OSError, pa.ArrowException):
        return False
    return len(pc.unique(pa.chunked_array(ids))) == sum(map(len, ids))


def _table(path: Path, columns: list[str] | None = None, filters: Any = None) -> pa.Table:
    return pq.read_table(path, columns=columns, filters=filters, partitioning=None)


def _stored(folder: Path, name: str, file: File, wanted: pa.Array | None, leave_out: tuple[str, ...] = ()) -> pa.Table:
    """All rows of one dataset, or those of some traces; files that cannot be read are skipped."""
    found = [conform(name, {}, 0)]
    for path in sorted((folder / name).rglob("*.parquet")) if (folder / name).is_dir() else ():
        try:
            schema = pq.read_schema(path)
            columns = [column for column in schema.names if column not in leave_out]
            one_of = None if wanted is None or "trace_id" not in columns else pc.field("trace_id").isin(wanted)
            found.append(_table(path, columns, one_of))
        except (OSError, pa.ArrowException) as error:
            file.skip(in_words(error), str(path))
            continue
        if (schema.metadata or {}).get(b"hermes_nb.schema", VERSION.encode()) != VERSION.encode():
            file.skip("columns that only a newer hermes_nb knows, if there are any", str(path))
        file.lines += 1
    table = pa.concat_tables(found, promote_options="permissive")
    file.rows[name] += len(table)
    return table


def _chosen(folder: Path, selection: Selection, file: File) -> pa.Array:
    """The ids of the traces that are asked for, from three columns."""
    others = tuple(
        name for name in (*(column.name for column in FRAMES["spans"].columns), *MORE) if name not in _TO_CHOOSE
    )
    table = _stored(folder, "spans", File(file.path), None, leave_out=others).select(_TO_CHOOSE)
    first = table.group_by("trace_id").aggregate([("start_time", "min"), ("conversation_id", "distinct")])
    if selection.conversation_id is not None:
        inside = [selection.conversation_id in each for each in first["conversation_id_distinct"].to_pylist()]
        first = first.filter(pa.array(inside, pa.bool_()))
    starts = first["start_time_min"].cast(pa.int64()).to_pylist()
    found = zip(first["trace_id"].to_pylist(), starts, strict=True)
    return pa.array([trace for trace, _ in selection.newest(list(found), lambda each: each[1])], TEXT)


_TO_CHOOSE: Final = ["trace_id", "conversation_id", "start_time"]


def _sorted(spans: pa.Table) -> pa.Table:
    start = pc.fill_null(spans["start_time"].cast(pa.int64()), 0).to_numpy()
    in_order = len(start) < 2 or bool((start[1:] >= start[:-1]).all())  # noqa: PLR2004  nothing to sort
    return spans if in_order else spans.take(pa.array(np.argsort(start, kind="stable")))


def _tables(spans: dict[str, Any], others: dict[str, pa.Table], *, content: bool) -> Tables:
    blank = Builder(content=content).build()
    own = {name: spans[column] for name, column in _OWN.items()}
    fitted = {kind: _fitted(_renamed(kind, table), getattr(blank, kind)) for kind, table in others.items()}
    return replace(blank, spans=_fitted(spans | own, blank.spans), **fitted)


def _renamed(kind: str, table: pa.Table) -> dict[str, Any]:
    columns = {name: table[name] for name in table.column_names}
    return columns | {"observations": columns["count"], "total": columns["sum"]} if kind == "metrics" else columns


def _fitted(columns: dict[str, Any], like: pa.Table) -> pa.Table:
    """The columns of another table, missing ones filled with nothing."""
    rows = len(next(iter(columns.values())))
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in like.schema
    ]
    return pa.Table.from_arrays(arrays, schema=like.schema)
