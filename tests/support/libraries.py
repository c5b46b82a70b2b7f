"""Columns of every type of pandas, Polars and pyarrow, with a missing value where the type has one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ARROW", "NEVER_MISSING", "PANDAS", "POLARS", "ROWS"]

ROWS = 4
"""How many values each column has."""

BEYOND_FLOATS = 2**53 + 1
DATES = pd.to_datetime(["2026-01-01", "1969-12-31 23:59:59.999999", None, "2026-03-29 01:30"], format="ISO8601")


def pandas_columns() -> dict[str, Any]:
    columns: dict[str, Any] = {
        **{kind: np.array([1, 0, 2, 3], kind) for kind in ("i1", "i2", "i4", "u1", "u2", "u4", ">i4")},
        "int64": np.array([BEYOND_FLOATS, -1, 0, 3]),
        "uint64": np.array([2**64 - 1, 1, 0, 3], np.uint64),
        "bool": np.array([True, False, False, True]),
        "float16": np.array([1, np.nan, -0.0, np.inf], np.float16),
        "float32": np.array([1, np.nan, -0.0, np.inf], np.float32),
        "float64": np.array([0.1, np.nan, -0.0, np.inf]),
        **{f"datetime64[{unit}]": DATES.as_unit(unit) for unit in ("s", "ms", "us", "ns")},
        **{f"timedelta64[{unit}]": (DATES - DATES[0]).as_unit(unit) for unit in ("s", "ms", "us", "ns")},
        "zoned": DATES.tz_localize("UTC").tz_convert("Europe/Berlin").as_unit("us"),
        "offset": DATES.tz_localize(dt.timezone(dt.timedelta(minutes=-90))),
        **{kind: pd.array([1, None, 0, 3], dtype=kind) for kind in ("Int8", "Int16", "Int32")},
        **{kind: pd.array([1, None, 0, 3], dtype=kind) for kind in ("UInt8", "UInt16", "UInt32")},
        "Int64": pd.array([BEYOND_FLOATS, None, 0, 3], dtype="Int64"),
        "UInt64": pd.array([2**64 - 1, None, 0, 3], dtype="UInt64"),
        "boolean": pd.array([True, None, False, True], dtype="boolean"),
        "Float32": pd.array([0.5, None, -0.0, np.inf], dtype="Float32"),
        "Float64": pd.arrays.FloatingArray(np.array([0.1, np.nan, np.nan, 1]), np.array([False, True, False, False])),
        "string": pd.array(["a", None, "", "é"], dtype="string[python]"),
        "string[pyarrow]": pd.array(["a", None, "", "é"], dtype="string[pyarrow]"),
        "str": pd.array(["a", None, "", "é"], dtype=pd.StringDtype(storage="pyarrow", na_value=np.nan)),
        "category": pd.Categorical(["b", None, "a", "b"], categories=["b", "unused", "a"]),
        "ordered": pd.Categorical(["b", None, "a", "b"], categories=["b", "unused", "a"], ordered=True),
        "category of numbers": pd.Categorical([3, 1, None, 3]),
        "category of intervals": pd.cut(np.array([1, 2, 3, 1]), 2),
        "category of dates": pd.Categorical(DATES),
        "sparse float": pd.arrays.SparseArray([1.5, np.nan, np.nan, 0]),
        "sparse int": pd.arrays.SparseArray([0, 0, BEYOND_FLOATS, 0]),
        "sparse bool": pd.arrays.SparseArray([False, False, True, False]),
        "period": pd.array(["2026-01", None, "2026-02", "1969-12"], dtype="period[M]"),
        "interval": pd.arrays.IntervalArray.from_tuples([(0.0, 1.0), (1.0, 2.5), np.nan, (0.0, 1.0)], closed="both"),
        "interval of integers": pd.arrays.IntervalArray.from_tuples([(0, 1), (1, BEYOND_FLOATS), (2, 3), (0, 1)]),
        **{name: pd.array(values, dtype=pd.ArrowDtype(values.type)) for name, values in arrow_of_pandas().items()},
    }
    objects: dict[str, list[Any]] = {
        "text": ["a", np.nan, None, "é"],
        "text and NA": ["a", pd.NA, "", "é"],
        "bytes": [b"a", None, b"", b"\xff"],
        "dates": [dt.date(2026, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)],
        "times": [dt.time(1, 2, 3, 4), None, dt.time(0), dt.time(23, 59)],
        "durations": [dt.timedelta(1), None, dt.timedelta(0), dt.timedelta(-1)],
        "instants": [pd.Timestamp("2026", tz="UTC"), None, pd.NaT, pd.Timestamp("1969", tz="UTC")],
        "decimals": [Decimal("1.10"), None, Decimal("1.123"), Decimal("-0")],
        "integers": [BEYOND_FLOATS, None, 0, 1],
        "floats": [0.5, np.nan, None, 1.0],
        "truths": [True, None, False, True],
        "lists": [[1, None], None, [], [2]],
        "mappings": [{"a": 1}, None, {"b": "x"}, {}],
        "nothing": [None, np.nan, None, None],
    }
    for name, values in objects.items():
        array = np.empty(ROWS, object)
        array[:] = values
        columns[f"objects: {name}"] = array
    return columns


def arrow_of_pandas() -> dict[str, pa.Array]:
    """Return columns that pandas holds as Arrow does."""
    known = arrow_columns()
    names = ("int64", "float64", "string", "decimal128", "timestamp[us, tz=UTC]", "list", "struct", "ordered", "binary")
    return {f"pyarrow {name}": known[name].combine_chunks() for name in names}


def polars_columns() -> dict[str, pl.Series]:
    values: list[tuple[Any, list[Any]]] = [
        *((kind, [1, None, 0, 3]) for kind in (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)),
        (pl.Int64, [BEYOND_FLOATS, None, 0, 3]),
        (pl.UInt64, [2**64 - 1, None, 0, 3]),
        (pl.Float32, [0.5, None, float("nan"), float("inf")]),
        (pl.Float64, [0.1, None, float("nan"), -0.0]),
        (pl.Boolean, [True, None, False, True]),
        (pl.String, ["a", None, "", "é"]),
        (pl.Binary, [b"a", None, b"", b"\xff"]),
        (pl.Categorical, ["b", None, "a", "b"]),
        (pl.Enum(["b", "unused", "a"]), ["b", None, "a", "b"]),
        (pl.Date, [dt.date(2026, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        (pl.Time, [dt.time(1, 2, 3, 4), None, dt.time(0), dt.time(23, 59)]),
        *((pl.Datetime(unit), [dt.datetime(2026, 1, 1), None, dt.datetime(1969, 1, 1), None]) for unit in ("ms", "ns")),
        (pl.Datetime("us", "Europe/Berlin"), [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None, None, None]),
        *((pl.Duration(unit), [dt.timedelta(1), None, dt.timedelta(0), None]) for unit in ("ms", "us", "ns")),
        (pl.Decimal(38, 10), [Decimal("1.5"), None, Decimal("-0.0000000001"), Decimal(0)]),
        (pl.Null, [None] * ROWS),
        (pl.List(pl.Int64), [[BEYOND_FLOATS, None], None, [], [2]]),
        (pl.List(pl.Enum(["y", "x"])), [["x", None], None, [], ["y"]]),
        (pl.Array(pl.Int8, 2), [[1, 2], None, [3, None], [0, 0]]),
        (
            pl.Struct({"a": pl.Int8, "b": pl.List(pl.String)}),
            [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}, None],
        ),
    ]
    return {str(kind): pl.Series(cells, dtype=kind) for kind, cells in values}


def arrow_columns() -> dict[str, pa.ChunkedArray]:
    numbers = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
    moments = [0, None, -1, 10**9]
    values: dict[str, tuple[pa.DataType, list[Any]]] = {
        **{str(kind): (kind, [1, None, 0, 3]) for kind in numbers},
        "int64": (pa.int64(), [BEYOND_FLOATS, None, 0, 3]),
        "uint64": (pa.uint64(), [2**64 - 1, None, 0, 3]),
        "float32": (pa.float32(), [0.5, None, float("nan"), float("inf")]),
        "float64": (pa.float64(), [0.1, None, float("nan"), -0.0]),
        "bool": (pa.bool_(), [True, None, False, True]),
        **{str(kind): (kind, ["a", None, "", "é"]) for kind in (pa.string(), pa.large_string(), pa.string_view())},
        **{str(kind): (kind, [b"a", None, b"", b"\xff"]) for kind in (pa.large_binary(), pa.binary_view())},
        "binary": (pa.binary(), [b"a", None, b"", b"\xff"]),
        "fixed": (pa.binary(2), [b"ab", None, b"\x00\x00", b"cd"]),
        "decimal128": (pa.decimal128(38, 10), [Decimal("1.5"), None, Decimal(0), Decimal(-1)]),
        "decimal256": (pa.decimal256(60, 2), [Decimal("1.5"), None, Decimal(0), Decimal(-1)]),
        "date32": (pa.date32(), [dt.date(2026, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        "date64": (pa.date64(), [dt.date(2026, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        "time32": (pa.time32("s"), [dt.time(1), None, dt.time(0), dt.time(2)]),
        "time64": (pa.time64("ns"), [dt.time(1), None, dt.time(0), dt.time(2)]),
        **{str(kind): (kind, moments) for kind in map(pa.timestamp, ("s", "ms", "us", "ns"))},
        "timestamp[us, tz=UTC]": (pa.timestamp("us", "UTC"), moments),
        **{str(kind): (kind, moments) for kind in map(pa.duration, ("s", "ms", "us", "ns"))},
        "months": (pa.month_day_nano_interval(), [(1, 2, 3), None, (0, 0, 0), (-1, 0, 1)]),
        "null": (pa.null(), [None] * ROWS),
        "list": (pa.list_(pa.int64()), [[BEYOND_FLOATS, None], None, [], [2]]),
        "large list": (pa.large_list(pa.string()), [["a", None], None, [], ["b"]]),
        "fixed list": (pa.list_(pa.int8(), 2), [[1, 2], None, [3, None], [0, 0]]),
        "struct": (
            pa.struct({"a": pa.int8(), "b": pa.string()}),
            [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {}],
        ),
        "map": (pa.map_(pa.string(), pa.int8()), [[("a", 1)], None, [], [("b", None)]]),
        "uuid": (pa.uuid(), [b"0123456789abcdef", None, b"\x00" * 16, b"\xff" * 16]),
        "json": (pa.json_(), ["1", None, "{}", '"a"']),
    }
    columns = {name: pa.array(cells, kind) for name, (kind, cells) in values.items()}
    text = pa.array(["b", None, "a", "b"])
    columns["float16"] = pa.array(np.array([1, np.nan, -0.0, np.inf], np.float16), mask=np.arange(ROWS) == 1)
    columns["dictionary"] = text.dictionary_encode()
    columns["ordered"] = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0], pa.int8()), ["b", "a"], ordered=True)
    columns["runs"] = pc.run_end_encode(text)
    return {name: pa.chunked_array([column]) for name, column in columns.items()}


PANDAS = pandas_columns()
POLARS = polars_columns()
ARROW = arrow_columns()
NEVER_MISSING = {
    "i1": "Int8",
    "i2": "Int16",
    "i4": "Int32",
    ">i4": "Int32",
    "int64": "Int64",
    "u1": "UInt8",
    "u2": "UInt16",
    "u4": "UInt32",
    "uint64": "UInt64",
    "bool": "boolean",
    "sparse int": "Int64",
    "sparse bool": "boolean",
    "interval of integers": "object",
}
"""Columns of pandas whose type has no mark for a missing value, and the type that they come in where one is missing."""
