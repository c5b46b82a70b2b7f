"""Hypothesis strategies: two tables and a spec of a range, overlap, predicate or equality join over them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
import pytest
from hypothesis import reject
from hypothesis import strategies as st

from juncture.columnar.types import plain_type
from juncture.errors import DataError, SchemaError, SpecError
from juncture.spec.compared import can_be_key
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.resolved import Resolved
from juncture.spec.where import Where
from juncture.testing.rows import on_values
from strategies import (
    LOCAL_BY,
    LOCAL_ON,
    LOCAL_PAYLOAD,
    SPARK_BY,
    SPARK_ON,
    SPARK_PAYLOAD,
    Layout,
    choices,
    common,
    kind_of,
    pools,
)
from support.kinds import Spec, defined_rows
from support.tables import write_table

__all__ = ["NearExample", "near_examples", "packed_near_examples"]

HOWS = [None, "inner", "left", "right", "full", "semi", "anti"]
CLOSED = ["both", "left", "right", "none"]


@dataclass(frozen=True)
class NearExample:
    """A join: the spec and its two tables."""

    spec: Spec
    left: pa.Table
    right: pa.Table

    def resolve(self) -> Resolved:
        return self.spec.resolve(self.left.schema, self.right.schema)

    def defined_rows(self) -> pa.Table:
        return defined_rows(self.spec, self.left, self.right)

    def defined_unless_refused(self, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """Return the rows that the definition gives, or None if it refuses them, as the batches then have to."""
        try:
            return self.defined_rows()
        except DataError as error:
            with pytest.raises(DataError, match=error.name):
                list(batches)
            return None

    def __repr__(self) -> str:
        return f"{self.spec.to_dict()}\n{write_table(self.left)}\n\n{write_table(self.right)}\n"


@st.composite
def near_examples(
    draw: st.DrawFn, kind: str, *, agg: bool = False, spark: bool = False, plain: bool = False, rows: int = 16
) -> NearExample:
    """Return a join of two small tables, whose cells a failure shrinks.

    A ``plain`` one compares nothing but columns, as joins of streams and of tables that change do.
    """
    spec, *sides = draw(near_layouts(kind, agg=agg, spark=spark, plain=plain))
    tables = [
        table_of(spec, side, position, draw(choices(draw(st.integers(0, rows)), len(side.types))))
        for position, side in enumerate(sides)
    ]
    return NearExample(spec, *tables)


@st.composite
def packed_near_examples(
    draw: st.DrawFn, kind: str, *, agg: bool = False, cases: int = 40, rows: int = 8, keyed: bool = True
) -> NearExample:
    """Return many small joins of one spec as a single one, told apart by a ``case`` column.

    A Spark job costs about as much for a thousand rows as for ten. Without ``keyed`` there is no ``by`` column at all,
    and so only one case.
    """
    spec, *sides = draw(near_layouts(kind, agg=agg, spark=True, packed=keyed))
    chance = random.Random(draw(st.integers(0, 2**32 - 1)))
    tables = []
    for position, side in enumerate(sides):
        count = chance.randint(0, cases * rows if keyed else 6 * rows)
        chosen = [[chance.randint(0, 5) for _ in side.types] for _ in range(count)]
        table = table_of(spec, side, position, chosen)
        if keyed:
            numbers = [chance.randrange(cases) for _ in range(table.num_rows)]
            table = table.append_column("case", pa.array(numbers, pa.int64()))
        tables.append(table)
    return NearExample(spec, *tables)


def table_of(spec: Spec, side: Layout, position: int, chosen: list[list[int]]) -> pa.Table:
    """Return a table without intervals that start after their end: those are refused, which other tests look at."""
    table = side.table(chosen)
    start, end = (spec.left_interval, spec.right_interval)[position] if isinstance(spec, Overlap) else (None, None)
    if start is None or end is None:
        return table
    ends = zip(on_values(table[start]), on_values(table[end]), strict=True)
    kept = [row for row, (one, other) in zip(chosen, ends, strict=True) if None in (one, other) or one <= other]
    return side.table(kept)


@st.composite
def near_layouts(
    draw: st.DrawFn, kind: str, *, agg: bool, spark: bool, plain: bool = False, packed: bool | None = None
) -> tuple[Spec, Layout, Layout]:
    """Return a spec and the columns of both sides.

    ``packed`` adds ``case`` to the ``by`` columns, or leaves all of them out where it is False.
    """
    left, right = Layout({}, {}), Layout({}, {})
    if kind == "equi":
        spec_type, arguments = draw(equi_arguments(left, right, spark=spark, packed=packed))
    else:
        make = {"range": range_arguments, "overlap": overlap_arguments, "where": where_arguments}[kind]
        spec_type, arguments = draw(make(left, right, spark=spark))
        arguments |= draw(by_arguments(left, right, spark=spark, packed=packed))
    payload = SPARK_PAYLOAD if spark else LOCAL_PAYLOAD
    for side, prefix in ((left, "a"), (right, "b")):
        for i in range(draw(st.integers(0, 2))):
            add(draw, side, draw(st.sampled_from([f"{prefix}{i}", f"v{i}"])), draw(st.sampled_from(payload)), 4)
    arguments["how"] = draw(st.sampled_from(HOWS[1:] if kind == "equi" else HOWS))
    if agg:
        arguments["agg"] = draw(aggregates(right))
        if kind == "range" and draw(st.booleans()):
            arguments |= draw(windows_of(arguments, spec_type, [left, right]))
        arguments["how"] = draw(st.sampled_from([None, "left", "inner"]))
    for side in (left, right):
        side.types = {name: side.types[name] for name in draw(st.permutations(list(side.types)))}
    case = [("case", pa.int64())] if packed else []
    schemas = [pa.schema([*side.types.items(), *case]) for side in (left, right)]
    turned = arguments | {"lower": arguments.get("upper"), "upper": arguments.get("lower")}
    for attempt in (arguments, turned) if spec_type is Range else (arguments,):
        # A window may start after its end; and right rows without a match may have no place in columns of another type.
        for how in (attempt["how"], "inner"):
            try:
                spec = spec_type(**(attempt | {"how": how}))
                join = spec.resolve(*schemas)
            except (SpecError, SchemaError):
                continue
            if not (plain and join.is_computed):
                return spec, left, right
    if plain:
        reject()
    raise AssertionError(f"{arguments} suit no join")


def add(draw: st.DrawFn, side: Layout, name: str, data_type: pa.DataType, size: int) -> None:
    """Add a column of some of a type's values."""
    side.types[name] = data_type
    side.pools[name] = draw(pools(data_type, size))


