"""Hypothesis strategies: two tables and a spec of an as-of join over them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
from hypothesis import strategies as st

from juncture.columnar.types import key_kind, plain_type
from juncture.errors import SchemaError
from juncture.spec.asof import Asof, ResolvedAsof
from support.arrays import build_column
from support.column_types import (
    LOCAL_BY,
    LOCAL_MORE_BY,
    LOCAL_MORE_ON,
    LOCAL_ON,
    LOCAL_PAYLOAD,
    SPARK_BY,
    SPARK_MORE_BY,
    SPARK_MORE_ON,
    SPARK_ON,
    SPARK_PAYLOAD,
)
from support.tables import write_table
from support.value_pools import INFINITY, pool

__all__ = ["Example", "examples", "packed_examples"]

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
