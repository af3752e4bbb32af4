"""Arrow schemas and documentation of the frames, made from their catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hermes_nb.traces.catalogue import FRAMES

if TYPE_CHECKING:
    import pyarrow as pa

    from hermes_nb.traces.kinds import Column

VERSION: Final = "1"
"""Of the columns; written into the metadata of every Parquet file."""


def arrow_schema(name: str) -> pa.Schema:
    """The Arrow schema of a frame, with the version of the columns in its metadata.

    Args:
        name: A key of `FRAMES`.
    """
    import pyarrow as pa  # noqa: PLC0415  loaded on first use

    types = {
        "str": pa.large_string(),
        "category": pa.dictionary(pa.int32(), pa.large_string()),
        "Int64": pa.int64(),
        "Float64": pa.float64(),
        "boolean": pa.bool_(),
        "datetime64[ns, UTC]": pa.timestamp("ns", "UTC"),
        "timedelta64[ns]": pa.duration("ns"),
    }
    fields = [pa.field(column.name, types[column.kind]) for column in FRAMES[name].columns]
    return pa.schema(fields, {b"hermes_nb.frame": name.encode(), b"hermes_nb.schema": VERSION.encode()})


def markdown() -> str:
    """The documentation's tables: for each frame its columns with dtype and meaning."""
    parts = []
    for frame in FRAMES.values():
        parts.append(f"### {frame.name}\n\nOne row per {frame.row}.\n\n| column | dtype | meaning |\n|---|---|---|")
        parts.extend(f"| `{c.name}` | `{c.kind}` | {c.doc}{_values(c)} |" for c in frame.columns)
        parts.append("")
    return "\n".join(parts)


def _values(column: Column) -> str:
    return ": " + ", ".join(f"`{value}`" for value in column.values) if column.values else ""
