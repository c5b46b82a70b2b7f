"""The types of Polars."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time, timedelta
from functools import partial
from typing import Any

import polars as pl

from type_table import arrow
from type_table.column_types import ColumnType
from type_table.in_process import InProcess
from type_table.roles import keeps_type

__all__ = ["POLARS"]


def polars_type(data_type: Any, values: Sequence[Any], name: str | None = None) -> ColumnType:
    return ColumnType(name or str(data_type), values, partial(series, data_type))


def series(data_type: Any, values: Sequence[Any]) -> pl.Series:
    return pl.Series(values=list(values), dtype=data_type, strict=False)


def difference(actual: pl.DataFrame, expected: pl.DataFrame) -> str | None:
    schemas = [{name: frame.schema[name] for name in frame.columns if keeps_type(name)} for frame in (actual, expected)]
    if schemas[0] != schemas[1]:
        return f"columns {schemas[0]}, and not {schemas[1]}"
    rows = [frame.to_dict(as_series=False) for frame in (actual, expected)]
    return None if rows[0] == rows[1] else f"{rows[0]}, and not {rows[1]}"


CLOCK = (time(0), time(0, 0, 1), time(12), time(23, 59, 59))
SIGNED, WHOLE, REAL, TEXT = arrow.SIGNED, arrow.WHOLE, arrow.REAL, arrow.TEXT
SPANS = tuple(map(timedelta, (-1, 0, 1, 400)))

EXTENSION = pl.Extension("vendor.kind", pl.Int64)

TYPES = (
    polars_type(pl.Null, ()),
    polars_type(pl.Boolean, (False, True)),
    *(polars_type(each, SIGNED) for each in (pl.Int8, pl.Int16, pl.Int32, pl.Int64)),
    polars_type(pl.Int128, (-(2**100), -1, 0, 2**100)),
    *(polars_type(each, WHOLE) for each in (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)),
    polars_type(pl.UInt128, (0, 1, 2, 2**100)),
    *(polars_type(each, REAL) for each in (pl.Float16, pl.Float32, pl.Float64)),
    polars_type(pl.Decimal(10, 2), arrow.EXACT),
    polars_type(pl.Decimal(38, 10), arrow.EXACT),
    polars_type(pl.Date, arrow.DAYS),
    polars_type(pl.Time, CLOCK),
    *(polars_type(pl.Datetime(unit), arrow.STEPS) for unit in ("ms", "us", "ns")),
    *(polars_type(pl.Datetime(unit, "Europe/Rome"), arrow.STEPS) for unit in ("ms", "us", "ns")),
    *(polars_type(pl.Duration(unit), SPANS) for unit in ("ms", "us", "ns")),
    polars_type(pl.String, TEXT),
    polars_type(pl.Binary, arrow.BYTES),
    polars_type(pl.Categorical(), TEXT, "Categorical"),
    polars_type(pl.Enum(["low", "mid", "high"]), ("high", "low", "mid"), "Enum"),
    polars_type(pl.List(pl.Int64), arrow.LISTS),
    polars_type(pl.List(pl.String), ([], [None], ["a"], ["a", "b"])),
    polars_type(pl.Array(pl.Int64, 2), arrow.PAIRS, "Array(Int64, 2)"),
    polars_type(pl.Struct({"a": pl.Int64, "b": pl.String}), arrow.RECORDS),
    polars_type(pl.Map(pl.String, pl.Int64), ({"a": 1}, {"a": 2}, {"b": 0}, {"c": 0})),
    ColumnType("Extension of Int64", SIGNED, lambda values: series(pl.Int64, values).ext.to(EXTENSION)),
    polars_type(pl.Object, (0, 1, 2, 3)),
)

POLARS = InProcess(
    name="Polars",
    types=TYPES,
    numbers=polars_type(pl.Int64, range(1_000)),
    table=pl.DataFrame,
    difference=difference,
)
