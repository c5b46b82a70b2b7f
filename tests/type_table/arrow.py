"""The types of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from support.arrays import build
from type_table.column_types import ColumnType
from type_table.in_process import InProcess
from type_table.roles import keeps_type

__all__ = ["ARROW", "ARROW_NESTED"]


def arrow_type(data_type: pa.DataType, values: Sequence[Any], name: str | None = None) -> ColumnType:
    """Return a type with values as `support.arrays.build` takes them."""
    return ColumnType(name or str(data_type), values, partial(chunks, data_type))


def chunks(data_type: pa.DataType, values: Sequence[Any]) -> pa.ChunkedArray:
    """Return a column in two chunks, whose dictionaries and runs differ."""
    half = len(values) // 2
    return pa.chunked_array([build(values[:half], data_type), build(values[half:], data_type, turned=True)])


def difference(actual: pa.Table, expected: pa.Table) -> str | None:
    names = [name for name in expected.column_names if keeps_type(name)]
    types = [table.select(names).schema for table in (actual, expected)]
    if types[0] != types[1]:
        return f"columns\n{types[0]}\nand not\n{types[1]}"
    actual.validate(full=True)
    rows = [table.to_pydict() for table in (actual, expected)]
    return None if rows[0] == rows[1] else f"{rows[0]}, and not {rows[1]}"


WHOLE = (0, 1, 2, 100)
SIGNED = (-100, -1, 0, 100)
REAL = (-1.5, 0.0, 0.5, 1000.0)
EXACT = tuple(map(Decimal, ("-1.50", "0.00", "0.25", "100.00")))
HUNDREDS = tuple(map(Decimal, ("-2E2", "0E2", "1E2", "50E2")))
DAYS = (date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31))
SECONDS = (0, 1, 43_200, 86_399)
STEPS = (-1, 0, 1, 2**32)
TEXT = ("", "a", "b", "é")
BYTES = (b"", b"\x00", b"\x00\x01", b"\xff")
WIDE = (b"\x00\x00", b"\x00\x01", b"ab", b"\xff\xff")
PARTS = tuple(pa.MonthDayNano(parts) for parts in ([0, 0, 5], [0, 1, 0], [1, 0, 0], [2, 0, 0]))
LISTS = ([], [None], [1], [1, 2])
PAIRS = ([0, 5], [1, None], [1, 2], [3, 0])
MAPS = ([], [("a", 1)], [("a", 1), ("b", None)], [("b", 0)])
RECORDS = tuple({"a": a, "b": b} for a, b in ((None, "z"), (1, None), (1, "a"), (2, "")))
UUIDS = (bytes(16), bytes(15) + b"\x01", b"\x01" + bytes(15), b"\xff" * 16)
UNION = (pa.field("number", pa.int64()), pa.field("text", pa.string()))
MODES = ("sparse", "dense")
UNITED = ((0, 0), (0, 1), (1, ""), (1, "a"))

ENCODED = (
    (pa.int64(), SIGNED),
    (pa.float64(), REAL),
    (pa.decimal128(10, 2), EXACT),
    (pa.date32(), DAYS),
    (pa.timestamp("us"), STEPS),
    (pa.bool_(), (False, True)),
    (pa.string(), TEXT),
    (pa.binary(), BYTES),
)

PLAIN = (
    arrow_type(pa.null(), ()),
    arrow_type(pa.bool_(), (False, True)),
    *(arrow_type(each, SIGNED) for each in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(arrow_type(each, WHOLE) for each in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    arrow_type(pa.float16(), REAL),
    *(arrow_type(each, REAL) for each in (pa.float32(), pa.float64())),
    *(arrow_type(each(5, 2), EXACT) for each in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)),
    *(arrow_type(each(5, -2), HUNDREDS) for each in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)),
    arrow_type(pa.decimal128(38, 37), tuple(map(Decimal, ("-9.5", "0", "1E-37", "9.5")))),
    arrow_type(pa.decimal256(76, 10), tuple(map(Decimal, ("-1E60", "0", "1E-10", "1E60")))),
    arrow_type(pa.date32(), DAYS),
    arrow_type(pa.date64(), DAYS),
    *(arrow_type(pa.timestamp(unit), STEPS) for unit in ("s", "ms", "us", "ns")),
    *(arrow_type(pa.timestamp(unit, "Europe/Rome"), STEPS) for unit in ("s", "ms", "us", "ns")),
    arrow_type(pa.time32("s"), SECONDS),
    arrow_type(pa.time32("ms"), [second * 10**3 for second in SECONDS]),
    arrow_type(pa.time64("us"), [second * 10**6 for second in SECONDS]),
    arrow_type(pa.time64("ns"), [second * 10**9 for second in SECONDS]),
    *(arrow_type(pa.duration(unit), STEPS) for unit in ("s", "ms", "us", "ns")),
    arrow_type(pa.month_day_nano_interval(), PARTS),
    *(arrow_type(each, TEXT) for each in (pa.string(), pa.large_string(), pa.string_view())),
    *(arrow_type(each, BYTES) for each in (pa.binary(), pa.large_binary(), pa.binary_view())),
    arrow_type(pa.binary(2), WIDE),
)

NESTED = (
    *(arrow_type(pa.dictionary(pa.int8(), each), values) for each, values in ENCODED),
    arrow_type(pa.dictionary(pa.uint32(), pa.string_view()), TEXT),
    arrow_type(pa.dictionary(pa.int32(), pa.float16()), REAL),
    arrow_type(pa.dictionary(pa.int32(), pa.list_(pa.int64())), LISTS),
    arrow_type(pa.dictionary(pa.int32(), pa.string(), ordered=True), TEXT),
    *(arrow_type(pa.run_end_encoded(pa.int32(), each), values) for each, values in ENCODED),
    *(arrow_type(make(pa.int64()), LISTS) for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
    arrow_type(pa.list_(pa.int64(), 2), PAIRS),
    arrow_type(pa.list_(pa.string_view()), ([], [None], ["a"], ["a", "b"])),
    arrow_type(pa.list_(pa.timestamp("ns")), LISTS),
    arrow_type(pa.list_(pa.null()), ([], [None], [None, None])),
    arrow_type(pa.struct({"a": pa.int64(), "b": pa.string()}), RECORDS),
    arrow_type(pa.struct([pa.field("a", pa.int64(), nullable=False)]), tuple({"a": a} for a in WHOLE)),
    arrow_type(pa.struct({"a": pa.list_view(pa.int64())}), tuple({"a": a} for a in LISTS)),
    arrow_type(pa.map_(pa.string(), pa.int64()), MAPS),
    # Null is a value of one of their types.
    *(replace(arrow_type(pa.union(UNION, each), UNITED, f"{each} union"), is_nullable=False) for each in MODES),
    arrow_type(pa.uuid(), UUIDS),
    arrow_type(pa.json_(), ('"a"', "[]", "null", "{}")),
    arrow_type(pa.bool8(), (0, 1)),
    arrow_type(pa.opaque(pa.int64(), "kind", "vendor"), SIGNED, "opaque of int64"),
    arrow_type(pa.fixed_shape_tensor(pa.int64(), [2]), ([0, 5], [1, 1], [1, 2], [3, 0])),
)

ALGORITHMS = {
    "asof": ("probe", "merge"),
    "range": ("binary_search",),
    "overlap": ("interval_tree",),
    "where": ("auto", "nested_loop"),
    "equi": ("hash", "external_sort_merge"),
}


def library(name: str, types: Sequence[ColumnType]) -> InProcess:
    numbers = arrow_type(pa.int64(), range(1_000))
    return InProcess(name, types, numbers, table=pa.table, difference=difference, algorithms=ALGORITHMS)


ARROW = library("Arrow", PLAIN)
ARROW_NESTED = library("Arrow, encoded and nested", NESTED)
