"""pandas DataFrames in a join: their columns as Arrow, and their rows taken by pandas itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import rows_of
from juncture.columnar.conversion import converted
from juncture.errors import DataError, SchemaError
from juncture.inputs.frames import Joined, free_name, without_runs
from juncture.kernels.array_types import Ints
from juncture.runtime.working_types import given_back, working_type
from juncture.spec.aggregate import CHOSEN
from juncture.spec.schema import LEFT_OUT, Side, check_columns, plain_type

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
"""The types of pandas that have a mark of their own for a missing value."""

_OWN_TYPE = ("count", "count_distinct", "list")
"""Aggregates whose type has nothing to do with how the column writes nulls."""


class PandasFrame:
    """A DataFrame.

    NaN in a NumPy column and in one of objects is pandas' mark for a missing value, so it is null as Arrow. Columns of
    nullable and of Arrow's types tell the two apart.

    Parameters
    ----------
    frame
        The DataFrame.
    side
        Which table of the join it is. The levels of the left one's index are columns too, if their names are.

    Raises
    ------
    SchemaError
        If a column has a name that is not text, one that is another's too, or values that Arrow has no type for.
    """

    def __init__(self, frame: pd.DataFrame, side: Side) -> None:
        self._frame = frame
        arrays = {name: _as_arrow(frame[name], name, side) for name in _names(frame, side)}
        left_out: list[str] = []
        for place, name in enumerate(frame.index.names):
            if not isinstance(name, str) or name in arrays or frame.index.names.count(name) > 1:
                continue
            try:
                if side == "left":
                    arrays[name] = _as_arrow(frame.index.get_level_values(place).to_series(), name, side)
            except SchemaError:
                pass
            if name not in arrays:
                left_out.append(name)
        arrays[free_name(arrays, "row number")] = pa.array(np.arange(len(frame)))
        metadata = {LEFT_OUT: json.dumps(left_out)} if left_out else None
        self.table = pa.table(arrays).replace_schema_metadata(metadata)

    def joined(self, right: PandasFrame | None, rows: Joined) -> pd.DataFrame:
        """Return the rows of a join whose left table this is, as a DataFrame."""
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
                # pandas would look what the objects are, and make another type of some.
                columns[name] = pd.Series(values, index, dtype=object, copy=False)
        return pd.DataFrame(columns, index=index, copy=False)

    def beside(self, tables: list[pd.DataFrame]) -> pd.DataFrame:
        """Return tables that have as many rows and the same index, beside one another."""
        joined: pd.DataFrame = pd.concat(tables, axis="columns")
        return joined

    def _index(self, rows: Joined) -> pd.Index[Any]:
        """Return the labels of rows: those of the left rows, unless these are the usual ones, which begin anew."""
        index = self._frame.index
        if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1 and index.name is None:
            return pd.RangeIndex(len(rows.left))
        if not (rows.left < 0).any():
            taken: pd.Index[Any] = index.take(rows.left)
            return taken
        fills = {column.name for column in rows.join.output if column.filled_from is not None}
        levels = []
        for place, name in enumerate(index.names):
            filling = rows.columns.column(str(name)) if name in fills and name not in self._frame.columns else None
            levels.append(_rows_of(_values(index.get_level_values(place)), rows.left, filling, str(name)))
        if isinstance(index, pd.MultiIndex):
            return pd.MultiIndex.from_arrays(levels, names=index.names)
        labels: pd.Index[Any] = pd.Index(levels[0], dtype=levels[0].dtype, name=index.name, tupleize_cols=False)
        return labels


def _names(frame: pd.DataFrame, side: Side) -> list[str]:
    """Return the names of the columns.

    Raises
    ------
    SchemaError
        If one is no text, or two are equal.
    """
    for name in frame.columns:
        if not isinstance(name, str):
            raise SchemaError(
                f"The {side} table has a column named {name!r} ({type(name).__name__}). Columns are named by text in a "
                "join: rename them first, such as with table.columns = [str(name) for name in table.columns]."
            )
    names = [str(name) for name in frame.columns]
    check_columns(pa.schema([(name, pa.null()) for name in names]), (), argument="", side=side)
    return names


def _as_arrow(column: pd.Series[Any], name: str, side: Side) -> pa.Array | pa.ChunkedArray:
    """Return a column as Arrow.

    Raises
    ------
    SchemaError
        If Arrow has no type for it.
    """
    dtype = column.dtype
    values = np.asarray(column) if isinstance(dtype, pd.SparseDtype) else _native(_values(column))
    try:
        array = pa.array(values, from_pandas=True)
        # Arrow can do next to nothing with dictionaries of extension types, such as the intervals of pandas.cut.
        is_hard = pat.is_dictionary(array.type) and isinstance(array.type.value_type, pa.BaseExtensionType)
        return array.dictionary_decode() if is_hard else array
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"The {side} column {name!r} of pandas type {dtype} has values that no one type of Arrow holds: {error}. "
            f"Give it one type before the join, such as with table[{name!r}].astype(str), or leave it out."
        ) from error


def _values(column: pd.Series[Any] | pd.Index[Any]) -> Values:
    """Return a column as the array that it is: of NumPy, or of pandas for all types that NumPy has not."""
    dtype = column.dtype
    return column.to_numpy() if isinstance(dtype, np.dtype) and dtype.kind not in "mM" else column.array


def _native(values: Values) -> Values:
    """Return values in this machine's order of bytes, in which alone Arrow and pandas can work on them."""
    dtype = values.dtype
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        return values.astype(dtype.newbyteorder("="))
    return values


