"""Polars DataFrames in a join: their columns as Arrow, and their rows taken by Polars itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import DataError, SchemaError
from juncture.inputs.frames import Joined, free_name, without_runs
from juncture.kernels.array_types import Ints
from juncture.spec.aggregate import CHOSEN
from juncture.spec.schema import Side

_UNKNOWN = {
    "Int128": "Int64, or to Decimal(38, 0)",
    "UInt128": "UInt64, or to Decimal(38, 0)",
    "Object": "a type of Polars' own",
}
"""Types that Arrow does not have, and what to cast them to."""


class PolarsFrame:
    """A DataFrame.

    Parameters
    ----------
    frame
        The DataFrame.
    side
        Which table of the join it is.

    Raises
    ------
    SchemaError
        If a column is of a type that Arrow does not have.
    """

    def __init__(self, frame: pl.DataFrame, side: Side) -> None:
        self._frame = frame
        for name, dtype in frame.schema.items():
            _check_type(name, dtype, side)
        self.table = frame.to_arrow().append_column(
            free_name(frame.columns, "row number"), pa.array(np.arange(frame.height))
        )

    def joined(self, right: PolarsFrame | None, rows: Joined) -> pl.DataFrame:
        """Return the rows of a join whose left table this is, as a DataFrame."""
        join = rows.join
        ours = _rows_of(self._frame, rows.left)
        theirs = None if right is None or rows.right is None else _rows_of(right._frame, rows.right)
        columns = []
        for column in join.output:
            if column.side == "left":
                is_own = column.source in self._frame.columns
                values = ours[column.source] if is_own else _as_polars(rows.columns, column.name)
                if is_own and column.filled_from is not None and (rows.left < 0).any():
                    values = _filled(values, rows.left, _as_polars(rows.columns, column.name))
            elif theirs is not None:
                values = theirs[column.source]
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
        """Return tables that have as many rows, beside one another."""
        return pl.concat(tables, how="horizontal")


def _check_type(name: str, dtype: pl.DataType, side: Side) -> None:
    """Refuse types that Arrow does not have.

    Raises
    ------
    SchemaError
        With a type to cast to.
    """
    for leaf in _leaves(dtype):
        kind = type(leaf).__name__
        if kind in _UNKNOWN:
            raise SchemaError(
                f"The {side} column {name!r} is of Polars' type {dtype}, and Arrow has no {kind}. Cast it to "
                f"{_UNKNOWN[kind]} first, or leave it out."
            )


def _leaves(dtype: Any) -> Iterator[pl.DataType]:
    """Yield the types of the values in a type."""
    inner = [field.dtype for field in dtype.fields] if isinstance(dtype, pl.Struct) else [getattr(dtype, "inner", None)]
    nested = [each for each in inner if each is not None]
    if not nested:
        yield dtype
    for each in nested:
        yield from _leaves(each)


def _rows_of(frame: pl.DataFrame, rows: Ints) -> pl.DataFrame:
    """Return rows of a frame by their numbers; nulls where these are negative."""
    if len(rows) == frame.height and bool((rows == np.arange(len(rows))).all()):
        return frame
    numbers = pl.Series(pa.array(rows, mask=rows < 0))
    return frame.select(pl.all().gather(numbers))


def _filled(values: pl.Series, rows: Ints, filling: pl.Series) -> pl.Series:
    """Return values, with others in rows that have no number, and the type of these where there was none.

    Raises
    ------
    DataError
        If one of these is not among the categories.
    """
    if values.dtype == pl.Null:
        values = values.cast(filling.dtype)
    try:
        others = filling.cast(values.dtype)
    except pl.exceptions.InvalidOperationError as error:
        raise DataError(
            f"The left column {filling.name!r} is of type {values.dtype}, and a right row without a match would put a "
            f"value there that this does not have: {_first_line(error)}. Cast both columns to one type first."
        ) from error
    return values.zip_with(pl.Series(rows >= 0), others)


def _as_polars(table: pa.Table, name: str) -> pl.Series:
    """Return a column of an Arrow table.

    Raises
    ------
    SchemaError
        If Polars has no type for it.
    DataError
        If its type in Polars does not hold its values.
    """
    field = table.schema.field(name)
    try:
        column = without_runs(table.column(name))
        field = field.with_type(column.type)
        if _is_unreadable(field.type):
            raise pl.exceptions.ComputeError("its reader of Arrow does not know it")
        # Of a whole table's types it does not tell those that it cannot read, but panics.
        pl.Series(pa.nulls(0, field.type))
        for chunk in column.chunks:
            _check_seconds(chunk, name)
        return pl.DataFrame(pa.Table.from_arrays([column], schema=pa.schema([field])))[name]
    except (pl.exceptions.PolarsError, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"The column {name!r} of type {field.type} has no type in Polars, which the left table is of: "
            f"{_first_line(error)}. Cast or drop it, or pass the left table as Arrow, by .to_arrow()."
        ) from error


def _check_seconds(array: pa.Array, name: str) -> None:
    """See that times in seconds are some in milliseconds, the coarsest that Polars has: it would wrap around.

    Raises
    ------
    DataError
        If they are not.
    """
    data_type = array.type
    if pat.is_dictionary(data_type):
        _check_seconds(array.dictionary, name)
    elif pat.is_map(data_type):
        for part in (array.keys, array.items):
            _check_seconds(part, name)
    elif pat.is_nested(data_type):
        for part in array.flatten() if pat.is_struct(data_type) else [array.flatten()]:
            _check_seconds(part, name)
    elif (pat.is_timestamp(data_type) or pat.is_duration(data_type)) and data_type.unit == "s":
        try:
            array.cast(pa.timestamp("ms", data_type.tz) if pat.is_timestamp(data_type) else pa.duration("ms"))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"The column {name!r} holds times in seconds that are beyond all in milliseconds, the coarsest that "
                "Polars has, which the left table is of. Drop it, or pass the left table as Arrow, by .to_arrow()."
            ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _is_unreadable(data_type: pa.DataType) -> bool:
    """Tell types that Polars' reader of Arrow does not survive."""
    if pat.is_dictionary(data_type):
        return _is_unreadable(data_type.value_type)
    if pat.is_timestamp(data_type) and data_type.tz is not None:
        return not _is_named_zone(data_type.tz)
    inner = (data_type.field(place).type for place in range(data_type.num_fields))
    return bool(pat.is_decimal256(data_type) or pat.is_union(data_type)) or any(map(_is_unreadable, inner))


def _is_named_zone(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return False
    return True
