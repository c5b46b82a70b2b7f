"""pandas DataFrames as inputs: columns as Arrow, rows selected by pandas."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import rows_of
from juncture.columnar.conversion import converted
from juncture.columnar.schemas import LEFT_OUT, check_columns
from juncture.columnar.types import plain_type
from juncture.errors import DataError, SchemaError
from juncture.inputs.frames import Joined, without_runs
from juncture.kernels.array_types import Ints
from juncture.runtime.working_types import restore_types, working_type
from juncture.spec.aggregate import CHOSEN
from juncture.spec.schema import Side

Values = Any
"""An array of pandas or NumPy, of any type."""

_NULLABLE: dict[pa.DataType, Any] = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
}
"""pandas types with their own missing value."""

_OWN_TYPE = ("count", "count_distinct", "list")
"""Aggregates whose type does not depend on how the column represents nulls."""


class PandasFrame:
    """A pandas DataFrame, with the named index levels of the left table as columns.

    NaN in NumPy and object columns is null in Arrow. Nullable and Arrow types distinguish NaN from null.
    """

    def __init__(self, frame: pd.DataFrame, side: Side) -> None:
        self._frame = frame
        arrays = {name: _as_arrow(frame[name], name, side) for name in _names(frame, side)}
        left_out: list[str] = []
        for level, name in enumerate(frame.index.names):
            if not isinstance(name, str) or name in arrays or frame.index.names.count(name) > 1:
                continue
            try:
                if side == "left":
                    arrays[name] = _as_arrow(frame.index.get_level_values(level).to_series(), name, side)
            except SchemaError:
                pass
            if name not in arrays:
                left_out.append(name)
        metadata = {LEFT_OUT: json.dumps(left_out)} if left_out else None
        # A table without columns has rows only if it had columns, and loses them with new metadata.
        table = pa.table(arrays or {"row": np.arange(len(frame))}).replace_schema_metadata(metadata)
        self.table = table.select(list(arrays))

    def joined(self, right: PandasFrame | None, rows: Joined) -> pd.DataFrame:
        """Return the rows of a join as a DataFrame."""
        columns: dict[str, Values] = {}
        for column in rows.join.output:
            name = column.name
            if column.side == "left" and column.source != name:
                columns[name] = _as_pandas(rows.columns.column(name), None, name)
            elif column.side == "left":
                if name in self._frame.columns:
                    filling = None if column.filled_from is None else rows.columns.column(name)
                    columns[name] = _rows_of(_values(self._frame[name]), rows.left, filling, name)
            elif right is not None and rows.right is not None:
                columns[name] = _rows_of(_values(right._frame[column.source]), rows.right)
            else:
                columns[name] = _as_pandas(rows.columns.column(name), None, name)
        for each in rows.join.aggregates:
            like = None if right is None or each.column is None else _values(right._frame[each.column])
            if each.function not in CHOSEN and (each.function in _OWN_TYPE or not _has_own_null(like)):
                like = None
            columns[each.name] = _as_pandas(rows.columns.column(each.name), like, each.name)
        index = self._index(rows)
        for name, values in columns.items():
            if values.dtype == object:
                # Otherwise pandas infers another type from the objects.
                columns[name] = pd.Series(values, index, dtype=object, copy=False)
        return pd.DataFrame(columns, index=index, copy=False)

    def beside(self, tables: list[pd.DataFrame]) -> pd.DataFrame:
        """Concatenate tables of the same length and index horizontally."""
        joined: pd.DataFrame = pd.concat(tables, axis="columns")
        return joined

    def _index(self, rows: Joined) -> pd.Index[Any]:
        """Return the index of the result: the left labels, or a new default index if the left has the default."""
        index = self._frame.index
        if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1 and index.name is None:
            return pd.RangeIndex(len(rows.left))
        if not (rows.left < 0).any():
            taken: pd.Index[Any] = index.take(rows.left)
            return taken
        fills = {column.name for column in rows.join.output if column.filled_from is not None}
        levels = []
        for level, name in enumerate(index.names):
            filling = rows.columns.column(str(name)) if name in fills and name not in self._frame.columns else None
            levels.append(_rows_of(_values(index.get_level_values(level)), rows.left, filling, str(name)))
        if isinstance(index, pd.MultiIndex):
            return pd.MultiIndex.from_arrays(levels, names=index.names)
        labels: pd.Index[Any] = pd.Index(levels[0], dtype=levels[0].dtype, name=index.name, tupleize_cols=False)
        return labels


def _names(frame: pd.DataFrame, side: Side) -> list[str]:
    """Return the column names, which must be unique strings."""
    for name in frame.columns:
        if not isinstance(name, str):
            raise SchemaError(
                f"The {side} table has a column named {name!r} ({type(name).__name__}). Expected strings as column "
                "names. Rename them, for example with table.columns = [str(name) for name in table.columns].",
                name="JN-COLUMN-NAME",
            )
    names = [str(name) for name in frame.columns]
    check_columns(pa.schema([(name, pa.null()) for name in names]), (), argument="", side=side)
    return names


def _as_arrow(column: pd.Series[Any], name: str, side: Side) -> pa.Array | pa.ChunkedArray:
    dtype = column.dtype
    values = np.asarray(column) if isinstance(dtype, pd.SparseDtype) else _native(_values(column))
    try:
        array = pa.array(values, from_pandas=True)
        # Arrow supports few operations on dictionaries of extension types, such as the intervals of pandas.cut.
        is_hard = pat.is_dictionary(array.type) and isinstance(array.type.value_type, pa.BaseExtensionType)
        return array.dictionary_decode() if is_hard else array
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"The {side} column {name!r} of pandas type {dtype} has values without a common Arrow type: {error}. "
            f"Convert it, for example with table[{name!r}].astype(str), or drop it.",
            name="JN-LIBRARY-TYPE",
        ) from error


def _values(column: pd.Series[Any] | pd.Index[Any]) -> Values:
    """Return a column as an array: of NumPy, or of pandas for types that NumPy lacks."""
    dtype = column.dtype
    return column.to_numpy() if isinstance(dtype, np.dtype) and dtype.kind not in "mM" else column.array


def _native(values: Values) -> Values:
    """Return values in native byte order, the only one that Arrow and pandas compute with."""
    dtype = values.dtype
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        return values.astype(dtype.newbyteorder("="))
    return values


def _rows_of(values: Values, rows: Ints, filling: pa.ChunkedArray | None = None, name: str = "") -> Values:
    """Select values by row number. Negative numbers take from `filling` (as long as `rows`), or are missing."""
    lacking = rows < 0
    if not lacking.any():
        return _taken(values, rows)
    if filling is None:
        return _with_missing(values, rows)
    present = _taken(values, rows[~lacking])
    others = _as_pandas(_arrow_rows(filling, np.flatnonzero(lacking)), values, name)
    positions = np.empty(len(rows), np.int64)
    positions[~lacking] = np.arange(len(present))
    positions[lacking] = np.arange(len(present), len(rows))
    return _taken(_concatenated(present, others), positions)


def _taken(values: Values, rows: Ints) -> Values:
    """Select values by row number, none of them negative."""
    return _taken_of_arrow(values, rows) if _is_untaken(values.dtype) else values.take(rows)


def _is_untaken(dtype: object) -> bool:
    """Return whether Arrow cannot select rows of a type, or would change it where dictionaries of chunks differ."""
    return isinstance(dtype, pd.ArrowDtype) and working_type(dtype.pyarrow_dtype, nested=True) != dtype.pyarrow_dtype


def _taken_of_arrow(values: Values, rows: Ints) -> Values:
    """Select values of such a type by row number, missing where it is negative."""
    return pd.arrays.ArrowExtensionArray(_arrow_rows(pa.chunked_array(pa.array(values)), rows))


def _arrow_rows(column: pa.ChunkedArray, rows: Ints) -> pa.ChunkedArray:
    """Select rows of a column of any type by number, null where it is negative."""
    wanted = working_type(column.type, nested=True)
    plain = pa.chunked_array([converted(chunk, wanted) for chunk in column.chunks], wanted)
    schema = pa.schema([("", column.type)])
    taken = pa.table([rows_of(plain, pa.array(rows, mask=rows < 0))], names=schema.names)
    return pa.Table.from_batches(restore_types(taken.to_batches(), schema), schema).column(0)


def _with_missing(values: Values, rows: Ints) -> Values:
    """Select values by row number, missing where it is negative, in a type that can represent missing values."""
    if _is_untaken(values.dtype):
        return _taken_of_arrow(values, rows)
    lacking = rows < 0
    inner = getattr(values.dtype, "subtype", values.dtype)
    if isinstance(inner, np.dtype) and inner.kind in "iubO":
        plain = _native(np.asarray(values))
        # Missing values need any valid row number.
        taken = plain[np.where(lacking, 0, rows)] if len(plain) else np.zeros(len(rows), plain.dtype)
        if plain.dtype.kind == "O":
            taken[lacking] = None
            return taken
        return (pd.arrays.BooleanArray if taken.dtype.kind == "b" else pd.arrays.IntegerArray)(taken, lacking)
    return pd.api.extensions.take(_native(values), rows, allow_fill=True)


def _concatenated(values: Values, others: Values) -> Values:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return pd.api.types.union_categoricals([values, others])
    parts = [pd.Series(part) for part in (values, others) if len(part)]
    return _values(pd.concat(parts, ignore_index=True))


def _has_own_null(values: Values | None) -> bool:
    """Return whether values have a pandas type with its own missing value."""
    dtype = None if values is None else values.dtype
    return isinstance(dtype, pd.ArrowDtype) or any(dtype == nullable for nullable in _NULLABLE.values())


def _as_pandas(column: pa.ChunkedArray, like: Values | None, name: str) -> Values:
    """Return an Arrow column as pandas values of the type of `like`, or NumPy's (nullable for integers with nulls)."""
    dtype: Any = None if like is None else like.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(column)
    if _has_own_null(like):
        dtype = _NULLABLE[column.type]
    if hasattr(dtype, "__from_arrow__") and not isinstance(dtype, pd.DatetimeTZDtype):
        if column.null_count and type(dtype) is pd.IntervalDtype:
            # Intervals of integers cannot represent missing ends.
            return _with_missing(_as_pandas(column.drop_null(), like, name), _source_rows(column))
        return dtype.__from_arrow__(column)
    if isinstance(dtype, pd.CategoricalDtype):
        return _as_categories(column, dtype, name)
    objects = isinstance(dtype, np.dtype) and dtype.kind == "O"
    if objects and pat.is_nested(column.type) and not _has_arrays(like):
        # pandas would convert lists to arrays.
        return pd.Series(column.to_pylist(), dtype=object).to_numpy()
    if column.null_count and column.type in _NULLABLE and not pat.is_floating(column.type) and not objects:
        return _NULLABLE[column.type].__from_arrow__(column)
    try:
        plain = without_runs(column)
        # Arrow crashes on columns without chunks for some types.
        plain = plain if plain.num_chunks else pa.chunked_array([pa.nulls(0, plain.type)])
        series = plain.to_pandas(integer_object_nulls=True)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        raise SchemaError(
            f"The column {name!r} of type {column.type} has no type in pandas, the library of the left table: "
            f"{error}. Cast or drop it, or pass the left table as Arrow: pyarrow.Table.from_pandas(…).",
            name="JN-LIBRARY-TYPE",
        ) from error
    return _values(series if dtype is None or series.dtype == dtype else series.astype(dtype))


