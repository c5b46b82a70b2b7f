"""The types of pandas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import time
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from type_table import arrow
from type_table.column_types import ColumnType
from type_table.in_process import InProcess
from type_table.roles import keeps_type

__all__ = ["PANDAS", "PANDAS_ARROW"]


def pandas_type(dtype: Any, values: Sequence[Any], name: str | None = None) -> ColumnType:
    return ColumnType(name or str(dtype), values, partial(series, dtype))


def without_null(dtype: Any, other: str, values: Sequence[Any]) -> ColumnType:
    """Return a type that has no null, so that an answer with null is of another."""

    def make(cells: Sequence[Any]) -> pd.Series:
        return series(other if None in cells else dtype, cells)

    return ColumnType(str(dtype), values, make, is_nullable=False)


def series(dtype: Any, values: Sequence[Any]) -> pd.Series:
    return pd.Series(list(values), dtype=dtype)


def objects(name: str, values: Sequence[Any]) -> ColumnType:
    return pandas_type(object, values, f"object ({name})")


def arrow_backed() -> Iterator[ColumnType]:
    """Yield Arrow's types as pandas has them."""
    for each in (*arrow.PLAIN, *arrow.NESTED):
        yield replace(each, name=f"{each.name}[pyarrow]", make=partial(of_arrow, each))


def of_arrow(column_type: ColumnType, values: Sequence[Any]) -> pd.Series:
    column = column_type.make(values)
    return pd.Series(column, dtype=pd.ArrowDtype(column.type))


def difference(actual: pd.DataFrame, expected: pd.DataFrame) -> str | None:
    try:
        for name in filter(keeps_type, expected.columns):
            assert actual[name].dtype == expected[name].dtype, f"{name} is {actual[name].dtype}"
        shown = (frame.assign(**{name: as_objects(frame[name]) for name in frame}) for frame in (actual, expected))
        pd.testing.assert_frame_equal(*shown, check_dtype=False, check_exact=True, check_categorical=False)
    except AssertionError as error:
        return f"{error}\n{actual}\nand not\n{expected}"
    return None


def as_objects(column: pd.Series) -> pd.Series:
    """Return a column of Arrow's as objects of Python, since pandas compares some types by other values than theirs."""
    if not isinstance(column.dtype, pd.ArrowDtype):
        return column
    return pd.Series(column.array.__arrow_array__().to_pylist(), dtype=object)


CLOCK = (time(0), time(0, 0, 1), time(12), time(23, 59, 59))
SIGNED, WHOLE, REAL = arrow.SIGNED, arrow.WHOLE, arrow.REAL
TEXT, BYTES = arrow.TEXT, arrow.BYTES
BEYOND_FLOATS = (-(2**62) - 1, -1, 2**53 + 1, 2**62 + 1)
TIMES = tuple(map(pd.Timestamp, ("1969-12-31", "1970-01-01 00:00:00.5", "2024-02-29 12:00", "2200-01-01")))
ZONED = tuple(each.tz_localize("Europe/Rome") for each in TIMES)
SPANS = tuple(map(pd.Timedelta, ("-1 day", "0 s", "1.5 s", "400 days")))
MONTHS = tuple(pd.Period(month, "M") for month in ("1969-12", "1970-01", "2024-02", "2200-01"))
BETWEEN = tuple(pd.Interval(start, start + 1) for start in (-1, 0, 1, 100))

OWN = (
    without_null("bool", "boolean", (False, True)),
    *(without_null(f"int{bits}", f"Int{bits}", SIGNED) for bits in (8, 16, 32, 64)),
    *(without_null(f"uint{bits}", f"UInt{bits}", WHOLE) for bits in (8, 16, 32, 64)),
    *(pandas_type(f"float{bits}", REAL) for bits in (16, 32, 64)),
    pandas_type("longdouble", REAL),
    *(pandas_type(each, (-1j, 0j, 1j, 1 + 0j)) for each in ("complex64", "complex128")),
    pandas_type("boolean", (False, True)),
    *(pandas_type(f"Int{bits}", SIGNED) for bits in (8, 16, 32)),
    pandas_type("Int64", BEYOND_FLOATS),
    *(pandas_type(f"UInt{bits}", WHOLE) for bits in (8, 16, 32, 64)),
    *(pandas_type(f"Float{bits}", REAL) for bits in (32, 64)),
    *(pandas_type(pd.StringDtype(storage), TEXT, f"string[{storage}]") for storage in ("python", "pyarrow")),
    pandas_type(pd.StringDtype("pyarrow", na_value=np.nan), TEXT, "str"),
    *(pandas_type(f"datetime64[{unit}]", TIMES) for unit in ("s", "ms", "us", "ns")),
    *(pandas_type(f"datetime64[{unit}, Europe/Rome]", ZONED) for unit in ("s", "ms", "us", "ns")),
    *(pandas_type(f"timedelta64[{unit}]", SPANS) for unit in ("s", "ms", "us", "ns")),
    pandas_type("period[M]", MONTHS),
    without_null("interval[int64, right]", "object", BETWEEN),
    pandas_type(
        "interval[float64, right]", tuple(pd.Interval(float(each.left), float(each.right)) for each in BETWEEN)
    ),
    pandas_type(pd.CategoricalDtype(TEXT), TEXT, "category of str"),
    pandas_type(pd.CategoricalDtype(SIGNED), SIGNED, "category of int64"),
    pandas_type(pd.CategoricalDtype(TIMES), TIMES, "category of datetime64[ns]"),
    pandas_type(pd.CategoricalDtype(["low", "mid", "high"], ordered=True), ("high", "low", "mid"), "ordered category"),
    pandas_type(pd.SparseDtype("float64"), REAL),
    without_null(pd.SparseDtype("int64"), "Int64", SIGNED),
    objects("str", TEXT),
    objects("bytes", BYTES),
    objects("bool", (False, True)),
    objects("int", SIGNED),
    objects("date", arrow.DAYS),
    objects("time", CLOCK),
    objects("Decimal", tuple(map(Decimal, ("-1.5", "0", "0.25", "100")))),
    objects("list", ([], [1], [1, 2], [3])),
    objects("dict", tuple({"a": a} for a in WHOLE)),
    objects("int and str", (0, 1, "", "a")),
    objects("complex", (-1j, 0j, 1j, 1 + 0j)),
)


def library(name: str, types: Sequence[ColumnType]) -> InProcess:
    numbers = pandas_type("Int64", range(1_000))
    return InProcess(name, types, numbers, table=pd.DataFrame, difference=difference)


PANDAS = library("pandas", OWN)
PANDAS_ARROW = library("pandas, of Arrow's types", tuple(arrow_backed()))
