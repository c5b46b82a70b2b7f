"""Polars DataFrames as inputs: columns as Arrow, rows selected by Polars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, innermost
from juncture.errors import DataError, SchemaError
from juncture.inputs.frames import Joined, without_runs
from juncture.kernels.array_types import Ints
from juncture.spec.aggregate import CHOSEN
from juncture.spec.schema import Side

_UNKNOWN = {
    "Int128": "Int64, or to Decimal(38, 0)",
    "UInt128": "UInt64, or to Decimal(38, 0)",
    "Object": "a type of Polars' own",
}
"""Types that Arrow lacks, and the types to cast them to."""


class PolarsFrame:
    """A Polars DataFrame."""

    def __init__(self, frame: pl.DataFrame, side: Side) -> None:
        self._frame = frame
        for name, dtype in frame.schema.items():
            _check_type(name, dtype, side)
        self.table = frame.to_arrow()

    def joined(self, right: PolarsFrame | None, rows: Joined) -> pl.DataFrame:
        """Return the rows of a join as a DataFrame."""
        join = rows.join
        left_rows = _rows_of(self._frame, rows.left)
        right_rows = None if right is None or rows.right is None else _rows_of(right._frame, rows.right)
        columns = []
        for column in join.output:
            if column.side == "left":
                is_own = column.source in self._frame.columns
                values = left_rows[column.source] if is_own else _as_polars(rows.columns, column.name)
                if is_own and column.filled_from is not None and (rows.left < 0).any():
                    values = _filled(values, rows.left, _as_polars(rows.columns, column.name))
            elif right_rows is not None:
                values = right_rows[column.source]
            else:
                values = _as_polars(rows.columns, column.name)
            columns.append(values.alias(column.name))
        for each in join.aggregates:
            values = _as_polars(rows.columns, each.name)
            if right is not None and each.column is not None and each.function in CHOSEN:
                values = values.cast(right._frame.schema[each.column])
            columns.append(values)
        return pl.DataFrame(columns)

    def beside(self, tables: list[pl.DataFrame]) -> pl.DataFrame:
        """Concatenate tables of the same length horizontally."""
        return pl.concat(tables, how="horizontal")


def _check_type(name: str, dtype: pl.DataType, side: Side) -> None:
    """Refuse types that Arrow lacks."""
    for leaf in _leaves(dtype):
        kind = type(leaf).__name__
        if kind in _UNKNOWN:
            raise SchemaError(
                f"The {side} column {name!r} of Polars type {dtype} has no Arrow type. Cast it to {_UNKNOWN[kind]}, "
                "or drop it.",
                name="JN-LIBRARY-TYPE",
            )


def _leaves(dtype: Any) -> Iterator[pl.DataType]:
    """Yield the innermost types of a type."""
    inner = [field.dtype for field in dtype.fields] if isinstance(dtype, pl.Struct) else [getattr(dtype, "inner", None)]
    nested = [each for each in inner if each is not None]
    if not nested:
        yield dtype
    for each in nested:
        yield from _leaves(each)


def _rows_of(frame: pl.DataFrame, rows: Ints) -> pl.DataFrame:
    """Select rows of a frame by number, null where it is negative."""
    if len(rows) == frame.height and bool((rows == np.arange(len(rows))).all()):
        return frame
    if not len(rows):
        return frame.head(0)
    # With numbers in the type of its own, Polars neither plans a query nor looks for negative ones.
    item, data_type = (np.uint32, pa.uint32()) if frame.height < 2**32 else (np.uint64, pa.uint64())
    return frame[pl.Series(array_of(rows.astype(item), data_type, rows >= 0))]


def _filled(values: pl.Series, rows: Ints, filling: pl.Series) -> pl.Series:
    """Replace values at negative row numbers. A column of the null type takes the type of `filling`."""
    if values.dtype == pl.Null:
        values = values.cast(filling.dtype)
    try:
        others = filling.cast(values.dtype)
    except pl.exceptions.InvalidOperationError as error:
        raise DataError(
            f"The left column {filling.name!r} of type {values.dtype} cannot contain a value of an unmatched right "
            f"row: {_first_line(error)}. Cast both columns to one type.",
            name="JN-LIBRARY-VALUE",
        ) from error
    return values.zip_with(pl.Series(rows >= 0), others)


def _as_polars(table: pa.Table, name: str) -> pl.Series:
    field = table.schema.field(name)
    try:
        column = without_runs(table.column(name))
        field = field.with_type(column.type)
        if _is_unreadable(field.type):
            raise pl.exceptions.ComputeError("Polars cannot read this Arrow type")
        # Unsupported types raise for a single column, but panic for a whole table.
        pl.Series(pa.nulls(0, field.type))
        for chunk in column.chunks:
            for part in innermost(chunk):
                _check_seconds(part, name)
        return pl.DataFrame(pa.Table.from_arrays([column], schema=pa.schema([field])))[name]
    except (pl.exceptions.PolarsError, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"The column {name!r} of type {field.type} has no type in Polars, the library of the left table: "
            f"{_first_line(error)}. Cast or drop it, or pass the left table as Arrow, with .to_arrow().",
            name="JN-LIBRARY-TYPE",
        ) from error


def _check_seconds(array: pa.Array, name: str) -> None:
    """Refuse times in seconds that overflow milliseconds, the coarsest unit of Polars, which would wrap around."""
    data_type = array.type
    if not (pat.is_timestamp(data_type) or pat.is_duration(data_type)) or data_type.unit != "s":
        return
    try:
        array.cast(pa.timestamp("ms", data_type.tz) if pat.is_timestamp(data_type) else pa.duration("ms"))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"The column {name!r} of type {data_type} has times beyond the range of milliseconds, the coarsest "
            "unit of Polars, the library of the left table. Drop it, or pass the left table as Arrow, with "
            ".to_arrow().",
            name="JN-LIBRARY-VALUE",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _is_unreadable(data_type: pa.DataType) -> bool:
    """Return whether Polars panics when it reads an Arrow type."""
    if pat.is_dictionary(data_type):
        return _is_unreadable(data_type.value_type)
    if pat.is_timestamp(data_type) and data_type.tz is not None:
        return not _is_named_zone(data_type.tz)
    inner = [data_type.field(index).type for index in range(data_type.num_fields)]
    # Polars reads small decimals in lists and structs, but panics when it copies them.
    if any(pat.is_decimal32(each) or pat.is_decimal64(each) for each in inner):
        return True
    return bool(pat.is_decimal256(data_type) or pat.is_union(data_type)) or any(map(_is_unreadable, inner))


def _is_named_zone(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return False
    return True