def _source_rows(column: pa.ChunkedArray) -> Ints:
    """Return the position of each value among the non-null values, and -1 for null."""
    there = column.is_valid().to_numpy()
    return np.where(there, np.cumsum(there) - 1, -1)


def _has_arrays(values: Values | None) -> bool:
    return values is not None and any(isinstance(value, np.ndarray) for value in values)


def _as_categories(column: pa.ChunkedArray, dtype: pd.CategoricalDtype, name: str) -> pd.Categorical:
    """Return a column as categories, with the categories of a type first."""
    if pat.is_nested(plain_type(column.type)):
        raise SchemaError(
            f"The left column {name!r} is a category, which cannot contain values of type {plain_type(column.type)} "
            "of unmatched right rows. Cast it to object.",
            name="JN-LIBRARY-TYPE",
        )
    values = pd.Categorical(column.to_pandas()).remove_unused_categories()
    added = [value for value in values.categories if value not in dtype.categories]
    if added and dtype.ordered:
        raise DataError(
            f"The left column {name!r} is an ordered category without {added[0]!r}, but the result also has the "
            f"keys of unmatched right rows in it. Add {added[0]!r} to the categories, or make the category unordered.",
            name="JN-LIBRARY-VALUE",
        )
    categories = dtype.categories.append(pd.Index(added, dtype=values.categories.dtype)) if added else dtype.categories
    codes = np.append(categories.get_indexer(values.categories), -1)[values.codes]
    return pd.Categorical.from_codes(codes, categories=categories, ordered=bool(dtype.ordered))