def _rows_of(values: Values, rows: Ints, filling: pa.ChunkedArray | None = None, name: str = "") -> Values:
    """Return values by the numbers of their rows; where these are negative, from what fills them or missing.

    Parameters
    ----------
    values
        The values.
    rows
        The numbers.
    filling
        A column as long as the rows.
    name
        What an error calls the column.

    Raises
    ------
    DataError
        If what fills the column has no place in its order.
    """
    lacking = rows < 0
    if not lacking.any():
        return _taken(values, rows)
    if filling is None:
        return _with_missing(values, rows)
    own = _taken(values, rows[~lacking])
    others = _as_pandas(_arrow_rows(filling, np.flatnonzero(lacking)), values, name)
    places = np.empty(len(rows), np.int64)
    places[~lacking] = np.arange(len(own))
    places[lacking] = np.arange(len(own), len(rows))
    return _taken(_concatenated(own, others), places)


def _taken(values: Values, rows: Ints) -> Values:
    """Return values by the numbers of their rows, none of which is negative."""
    return _taken_of_arrow(values, rows) if _is_untaken(values.dtype) else values.take(rows)


def _is_untaken(dtype: object) -> bool:
    """Tell Arrow's types of which it takes no rows, or other ones where the dictionaries of chunks differ."""
    return isinstance(dtype, pd.ArrowDtype) and working_type(dtype.pyarrow_dtype, nested=True) != dtype.pyarrow_dtype


def _taken_of_arrow(values: Values, rows: Ints) -> Values:
    """Return values of such a type by the numbers of their rows, missing where these are negative."""
    return pd.arrays.ArrowExtensionArray(_arrow_rows(pa.chunked_array(pa.array(values)), rows))


def _arrow_rows(column: pa.ChunkedArray, rows: Ints) -> pa.ChunkedArray:
    """Return rows of a column of any type by their numbers, null where these are negative."""
    wanted = working_type(column.type, nested=True)
    plain = pa.chunked_array([converted(chunk, wanted) for chunk in column.chunks], wanted)
    schema = pa.schema([("", column.type)])
    taken = pa.table([rows_of(plain, pa.array(rows, mask=rows < 0))], names=schema.names)
    return pa.Table.from_batches(given_back(taken.to_batches(), schema), schema).column(0)


def _with_missing(values: Values, rows: Ints) -> Values:
    """Return values by the numbers of their rows, missing where they are negative, in a type that tells these apart."""
    if _is_untaken(values.dtype):
        return _taken_of_arrow(values, rows)
    lacking = rows < 0
    inner = getattr(values.dtype, "subtype", values.dtype)
    if isinstance(inner, np.dtype) and inner.kind in "iubO":
        plain = _native(np.asarray(values))
        # In place of what is missing any value will do.
        taken = plain[np.where(lacking, 0, rows)] if len(plain) else np.zeros(len(rows), plain.dtype)
        if plain.dtype.kind == "O":
            taken[lacking] = None
            return taken
        return (pd.arrays.BooleanArray if taken.dtype.kind == "b" else pd.arrays.IntegerArray)(taken, lacking)
    return pd.api.extensions.take(_native(values), rows, allow_fill=True)