@st.composite
def by_arguments(
    draw: st.DrawFn, left: Layout, right: Layout, *, spark: bool, packed: bool | None, least: int = 0
) -> dict[str, Any]:
    how_many = 0 if packed is False else max(least, draw(st.sampled_from([0, 0, 1, 1, 1, 2])))
    names = []
    for i in range(how_many):
        types = draw(st.sampled_from(SPARK_BY if spark else LOCAL_BY))
        shared = draw(st.lists(st.sampled_from(common(*types)), min_size=1, max_size=3))
        names.append((f"k{i}", f"id{i}"))
        for position, side in enumerate((left, right)):
            side.types[names[i][position]] = types[position]
            side.pools[names[i][position]] = [pair[position] for pair in shared] + draw(pools(types[position], 1))
    names += [("case", "case")] if packed else []
    return {"left_by": [ours for ours, _ in names], "right_by": [theirs for _, theirs in names]} if names else {}


@st.composite
def range_arguments(draw: st.DrawFn, left: Layout, right: Layout, *, spark: bool) -> tuple[type, dict[str, Any]]:
    types = draw(st.sampled_from(SPARK_ON if spark else LOCAL_ON))
    add(draw, left, "ts", types[0], 5)
    add(draw, right, "time", types[1], 5)
    arguments: dict[str, Any] = {"left_on": "ts", "right_on": "time", "closed": draw(st.sampled_from(CLOSED))}
    kind = kind_of(types)
    open_side = draw(st.sampled_from([None, None, None, "lower", "upper"]))
    for argument in ("lower", "upper"):
        if argument == open_side:
            continue
        if draw(st.booleans()):
            arguments[argument] = draw(offsets(kind))
        else:
            arguments[argument] = f"{argument}_end"
            add(draw, left, f"{argument}_end", draw(st.sampled_from(offset_types(kind, spark))), 4)
    return Range, arguments


