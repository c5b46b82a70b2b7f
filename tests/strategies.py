"""Hypothesis strategies: two tables and a spec of a join over them.

Values come from small pools, so that keys meet, ties and duplicates occur, and extremes stand next to each other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
from hypothesis import strategies as st

from juncture.columnar.types import TIME_UNITS, key_kind, plain_type
from juncture.errors import SchemaError
from juncture.spec.asof import Asof, ResolvedAsof
from support.arrays import build_column
from support.tables import write_table

__all__ = ["Example", "examples", "packed_examples"]

INFINITY, NAN = float("inf"), float("nan")
EXACT = Context(prec=100)


@dataclass(frozen=True)
class Example:
    """A join: the spec and its two tables."""

    spec: Asof
    left: pa.Table
    right: pa.Table

    def resolve(self) -> ResolvedAsof:
        return self.spec.resolve(self.left.schema, self.right.schema)

    def __repr__(self) -> str:
        return f"{self.spec.to_dict()}\n{write_table(self.left)}\n\n{write_table(self.right)}\n"


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


UTC_US = pa.timestamp("us", "UTC")

CONDITIONS = [
    "l.low < r.high",
    "r.high <> l.low",
    "l.low = r.high",
    "l.low + 1 = r.high AND r.high <= 2",
    "l.low <=> r.high",
    "l.low = r.high OR r.high IS NULL",
    "r.high > 0",
    "l.low > 0",
    "l.low > 0 AND (r.high - l.low) * 2 > r.high",
    "FALSE",
]
"""Of a left column ``low`` and a right one ``high``."""

# Pairs of a left and a right type. Those of Spark are those that both Arrow and Spark have.
SPARK_ON = [
    (pa.int64(), pa.int64()),
    (pa.int8(), pa.int64()),
    (pa.int32(), pa.int16()),
    (pa.float64(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(10, 2), pa.decimal128(10, 2)),
    (pa.decimal128(38, 0), pa.decimal128(38, 37)),
    (pa.date32(), pa.date32()),
    (pa.timestamp("us"), pa.timestamp("us")),
    (UTC_US, UTC_US),
]
LOCAL_ON = [
    *SPARK_ON,
    (pa.uint64(), pa.int64()),
    (pa.int8(), pa.uint64()),
    (pa.uint64(), pa.uint64()),
    (pa.float16(), pa.float32()),
    (pa.decimal128(10, 1), pa.decimal256(50, 20)),
    (pa.decimal32(5, 2), pa.decimal64(15, 0)),
    (pa.date32(), pa.date64()),
    (pa.timestamp("s"), pa.timestamp("ns")),
    (pa.timestamp("ns"), pa.timestamp("ms")),
    (pa.timestamp("us", "America/New_York"), pa.timestamp("ms", "Asia/Tokyo")),
    (pa.dictionary(pa.int8(), pa.int64()), pa.int64()),
    (pa.timestamp("us"), pa.run_end_encoded(pa.int32(), pa.timestamp("us"))),
    (pa.null(), pa.timestamp("ms")),
    (pa.decimal128(5, 2), pa.null()),
    (pa.null(), pa.null()),
    (pa.decimal128(5, -2), pa.decimal128(5, -2)),
    (pa.decimal32(5, -2), pa.decimal256(20, -5)),
    (pa.decimal128(7, -3), pa.decimal64(15, 2)),
    (pa.float16(), pa.dictionary(pa.uint8(), pa.float16())),
    (pa.run_end_encoded(pa.int16(), pa.decimal64(15, 0)), pa.dictionary(pa.int64(), pa.decimal32(5, 2))),
]
SPARK_BY = [
    (pa.int64(), pa.int64()),
    (pa.string(), pa.string()),
    (pa.int8(), pa.int64()),
    (pa.bool_(), pa.bool_()),
    (pa.date32(), pa.date32()),
    (pa.decimal128(10, 2), pa.decimal128(20, 4)),
    (pa.float64(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.binary(), pa.binary()),
    (pa.timestamp("us"), pa.timestamp("us")),
    (struct(a=pa.int64(), b=pa.string()), struct(a=pa.int64(), b=pa.string())),
    (pa.list_(pa.float64()), pa.list_(pa.float64())),
]
LOCAL_BY = [
    *SPARK_BY,
    (pa.uint64(), pa.int64()),
    (pa.string(), pa.large_string()),
    (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    (pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())),
    (pa.string(), pa.run_end_encoded(pa.int32(), pa.string())),
    (pa.binary(2), pa.large_binary()),
    (pa.date64(), pa.date32()),
    (pa.timestamp("s"), pa.timestamp("ns")),
    (pa.time32("s"), pa.time64("us")),
    (struct(a=pa.int8()), struct(b=pa.int64())),
    (pa.list_(pa.timestamp("s")), pa.list_(pa.timestamp("ns"))),
    (pa.list_(pa.int32()), pa.large_list(pa.int64())),
    (pa.null(), pa.string()),
    (struct(a=pa.int8()), pa.dictionary(pa.int8(), pa.null())),
    (pa.string_view(), pa.dictionary(pa.uint16(), pa.string_view())),
    (pa.run_end_encoded(pa.int16(), pa.binary_view()), pa.binary()),
    (pa.list_(pa.string_view()), pa.list_view(pa.string())),
    (struct(a=pa.string_view()), struct(b=pa.dictionary(pa.int8(), pa.string()))),
    (pa.large_list_view(pa.int8()), pa.list_(pa.int64())),
    (pa.list_(pa.null()), pa.list_(pa.null())),
    (pa.float16(), pa.float64()),
    (pa.decimal32(5, 2), pa.decimal256(20, -5)),
    (pa.dictionary(pa.int8(), pa.decimal128(5, -2)), pa.decimal64(9, -1)),
    (pa.dictionary(pa.int16(), pa.list_(pa.int8())), pa.list_(pa.int8())),
]
# What as-of joins of tables compare besides: numbers of several kinds, and what has an order and is no number.
SPARK_MORE_ON = [
    (pa.int64(), pa.float64()),
    (pa.float32(), pa.int16()),
    (pa.decimal128(10, 2), pa.int32()),
    (pa.float64(), pa.decimal128(10, 2)),
    (pa.string(), pa.string()),
    (pa.binary(), pa.binary()),
    (pa.duration("us"), pa.duration("us")),
]
LOCAL_MORE_ON = [
    *SPARK_MORE_ON,
    (pa.float16(), pa.int64()),
    (pa.uint64(), pa.float64()),
    (pa.dictionary(pa.int8(), pa.int8()), pa.float32()),
    (pa.uint64(), pa.decimal64(15, 2)),
    (pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())),
    (pa.binary(2), pa.large_binary()),
    (pa.duration("s"), pa.duration("ns")),
    (pa.time32("s"), pa.time64("us")),
    (pa.time64("ns"), pa.null()),
]
SPARK_MORE_BY = [
    (pa.int64(), pa.float64()),
    (pa.float32(), pa.int8()),
    (pa.decimal128(10, 2), pa.int64()),
]
LOCAL_MORE_BY = [
    *SPARK_MORE_BY,
    (pa.dictionary(pa.int8(), pa.float64()), pa.int64()),
    (pa.float16(), pa.uint8()),
    (pa.uint64(), pa.decimal32(5, 2)),
    (pa.float64(), pa.decimal128(10, 2)),
]
SPARK_PAYLOAD = [
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.int8(),
    pa.float32(),
    pa.bool_(),
    pa.decimal128(10, 2),
    pa.date32(),
    pa.timestamp("us"),
    UTC_US,
    pa.binary(),
    pa.list_(pa.int64()),
    pa.list_(pa.list_(pa.string())),
    pa.list_(pa.timestamp("us")),
    struct(a=pa.float64(), b=pa.string()),
    pa.map_(pa.string(), pa.int64()),
]
LOCAL_PAYLOAD = [
    *SPARK_PAYLOAD,
    pa.uint64(),
    pa.float16(),
    pa.large_string(),
    pa.string_view(),
    pa.decimal256(50, 3),
    pa.timestamp("ns"),
    pa.timestamp("s"),
    pa.duration("ns"),
    pa.time64("ns"),
    pa.dictionary(pa.int16(), pa.string()),
    pa.dictionary(pa.int8(), pa.float64()),
    pa.dictionary(pa.uint16(), pa.timestamp("ns")),
    pa.run_end_encoded(pa.int32(), pa.int64()),
    pa.binary(2),
    pa.large_list(struct(z=pa.date32())),
    struct(a=pa.timestamp("ns"), b=pa.duration("s")),
    pa.list_(pa.float32(), 2),
    pa.month_day_nano_interval(),
    pa.null(),
    pa.decimal32(5, 2),
    pa.decimal128(5, -2),
    pa.binary_view(),
    pa.dictionary(pa.uint8(), pa.float16()),
    pa.dictionary(pa.int8(), pa.null()),
    pa.dictionary(pa.int64(), pa.list_(pa.string_view())),
    pa.run_end_encoded(pa.int16(), pa.string_view()),
    pa.run_end_encoded(pa.int64(), struct(a=pa.int8())),
    pa.list_(pa.string_view()),
    pa.list_view(pa.timestamp("ns")),
    pa.large_list_view(pa.dictionary(pa.int8(), pa.string())),
    struct(a=pa.string_view(), b=pa.null()),
    pa.map_(pa.string(), pa.string_view()),
]


def pool(data_type: pa.DataType) -> Sequence[Any]:
    """Return the values that a column of a type is made of, as `build` takes them."""
    data_type = plain_type(data_type)
    if pat.is_integer(data_type):
        signed = pat.is_signed_integer(data_type)
        least = -(2 ** (data_type.bit_width - 1)) if signed else 0
        most = least + 2**data_type.bit_width - 1
        return [
            *range(max(least, -4), 5),
            least,
            least + 1,
            most - 1,
            most,
            *(v for v in (127, 128, -129) if least <= v <= most),
        ]
    if pat.is_floating(data_type):
        common = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 2.5, 3.0, NAN, INFINITY, -INFINITY, 0.1]
        extreme = {
            16: [6e-8, 65504.0],
            32: [1e-45, 3.4028234663852886e38, 0.30000001],
            64: [5e-324, 1.7976931348623157e308, 0.3],
        }
        return common + extreme[data_type.bit_width] + [-v for v in extreme[data_type.bit_width]]
    if pat.is_decimal(data_type):
        most = 10**data_type.precision - 1
        one = 10 ** max(data_type.scale, 0)
        near = [v * one for v in range(-2, 3) if abs(v) * one < most]
        steps = [*near, *(v + 1 for v in near), *(v - 1 for v in near), most, most - 1, -most, 1 - most]
        return [Decimal(step).scaleb(-data_type.scale, EXACT) for step in steps]
    if pat.is_date(data_type):
        return [date(1970, 1, 1) + timedelta(days=day) for day in range(-3, 4)] + [
            date.min,
            date.max,
            date(2024, 2, 29),
        ]
    if pat.is_timestamp(data_type) or pat.is_duration(data_type):
        second = 1_000 ** TIME_UNITS.index(data_type.unit)
        near = [second * v for v in range(-2, 4)]
        fine = [] if second == 1 else [v + step for v in near for step in (-1, 1, second // 2)]
        return [*near, *fine, 2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63]
    if pat.is_time64(data_type):
        second = 1_000 ** TIME_UNITS.index(data_type.unit)
        return [0, 43_200 * second, 43_201 * second, 86_399 * second]
    if pat.is_time(data_type):
        return [time(0), time(12), time(12, 0, 1), time(23, 59, 59)]
    if pat.is_interval(data_type):
        return [pa.MonthDayNano([0, 1, 0]), pa.MonthDayNano([0, 0, 5]), pa.MonthDayNano([-1, 1, 1])]
    if pat.is_boolean(data_type):
        return [True, False]
    if pat.is_null(data_type):
        return [None]
    if pat.is_fixed_size_binary(data_type):
        return [b"\x00\x00", b"\x00\x01", b"ab", b"\xff\xff"]
    if pat.is_binary(data_type) or pat.is_large_binary(data_type) or pat.is_binary_view(data_type):
        return [b"", b"\x00", b"\x00\x01", b"ab", b"\xff\xff"]
    if pat.is_map(data_type):
        one, two = (1, 2) if pat.is_integer(data_type.item_type) else ("x", "")
        return [[], [("a", one)], [("a", one), ("b", None)], [("b", None), ("a", one)], [("b", two)]]
    if pat.is_fixed_size_list(data_type):
        return [[0.0, 1.0], [NAN, None], [-0.0, 1.0]]
    if pat.is_struct(data_type):
        pools = [[None, *pool(field.type)[:3], *pool(field.type)[8:10]] for field in data_type]
        names = [field.name for field in data_type]
        return [dict(zip(names, values, strict=False)) for values in zip(*stretched(pools), strict=False)]
    if pat.is_nested(data_type):
        items = [*pool(data_type.value_type), None]
        return [
            [],
            [None],
            list(items[:1]),
            list(items[:2]),
            [items[1], None],
            [items[-2], items[0]],
            list(items[8:11]),
        ]
    return ["", "a", "A", "aa", "b", "é", "😀", "�", "a|b", "null"]


def stretched(pools: list[list[Any]]) -> list[list[Any]]:
    """Repeat each list, from another item on, until all are equally long."""
    length = max(map(len, pools)) + 2
    return [[values[(i + shift) % len(values)] for i in range(length)] for shift, values in enumerate(pools)]


@dataclass
class Layout:
    """A table without its rows: a type for each column, and the values that its cells are chosen from."""

    types: dict[str, pa.DataType]
    pools: dict[str, list[Any]]

    def table(self, choices: Sequence[Sequence[int]]) -> pa.Table:
        """Return the table whose rows choose from the pools."""
        columns = []
        for position, (name, data_type) in enumerate(self.types.items()):
            values = self.pools[name]
            columns.append(build_column([values[row[position] % len(values)] for row in choices], data_type))
        return pa.table(columns, schema=pa.schema(list(self.types.items())))

    def with_ids(self, table: pa.Table, name: str) -> pa.Table:
        return table.append_column(name, pa.array(range(table.num_rows), pa.int64()))


def numbers(count: int, below: int) -> st.SearchStrategy[list[int]]:
    """Return so many numbers below a bound of at most 256.

    They are one draw, of bytes, which takes less time than one draw for each number.
    """
    return st.binary(min_size=count, max_size=count).map(lambda drawn: [byte % below for byte in drawn])


def choices(rows: int, columns: int) -> st.SearchStrategy[list[list[int]]]:
    """Return for each row what its cells choose from the pools."""
    return numbers(rows * columns, 6).map(
        lambda drawn: [drawn[row * columns : (row + 1) * columns] for row in range(rows)]
    )


@st.composite
def examples(
    draw: st.DrawFn, *, spark: bool = False, rows: int = 16, more: bool = False, plain: bool = False
) -> Example:
    """Return a join of two small tables, whose cells a failure shrinks.

    A ``plain`` one compares nothing but columns, as joins of streams and of tables that change do.
    """
    spec, left, right = draw(layouts(spark=spark, more=more, plain=plain))
    tables = [side.table(draw(choices(draw(st.integers(0, rows)), len(side.types)))) for side in (left, right)]
    return Example(spec, *draw(row_ids(left, right, tables)))


@st.composite
def packed_examples(
    draw: st.DrawFn, *, cases: int = 40, rows: int = 8, keyed: bool = True, more: bool = False
) -> Example:
    """Return many small joins of one spec as a single one, told apart by a ``case`` column.

    A Spark job costs about as much for a thousand rows as for ten. Without ``keyed`` there is no ``by`` column at all,
    and so only one case.
    """
    spec, left, right = draw(layouts(spark=True, packed=keyed, more=more))
    chance = random.Random(draw(st.integers(0, 2**32 - 1)))
    tables = []
    for side in (left, right):
        counts = [chance.randint(0, rows) for _ in range(cases)] if keyed else [chance.randint(0, 6 * rows)]
        table = side.table([[chance.randint(0, 5) for _ in side.types] for _ in range(sum(counts))])
        if keyed:
            numbers = [case for case, count in enumerate(counts) for _ in range(count)]
            chance.shuffle(numbers)
            table = table.append_column("case", pa.array(numbers, pa.int64()))
        tables.append(table)
    return Example(spec, *draw(row_ids(left, right, tables)))


@st.composite
def row_ids(draw: st.DrawFn, left: Layout, right: Layout, tables: list[pa.Table]) -> list[pa.Table]:
    """Number the rows of both sides or of none: with numbers no row can pass for another, without them rows repeat."""
    if not draw(st.booleans()):
        return tables
    return [left.with_ids(tables[0], "left_row"), right.with_ids(tables[1], "right_row")]


@st.composite
def layouts(
    draw: st.DrawFn, *, spark: bool, packed: bool | None = None, more: bool = False, plain: bool = False
) -> tuple[Asof, Layout, Layout]:
    """Return a spec and the columns of both sides.

    ``packed`` adds ``case`` to the ``by`` columns, or leaves all of them out where it is False.
    """
    every_on, every_by = (SPARK_ON, SPARK_BY) if spark else (LOCAL_ON, LOCAL_BY)
    if more:
        every_on = every_on + (SPARK_MORE_ON if spark else LOCAL_MORE_ON)
        every_by = every_by + (SPARK_MORE_BY if spark else LOCAL_MORE_BY)
    on_types = [draw(st.sampled_from(every_on)) for _ in range(draw(st.sampled_from([1, 1, 2, 3])) if more else 1)]
    how_many = 0 if packed is False else draw(st.sampled_from([0, 0, 1, 1, 1, 1, 2, 3]))
    by_types = [draw(st.sampled_from(every_by)) for _ in range(how_many)]
    same_on, same_by = draw(st.booleans()), draw(st.booleans())
    on = [("ts", "ts" if same_on else "time"), *((f"ts{i}", f"ts{i}" if same_on else f"time{i}") for i in (1, 2))]
    on = on[: len(on_types)]
    by = [(f"k{i}", f"k{i}" if same_by else f"id{i}") for i in range(how_many)]
    left, right = Layout({}, {}), Layout({}, {})
    for names, types in zip(on, on_types, strict=True):
        for side, name, data_type in zip((left, right), names, types, strict=True):
            side.types[name] = data_type
            side.pools[name] = draw(pools(data_type, 5 if len(on) == 1 else 3))
    for names, types in zip(by, by_types, strict=True):
        shared = draw(st.lists(st.sampled_from(common(*types)), min_size=1, max_size=3))
        for position, side in enumerate((left, right)):
            extra = draw(pools(types[position], 1))
            side.types[names[position]] = types[position]
            side.pools[names[position]] = [pair[position] for pair in shared] + extra
    payload = SPARK_PAYLOAD if spark else LOCAL_PAYLOAD
    for side, prefix in ((left, "a"), (right, "b")):
        for i in range(draw(st.integers(0, 2 if side is left else 3))):
            name = draw(st.sampled_from([f"{prefix}{i}", f"v{i}"]))
            side.types[name] = draw(st.sampled_from(payload))
            side.pools[name] = draw(pools(side.types[name], 4))
    arguments = draw(spec_arguments(on_types, left, right))
    if draw(st.integers(0, 3)) == 0:
        arguments["available_at"] = draw(available_at(on_types, left, right, spark=spark))
    if draw(st.integers(0, 2)) == 0:
        left.types["low"], right.types["high"] = pa.int64(), pa.int32()
        for side, name in ((left, "low"), (right, "high")):
            side.pools[name] = draw(pools(pa.int32(), 4))
        arguments["where"] = draw(st.sampled_from(CONDITIONS))
    # Of many cases in one, some would have to fail.
    ties = ["greatest"] * (1 if packed else 5) + ["error"] * (not packed)
    # Spark has no order of its own.
    ties += ["first", "last"] if arguments["order_by"] or not spark else []
    arguments["ties"] = draw(st.sampled_from(ties))
    lefts, rights = (list(names) if len(on) > 1 else names[0] for names in zip(*on, strict=True))
    arguments |= {"on": lefts} if same_on else {"left_on": lefts, "right_on": rights}
    keys = [*by, *([("case", "case")] if packed else [])]
    arguments |= (
        {"by": [ours for ours, _ in keys]}
        if same_by
        else {"left_by": [o for o, _ in keys], "right_by": [t for _, t in keys]}
    )
    for side in (left, right):
        side.types = {name: side.types[name] for name in draw(st.permutations(list(side.types)))}
    spec = Asof(**arguments)
    try:
        case = [("case", pa.int64())] if packed else []
        join = spec.resolve(*(pa.schema([*side.types.items(), *case]) for side in (left, right)))
    except SchemaError:
        join = None
    if join is None or (plain and join.is_computed):
        # The column that right rows without a match would fill is of another type.
        spec = Asof(**(arguments | {"how": "left"}))
    return spec, left, right


@st.composite
def pools(draw: st.DrawFn, data_type: pa.DataType, size: int) -> list[Any]:
    """Return some of a type's values, with or without null among them."""
    values = draw(st.lists(st.sampled_from(pool(data_type)), min_size=1, max_size=size))
    return [*values, None] if draw(st.integers(0, 3)) == 0 else values