def _concatenated(own: Values, others: Values) -> Values:
    if isinstance(own.dtype, pd.CategoricalDtype):
        return pd.api.types.union_categoricals([own, others])
    parts = [pd.Series(part) for part in (own, others) if len(part)]
    return _values(pd.concat(parts, ignore_index=True))


def _has_own_null(values: Values | None) -> bool:
    """Tell values of the types of pandas that have a mark of their own for missing numbers."""
    dtype = None if values is None else values.dtype
    return isinstance(dtype, pd.ArrowDtype) or any(dtype == nullable for nullable in _NULLABLE.values())


def _as_pandas(column: pa.ChunkedArray, like: Values | None, name: str) -> Values:
    """Return a column of Arrow's.

    Parameters
    ----------
    column
        The column.
    like
        Values whose type holds those of the column. None for the usual one: NumPy's, and for whole numbers and truth
        values of which some are missing pandas' own.
    name
        What an error calls the column.

    Raises
    ------
    SchemaError
        If pandas has no type for it.
    DataError
        If a value is not among the ordered categories of the type.
    """
    dtype: Any = None if like is None else like.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(column)
    if _has_own_null(like):
        dtype = _NULLABLE[column.type]
    if hasattr(dtype, "__from_arrow__") and not isinstance(dtype, pd.DatetimeTZDtype):
        if column.null_count and type(dtype) is pd.IntervalDtype:
            # Of whole numbers none is missing.
            return _with_missing(_as_pandas(column.drop_null(), like, name), _places(column))
        return dtype.__from_arrow__(column)
    if isinstance(dtype, pd.CategoricalDtype):
        return _as_categories(column, dtype, name)
    objects = isinstance(dtype, np.dtype) and dtype.kind == "O"
    if objects and pat.is_nested(column.type) and not _has_arrays(like):
        # Of lists pandas would make arrays.
        return pd.Series(column.to_pylist(), dtype=object).to_numpy()
    if column.null_count and column.type in _NULLABLE and not pat.is_floating(column.type) and not objects:
        return _NULLABLE[column.type].__from_arrow__(column)
    try:
        plain = without_runs(column)
        # Without a chunk, Arrow ends the process for some types.
        plain = plain if plain.num_chunks else pa.chunked_array([pa.nulls(0, plain.type)])
        series = plain.to_pandas(integer_object_nulls=True)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        raise SchemaError(
            f"The column {name!r} of type {column.type} has no type in pandas, which the left table is of: {error}. "
            "Cast or drop it, or pass the left table as Arrow: pyarrow.Table.from_pandas(…)."
        ) from error
    return _values(series if dtype is None or series.dtype == dtype else series.astype(dtype))


def _places(column: pa.ChunkedArray) -> Ints:
    """Return the place of each value among those that are not null, and -1 for null."""
    there = column.is_valid().to_numpy()
    return np.where(there, np.cumsum(there) - 1, -1)


def _has_arrays(values: Values | None) -> bool:
    return values is not None and any(isinstance(value, np.ndarray) for value in values)


def _as_categories(column: pa.ChunkedArray, dtype: pd.CategoricalDtype, name: str) -> pd.Categorical:
    """Return a column as categories, with those that a type has first.

    Raises
    ------
    SchemaError
        If the column is of nested values.
    DataError
        If the type is ordered, and the column has others.
    """
    if pat.is_nested(plain_type(column.type)):
        raise SchemaError(
            f"The left column {name!r} is a category, and a right row without a match would put a value of type "
            f"{plain_type(column.type)} there, which pandas takes for none. Cast it to object first."
        )
    series = column.to_pandas()
    values = pd.Categorical(series).remove_unused_categories()
    added = [value for value in values.categories if value not in dtype.categories]
    if added and dtype.ordered:
        raise DataError(
            f"The left column {name!r} is an ordered category, and a right row without a match would put {added[0]!r} "
            "there, which has no place in its order. Add it to the categories first, or make the category unordered."
        )
    categories = dtype.categories.append(pd.Index(added, dtype=values.categories.dtype)) if added else dtype.categories
    return pd.Categorical(series.astype(object), categories=categories, ordered=bool(dtype.ordered))
