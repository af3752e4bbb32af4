"""Frames of some of a study's logbooks, made here or by a worker of Dask; and the table of cases as a file."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from hermes_nb.traces import Traces, load
from hermes_nb.traces.columns import to_pandas

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pandas as pd


def framed(logbooks: Iterable[Path], name: str, counted: pd.DataFrame) -> pd.DataFrame:
    """A frame of the traces in some logbooks, with the columns of the cases in front.

    Args:
        logbooks: Their files.
        name: Which frame.
        counted: The columns, by the id of each conversation that counts; others, begun and lost, are left out.
    """
    paths = [str(path) for path in logbooks]
    traces = load(paths) if paths else Traces.from_spans([])
    frame = to_pandas(traces.table(name))
    kept = frame[frame["conversation_id"].isin(counted.index)].reset_index(drop=True)
    cases = counted.loc[kept["conversation_id"].astype(counted.index.dtype)]
    for place, column in enumerate(counted.columns):
        kept.insert(place, column if column not in kept else f"case_{column}", cases[column].array)
    return kept


def partition(logbooks: Iterable[Path], name: str, counted: pd.DataFrame) -> pd.DataFrame:
    """A part of a Dask DataFrame; see `framed`. Categories are text, for each part knows only its own."""
    frame = framed(logbooks, name, counted)
    return frame.astype(dict.fromkeys(frame.select_dtypes("category"), "string"))


def write_cases(cases: pd.DataFrame, path: Path) -> None:
    """Write the table of cases as Parquet; labels that fit into no column of Arrow's become JSON text.

    Args:
        cases: As `turns_df()` gives them.
        path: The file; replaced if it is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {str(name): _column(values) for name, values in cases.items()}
    unfinished = path.with_suffix(".unfinished")
    pq.write_table(pa.table(columns), unfinished, compression="zstd")
    unfinished.replace(path)


def _column(values: pd.Series[Any]) -> pa.Array:
    try:
        return pa.Array.from_pandas(values)
    except pa.ArrowException:
        return pa.array(values.map(partial(json.dumps, default=repr)), pa.large_string())
