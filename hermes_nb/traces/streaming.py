"""Traces larger than memory: sorted by trace into parts on disk, then made into Parquet part by part."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.traces import merging, parquet
from hermes_nb.traces.analysis import Analysis
from hermes_nb.traces.readers.loading import single, stream
from hermes_nb.traces.readers.selection import Selection
from hermes_nb.traces.table import Builder, assembled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from hermes_nb.traces.readers.report import Report
    from hermes_nb.traces.readers.sources import Source

PARTS: Final = 32


def convert(source: Source, folder: str | PathLike[str], *, content: bool = False, parts: int = PARTS) -> Report:
    """Read traces of any size and any known form into a folder of Parquet files, for `load` and any other tool.

    Memory holds one of the parts at a time; the disk of the folder needs room for all of them beside the result.

    Args:
        source: What `load` takes.
        folder: Where; made if it is not there.
        content: Keep what was said too.
        parts: Into how many parts the traces are divided.

    Returns:
        What was read, what was left out, and why.

    Raises:
        UnreadableTrace: Nothing could be read.
    """
    target = Path(folder).expanduser()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=target) as space:
        shelf = _Shelf(Path(space), parts)
        builder = Builder(content=content, spill=shelf.put)
        with shelf:
            report, others = stream(single(source), Selection(), builder)
            builder.flush()
        repeated = 0
        for tables in chain(shelf.tables(content=content), others):
            found, dropped = merging.once(tables)
            repeated += dropped
            parquet.write(Analysis(found), target, content=content)
    notes = {"records of spans that are there twice were dropped": repeated}
    notes["spans, events or message parts had content, which was left out"] = builder.left_out
    report.notes += [f"{number:,} {note}" for note, number in notes.items() if number]
    return report


class _Shelf(ExitStack):
    """Blocks of rows on disk, those of one trace in one part."""

    def __init__(self, folder: Path, parts: int) -> None:
        super().__init__()
        self._folder = folder
        self._parts = parts
        self._writers: dict[tuple[int, str], pa.RecordBatchStreamWriter] = {}

    def put(self, name: str, table: pa.Table) -> None:
        """Add a block; rows without a trace go to the first part."""
        part = np.zeros(len(table), np.int64)
        if "trace_id" in table.column_names:
            ids = table["trace_id"].combine_chunks().dictionary_encode()
            numbers = [0 if each is None else crc32(each.encode()) % self._parts for each in ids.dictionary.to_pylist()]
            known = pc.fill_null(ids.indices, -1).to_numpy(zero_copy_only=False)
            part = np.array([*numbers, 0], np.int64)[known]
        for number in np.unique(part).tolist():
            self._writer(number, name, table.schema).write_table(table.filter(pa.array(part == number)))

    def _writer(self, part: int, name: str, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
        if (part, name) not in self._writers:
            options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=False)
            sink = self.enter_context(pa.OSFile(str(self._folder / f"{part}.{name}"), "wb"))
            self._writers[part, name] = self.enter_context(pa.ipc.new_stream(sink, schema, options=options))
        return self._writers[part, name]

    def tables(self, *, content: bool) -> Iterator[Any]:
        """The tables of each part."""
        found: dict[int, dict[str, list[pa.Table]]] = defaultdict(dict)
        for part, name in sorted(self._writers):
            found[part][name] = []
        for part, names in found.items():
            for name, blocks in names.items():
                with pa.OSFile(str(self._folder / f"{part}.{name}")) as stream_, pa.ipc.open_stream(stream_) as reader:
                    blocks.append(reader.read_all())
            yield assembled(names, content=content)
            names.clear()