def common(left: pa.DataType, right: pa.DataType) -> list[tuple[Any, Any]]:
    """Return pairs of values of two types, most of them equal."""
    ours, theirs = pool(left), pool(right)
    if isinstance(ours[0], int | bytes) and not pat.is_timestamp(plain_type(left)):
        return [(value, value) for value in ours if value in theirs]
    return list(zip(ours, theirs, strict=False))


@st.composite
def spec_arguments(
    draw: st.DrawFn, on_types: Sequence[tuple[pa.DataType, pa.DataType]], left: Layout, right: Layout
) -> dict[str, Any]:
    """Return the arguments of a spec other than its columns."""
    arguments: dict[str, Any] = {
        "direction": draw(st.sampled_from(["backward", "forward", "nearest"])),
        "how": draw(st.sampled_from(["left", "left", "inner", "right", "full", "semi", "anti"])),
        "allow_exact_matches": draw(st.sampled_from([True, True, False])),
        "matches": draw(st.sampled_from([1, 1, 1, 2, 3])),
        "coalesce": draw(st.booleans()),
        "order_by": draw(st.lists(st.sampled_from(list(right.types)), unique=True, max_size=2)),
    }
    kind = kind_of(on_types[0])
    is_ranked = key_kind(kind) in ("string", "binary") or len(on_types) > 1
    if is_ranked and arguments["direction"] == "nearest":
        arguments["direction"] = "backward"
    if arguments["direction"] == "nearest":
        arguments["prefer"] = draw(st.sampled_from(["earlier", "later"]))
    if draw(st.integers(0, 3)) == 0:
        arguments["nulls_equal"] = True
    measure = draw(st.sampled_from(["none", "none", "none", "constant", "column"]))
    if is_ranked:
        return arguments
    if measure == "constant":
        arguments["tolerance"] = draw(tolerances(kind))
    elif measure == "column":
        data_type = draw(st.sampled_from(tolerance_types(kind)))
        arguments["tolerance"] = "limit"
        left.types["limit"] = data_type
        left.pools["limit"] = draw(pools(data_type, 4))
    return arguments


