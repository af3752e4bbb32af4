"""Columns in Arrow: building them from Python values, canonical categories, and the way to pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import PydanticSerializationError, SchemaSerializer
from pydantic_core.core_schema import any_schema

from hermes_nb.traces.catalogue import FRAMES
from hermes_nb.traces.jsons import dumps
from hermes_nb.traces.schema import arrow_schema
from hermes_nb.traces.values import as_int
from hermes_nb.vocabulary.texts import unicode_only

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import pandas as pd

    from hermes_nb.traces.analysis import Analysis

TEXT: Final = pa.large_string()
TIME: Final = pa.timestamp("ns", "UTC")
DURATION: Final = pa.duration("ns")
DISTINCT: Final = pa.dictionary(pa.int32(), TEXT)
"""Long texts of which there are few."""


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of Python values; text that UTF-8 cannot hold and numbers beyond 64 bits do not stop it."""
    if isinstance(values, pa.Array):
        return values
    if kind == DISTINCT:
        known: dict[Any, int] = {}
        codes = [None if value is None else known.setdefault(value, len(known)) for value in values]
        return pa.DictionaryArray.from_arrays(array(codes, pa.int32()), array(list(known), TEXT))
    try:
        if len(values) > 1 and values[0] is values[-1] and values.count(values[0]) == len(values):
            return pa.repeat(pa.scalar(values[0], kind), len(values))
        return pa.array(values, kind)
    except (UnicodeEncodeError, OverflowError, pa.ArrowException):
        if kind == TEXT:
            return pa.array([None if value is None else unicode_only(str(value)) for value in values], kind)
        return pa.array([None if value is None else as_int(value) for value in values], pa.int64()).cast(kind)


def json_column(
    values: Sequence[Mapping[str, Any] | None], without: AbstractSet[str], where: Sequence[bool]
) -> pa.Array:
    """JSON text of mappings; missing for those of which nothing is left.

    Args:
        values: The mappings.
        without: Keys that are left out ...
        where: ... of these mappings.
    """
    left_out = set(without)
    try:
        texts = [
            _to_json(each, exclude=left_out if cut else None, fallback=str) if each else None
            for each, cut in zip(values, where, strict=True)
        ]
    except (PydanticSerializationError, ValueError):
        rest = (
            {key: each[key] for key in each if not cut or key not in without} if each else {}
            for each, cut in zip(values, where, strict=True)
        )
        texts = [dumps(each).encode() if each else None for each in rest]
    if b"{}" in texts:  # all of it was left out
        texts = [None if each == b"{}" else each for each in texts]
    return pa.array(texts, pa.large_binary()).cast(TEXT)


_to_json: Final = SchemaSerializer(any_schema(), {"ser_json_inf_nan": "strings", "ser_json_bytes": "base64"}).to_json
"""What `jsons.dumps` does, with the settings read once."""


def hex_column(numbers: Sequence[int]) -> pa.Array:
    """Numbers of 64 bits as 16 hexadecimal digits each; missing where the number is 0, which is no id."""
    given = np.fromiter(numbers, np.uint64, len(numbers))
    digits = given.astype(">u8").tobytes().hex().encode()
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * 16
    texts = pa.LargeStringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(digits))
    return texts if given.all() else pc.if_else(pa.array(given != 0), texts, pa.scalar(None, TEXT))


def conform(name: str, columns: Mapping[str, Any], rows: int) -> pa.Table:
    """An Arrow table with exactly the columns of a frame.

    Args:
        name: A key of `FRAMES`.
        columns: Arrow arrays or Python lists by column name; a column that is left out is all missing.
        rows: Number of rows.
    """
    schema = arrow_schema(name)
    arrays = []
    for column, field in zip(FRAMES[name].columns, schema, strict=True):
        values = columns.get(column.name)
        if values is None:
            values = pa.nulls(rows, TEXT if column.kind == "category" else field.type)
        if column.kind == "category":
            values = categorical(values, column.values)
        arrays.append(_cast(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def categorical(values: Any, first: Sequence[str] = ()) -> pa.DictionaryArray:
    """A dictionary array whose categories are `first`, then all others that occur, sorted."""
    encoded = _whole(values)
    if not pa.types.is_dictionary(encoded.type):
        encoded = _cast(encoded, TEXT).dictionary_encode()
    old = encoded.dictionary.cast(TEXT)
    used = pc.unique(encoded.indices).drop_null()
    met = set(old.take(used).to_pylist()) - {None}
    categories = pa.array([*first, *sorted(met - set(first))], TEXT)
    moved = pc.index_in(old, categories)
    return pa.DictionaryArray.from_arrays(moved.take(encoded.indices), categories)


def _whole(values: Any) -> pa.Array:
    """One array of a chunked one or a list."""
    if isinstance(values, pa.ChunkedArray):
        return values.unify_dictionaries().combine_chunks()
    return values if isinstance(values, pa.Array) else array(values, TEXT)


def _cast(values: Any, kind: pa.DataType) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values if values.type == kind else values.cast(kind)
    return array(values, kind)


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """The table as a pandas frame with the dtypes of the schema."""
    import pandas as pd  # noqa: PLC0415  Arrow alone is enough for `table()`

    mapped = {
        TEXT: pd.StringDtype("pyarrow", na_value=np.nan),
        pa.int64(): pd.Int64Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    frame: pd.DataFrame = table.to_pandas(types_mapper=mapped.get)
    return frame


def attribute(analysis: Analysis, name: str) -> pd.Series[Any]:
    """One attribute of the spans that have it, by span id, with the dtype that fits all its values."""
    import pandas as pd  # noqa: PLC0415  Arrow alone is enough for `table()`

    rows = np.flatnonzero(pc.fill_null(pc.match_substring(analysis.spans["attributes_json"], dumps(name)), False))
    said = analysis.attributes(rows)
    has = [name in each for each in said]
    values = [each[name] for each, there in zip(said, has, strict=True) if there]
    index = pd.Index(analysis.column("span_id", rows[np.array(has, bool)]).to_pylist(), name="span_id", dtype="str")
    kinds = {type(value) for value in values}
    kind = _DTYPES.get(kinds.pop(), "str") if len(kinds) == 1 else "Float64" if kinds == {int, float} else "str"
    texts = [value if isinstance(value, str) else dumps(value) for value in values] if kind == "str" else values
    return pd.Series(texts, index=index, name=name, dtype=kind)


_DTYPES: Final = {int: "Int64", float: "Float64", bool: "boolean"}