def offsets(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Return distances between values of a type, in either direction."""
    if pat.is_timestamp(kind):
        sizes = ["0s", "1ns", "1us", "500ms", "1s", "1500ms", "2s", "100000000000d"]
        return st.sampled_from([0, *sizes, *(f"-{size}" for size in sizes)])
    if pat.is_date(kind):
        return st.sampled_from([0, "0s", "36h", "-36h", "2d", "-2d", "-1ns", "100000000000d", "-100000000000d"])
    numbers: list[Any] = [0, 1, 2, 0.5, 2.5, 1e300]
    if pat.is_decimal(kind):
        numbers = [0, 1, Decimal("0.01"), 0.3, 10**30, Decimal("1e-30")]
    if pat.is_integer(kind):
        numbers = [0, 1, 2, 5.5, 2**63 - 1, 2**63, 2**64, 10**30]
    return st.sampled_from([*numbers, *(-number for number in numbers)])


def offset_types(kind: pa.DataType, spark: bool) -> list[pa.DataType]:
    """Return the types of a column of distances between values of a type."""
    if pat.is_timestamp(kind) or pat.is_date(kind):
        return [pa.duration("us")] if spark else [pa.duration("us"), pa.duration("ns"), pa.duration("s")]
    if pat.is_floating(kind):
        return [pa.float64(), pa.float32(), pa.int64()]
    if pat.is_decimal(kind):
        return [pa.decimal128(10, 2), pa.decimal128(20, 4), pa.int64()]
    return [pa.int64(), pa.int8()] if spark else [pa.int64(), pa.int8(), pa.uint64()]


@st.composite
def overlap_arguments(draw: st.DrawFn, left: Layout, right: Layout, *, spark: bool) -> tuple[type, dict[str, Any]]:
    types = draw(st.sampled_from(SPARK_ON if spark else LOCAL_ON))
    intervals = []
    for side, names, data_type in ((left, ("start", "end"), types[0]), (right, ("begin", "finish"), types[1])):
        open_side = draw(st.sampled_from([None, None, None, None, 0, 1]))
        intervals.append(tuple(None if i == open_side else name for i, name in enumerate(names)))
        for name in intervals[-1]:
            if name is not None:
                add(draw, side, name, data_type, 5)
    arguments = {"left_interval": intervals[0], "right_interval": intervals[1]}
    return Overlap, arguments | {"closed": draw(st.sampled_from(CLOSED))}


CONDITIONS = {
    "integer": [
        "l.x < r.y",
        "l.x >= r.y - 2",
        "l.x + l.u > r.y - 3",
        "abs(l.x - r.y) <= 1",
        "l.x BETWEEN r.y AND r.w",
        "l.x < r.w AND r.y < l.u",
        "l.x = r.y",
        "l.x + 1 = r.y",
        "l.x <=> r.y",
        "l.x <> r.y",
        "l.u > r.w",
        "l.x * r.y > 2",
        "l.x IN (0, 1, 2) OR r.y > l.u",
        "NOT (l.x <= r.y)",
        "l.x IS NULL",
        "r.w > 0",
        "least(l.x, r.y) = greatest(l.u, r.w)",
    ],
    "float": [
        "l.x < r.y",
        "l.x - r.y <= 0.5",
        "l.x - r.y >= -1",
        "l.x = r.y",
        "l.x BETWEEN r.y AND r.w",
        "l.x <= r.w AND r.y <= l.u",
        "l.x * 2 > r.y",
        "l.x <> r.y",
        "r.w IS NOT NULL",
    ],
    "timestamp": [
        "l.x > r.y - INTERVAL 1 SECOND",
        "l.x <= r.y",
        "l.x - r.y < INTERVAL 2 SECONDS",
        "l.x BETWEEN r.y AND r.w",
        "l.x < r.w AND r.y < l.u",
        "l.x = r.y",
        "l.x <=> r.y",
    ],
    "decimal": [
        "l.x <=> r.y",
        "l.x = r.y",
        "l.x + l.u >= r.y - 1",
        "l.x BETWEEN r.y AND r.w",
        "l.u <> r.w",
        "l.x IN (0, 1.00, 2.5, NULL) OR r.y > l.u",
        "l.x NOT IN (1, 3) AND r.y <= r.w",
    ],
    "text": [
        "l.x <=> r.y",
        "l.x = r.y",
        "l.x < r.y",
        "l.u <> r.w",
        "l.x IN ('a', 'b', NULL) OR r.w <= l.u",
        "l.x = r.y OR l.u IS NULL",
    ],
}
CONDITION_TYPES = {
    "integer": [pa.int64(), pa.int32(), pa.int8()],
    "float": [pa.float64(), pa.float32()],
    "timestamp": [pa.timestamp("us")],
    "decimal": [pa.decimal128(10, 2), pa.decimal128(38, 9), pa.decimal128(20, 4), pa.int64()],
    "text": [pa.string()],
}
LOCAL_CONDITION_TYPES = CONDITION_TYPES | {
    "integer": [*CONDITION_TYPES["integer"], pa.uint64(), pa.run_end_encoded(pa.int32(), pa.int32()), pa.null()],
    "text": [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.null(),
    ],
}


@st.composite
def where_arguments(draw: st.DrawFn, left: Layout, right: Layout, *, spark: bool) -> tuple[type, dict[str, Any]]:
    kind = draw(st.sampled_from(["integer", *CONDITIONS]))
    types = (CONDITION_TYPES if spark else LOCAL_CONDITION_TYPES)[kind]
    for side, names in ((left, "xu"), (right, "yw")):
        for name in names:
            add(draw, side, name, draw(st.sampled_from(types)), 5)
    parts = draw(st.lists(st.sampled_from(CONDITIONS[kind]), min_size=1, max_size=3, unique=True))
    connective = draw(st.sampled_from([" AND ", " AND ", " AND ", " OR "]))
    return Where, {"predicate": connective.join(f"({part})" for part in parts), "allow_cross": True}


@st.composite
def equi_arguments(
    draw: st.DrawFn, left: Layout, right: Layout, *, spark: bool, packed: bool | None
) -> tuple[type, dict[str, Any]]:
    by = draw(by_arguments(left, right, spark=spark, packed=packed, least=1))
    arguments: dict[str, Any] = {"left_on": by["left_by"], "right_on": by["right_by"]}
    arguments |= {"nulls_equal": draw(st.booleans()), "coalesce": draw(st.booleans())}
    if draw(st.booleans()):
        arguments["where"] = draw(where_arguments(left, right, spark=spark))[1]["predicate"]
    return Equi, arguments


@st.composite
def windows_of(draw: st.DrawFn, arguments: dict[str, Any], spec_type: type, sides: list[Layout]) -> dict[str, Any]:
    """Return several windows in place of one, if its ends are constants."""
    constants = [arguments.get(side) for side in ("lower", "upper")]
    left = sides[0].types
    if any(isinstance(each, str) and each in left for each in constants):
        return {}
    kind = kind_of((left["ts"], sides[1].types["time"]))
    pairs = [tuple(constants), (draw(offsets(kind)), None) if constants[1] is None else (None, draw(offsets(kind)))]
    pairs += [(draw(offsets(kind)), draw(offsets(kind))) for _ in range(draw(st.integers(0, 2)))]
    named = {}
    for number, (lower, upper) in enumerate(pairs):
        for pair in ((lower, upper), (upper, lower)):
            given = {"lower": pair[0], "upper": pair[1], "windows": None}
            try:
                spec_type(**(arguments | given)).resolve(*(pa.schema(list(side.types.items())) for side in sides))
            except (SpecError, SchemaError):
                continue
            named[f"w{number}"] = pair
            break
    several = {"windows": named, "lower": None, "upper": None}
    try:
        spec_type(**(arguments | several)).resolve(*(pa.schema(list(side.types.items())) for side in sides))
    except (SpecError, SchemaError):
        return {}
    return several


@st.composite
def aggregates(draw: st.DrawFn, right: Layout) -> dict[str, list[str]]:
    """Return aggregates of some right columns.

    Sums of extreme integers do not fit, and those of floats are rounded, so both are compared on their own.
    """
    agg: dict[str, list[Any]] = {}
    ordered = [name for name, data_type in right.types.items() if has_least(plain_type(data_type))]
    for name, data_type in right.types.items():
        functions: list[Any] = ["count", "first", "last", "list"]
        functions += ["min", "max"] if name in ordered else []
        functions += ["count_distinct"] if can_be_key(data_type) else []
        functions += ["any", "all"] if pat.is_boolean(plain_type(data_type)) else []
        functions += [(function, other) for function in ("arg_min", "arg_max") for other in ordered]
        if draw(st.booleans()):
            agg[name] = draw(st.lists(st.sampled_from(functions), min_size=1, max_size=3, unique=True))
    return agg | {"*": ["count"]}


def has_least(data_type: pa.DataType) -> bool:
    """Tell whether values of a type have a least one."""
    is_number = pat.is_integer(data_type) or pat.is_floating(data_type)
    is_time = pat.is_temporal(data_type) and not pat.is_time(data_type) and not pat.is_interval(data_type)
    return is_number or is_time