@st.composite
def available_at(
    draw: st.DrawFn, on_types: Sequence[tuple[pa.DataType, pa.DataType]], left: Layout, right: Layout, *, spark: bool
) -> list[str]:
    """Add the right column of availability, and the left column that it is compared with unless that is ``on``."""
    is_on = len(on_types) == 1 and draw(st.booleans())
    types = on_types[0] if is_on else draw(st.sampled_from(SPARK_ON if spark else LOCAL_ON))
    names = ["ingested"] if is_on else ["ingested", "seen"]
    for side, name, data_type in zip((right, left), names, reversed(types), strict=False):
        side.types[name] = data_type
        side.pools[name] = draw(pools(data_type, 5))
    return names


def kind_of(on_types: tuple[pa.DataType, pa.DataType]) -> pa.DataType:
    """Return the type that tells what distances are: integers where neither side has one, floats where one has."""
    kinds = [kind for each in on_types if not pat.is_null(kind := plain_type(each))]
    for test in (pat.is_floating, pat.is_decimal):
        kinds = [kind for kind in kinds if test(kind)] or kinds
    return kinds[0] if kinds else pa.int64()


def tolerances(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Return distances between values of a type."""
    if pat.is_timestamp(kind) or pat.is_duration(kind) or pat.is_time(kind):
        return st.sampled_from(["0s", "1ns", "1us", "500ms", "1s", "2s", "100000000000d"])
    if pat.is_date(kind):
        return st.sampled_from(["0s", "36h", "2d", timedelta(days=1), "100000000000d"])
    if pat.is_floating(kind):
        return st.sampled_from([0, 0.5, 1, 2.5, 5e-324, 1e308, INFINITY])
    if pat.is_decimal(kind):
        return st.sampled_from([0, 1, Decimal("0.01"), 0.3, 10**30, Decimal("1e-30")])
    return st.sampled_from([0, 1, 2, 5.5, 2**63 - 1, 2**63, 2**64, 10**30])


def tolerance_types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types of a column of distances between values of a type."""
    if pat.is_temporal(kind):
        return [pa.duration("us")]
    if pat.is_floating(kind):
        return [pa.float64(), pa.float32(), pa.int64()]
    if pat.is_decimal(kind):
        return [pa.decimal128(10, 2), pa.decimal128(20, 4), pa.int64()]
    return [pa.int64(), pa.int8()]
