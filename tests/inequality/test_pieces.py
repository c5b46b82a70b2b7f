"""Joins by inequalities give the rows of the reference, cut into pieces as large ones are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juncture.errors import DataError, PlanError
from juncture.runtime.threads import SIZES
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where
from strategies import numbers
from support.engines import join_in_process
from support.kinds import defined_rows
from support.small import SMALL
from support.tables import difference, write_table

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
GREATEST = 2**63 - 1
NOON = datetime(2024, 2, 29, 12)


@dataclass(frozen=True)
class Kind:
    """Types of the two sides, values of the line, and distances on it."""

    left: pa.DataType
    right: pa.DataType
    values: tuple
    distances: tuple
    column: pa.DataType


WHOLE = (0, 1, 2, 3, 4, 5, 6, 8)
KINDS = [
    Kind(pa.int64(), pa.int64(), (*WHOLE, -GREATEST - 1, GREATEST, GREATEST - 2), (-2, 0, 1, GREATEST), pa.int64()),
    Kind(pa.uint64(), pa.uint64(), (*WHOLE, 2**64 - 1, 2**64 - 3, GREATEST), (-2, 0, 1, GREATEST), pa.int64()),
    Kind(pa.uint64(), pa.int64(), WHOLE, (-2, 0, 1, 2**64 - 1), pa.int16()),
    Kind(pa.int8(), pa.uint64(), WHOLE, (-3, 0, 2), pa.uint64()),
    Kind(
        pa.float64(), pa.float32(), (0.0, -0.0, 1.0, 2.5, 3.0, math.inf, -math.inf, math.nan, 1e20),
        (-1.5, 0.0, 2.0, math.inf, -math.inf), pa.float64(),
    ),
    Kind(
        pa.decimal128(38, 0), pa.decimal128(38, 20), (Decimal(0), Decimal(1), Decimal(2), Decimal(10) ** 17),
        (Decimal(-1), Decimal(0), Decimal("1.5")), pa.decimal128(10, 1),
    ),
    Kind(
        pa.decimal128(38, 0), pa.decimal128(5, 2), (Decimal(0), Decimal(1), Decimal(2), Decimal(3)),
        (Decimal(-1), Decimal(0), Decimal("1.5")), pa.int32(),
    ),
    Kind(
        pa.date32(), pa.date64(), tuple(date(2024, 2, day) for day in (1, 2, 3, 28)),
        (timedelta(days=-1), timedelta(0), timedelta(hours=36)), pa.duration("s"),
    ),
    Kind(
        pa.timestamp("s"), pa.timestamp("us"), tuple(NOON + timedelta(seconds=s) for s in (0, 1, 2, 3, 4, 60)),
        (timedelta(seconds=-2), timedelta(0), timedelta(milliseconds=1500)), pa.duration("ns"),
    ),
    Kind(
        pa.timestamp("us"), pa.timestamp("s"), tuple(NOON + timedelta(seconds=s) for s in (0, 1, 2, 3, 4, 60)),
        (timedelta(seconds=-2), timedelta(0), timedelta(milliseconds=-1500)), pa.duration("ms"),
    ),
]  # fmt: skip


@pytest.fixture(params=[SIZES, SMALL], ids=["whole", "pieces"])
def sizes(request):
    """The sizes of pieces, in one case so small that a few rows make many of them."""
    return request.param


@lru_cache(maxsize=None, typed=True)
def fits(value, data_type):
    try:
        pa.array([value], data_type)
    except (pa.ArrowException, OverflowError):
        return False
    return True


def column(data, values, data_type, rows):
    values = [value for value in values if fits(value, data_type)]
    return pa.array([values[number] for number in data.draw(numbers(rows, len(values)))], data_type)


def keys(data, rows, *, coded):
    array = column(data, ["a", "b", None], pa.string(), rows)
    return array.dictionary_encode() if coded else array


def check(spec, algorithms, left, right, data, sizes):
    """Compare each algorithm with the reference."""
    algorithm = data.draw(st.sampled_from(algorithms))
    options = {"algorithm": algorithm, "threads": data.draw(st.integers(1, 2)), "sizes": sizes}
    try:
        answer = defined_rows(spec, left, right)
    except DataError:
        with pytest.raises(DataError):
            join_in_process(spec, left, right, **options)
        return
    problem = difference(join_in_process(spec, left, right, **options), answer, ordered=True)
    assert problem is None, f"{problem}\n{spec}\n{write_table(left)}\n\n{write_table(right)}"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.left}-{kind.right}")
@given(data=st.data())
def test_ranges(sizes, kind, data):
    lefts, rights = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 20))
    left = pa.table(
        {
            "ts": column(data, [*kind.values, None], kind.left, lefts),
            "k": keys(data, lefts, coded=False),
            "from": column(data, [*kind.distances[:2], None], kind.column, lefts),
            "to": column(data, [*kind.distances[1:], None], kind.column, lefts),
            "i": pa.array([*range(lefts)], pa.int64()),
        }
    )
    right = pa.table(
        {
            "at": column(data, [*kind.values, None], kind.right, rights),
            "k": keys(data, rights, coded=True).cast(pa.string()),
            "j": pa.array([str(j) for j in range(rights)], pa.string_view()),
            "v": column(data, [None, 1, 2], pa.int32(), rights),
        }
    )
    lower = data.draw(st.sampled_from([None, "from", *kind.distances]))
    uppers = ["to", *(d for d in kind.distances if lower in (None, "from") or d >= lower)]
    if lower in (None, -math.inf):
        # A window without an end on either side is refused.
        uppers = [each for each in uppers if each != math.inf]
    upper = data.draw(st.sampled_from(uppers))
    spec = Range(
        left_on="ts", right_on="at", by=data.draw(st.sampled_from([None, "k"])), lower=lower, upper=upper,
        how=data.draw(st.sampled_from(HOWS)), closed=data.draw(st.sampled_from(["both", "left", "right", "none"])),
    )  # fmt: skip
    check(spec, ["binary_search", "nested_loop"], left, right, data, sizes)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.left}-{kind.right}")
@given(data=st.data())
def test_overlaps(sizes, kind, data):
    backward = data.draw(st.sampled_from([False] * 9 + [True]))

    def side(start, end, data_type, rows, name):
        starts, ends = (column(data, [*kind.values, None], data_type, rows).to_pylist() for _ in range(2))
        ordered = [
            (a, b) if backward or a is None or b is None or not a > b else (b, a)
            for a, b in zip(starts, ends, strict=True)
        ]
        return pa.table(
            {
                start: pa.array([a for a, _ in ordered], data_type),
                end: pa.array([b for _, b in ordered], data_type),
                "k": keys(data, rows, coded=True),
                name: pa.array([*range(rows)], pa.int64()),
            }
        )

    left = side("s", "e", kind.left, data.draw(st.integers(0, 12)), "i")
    right = side("start", "end", kind.right, data.draw(st.integers(0, 40)), "j")
    spec = Overlap(
        left_interval=data.draw(st.sampled_from([("s", "e"), ("s", "e"), (None, "e"), ("s", None)])),
        right_interval=data.draw(st.sampled_from([("start", "end"), ("start", "end"), (None, "end"), ("start", None)])),
        by=data.draw(st.sampled_from([None, "k"])), how=data.draw(st.sampled_from(HOWS)),
        closed=data.draw(st.sampled_from(["both", "left", "right", "none"])),
    )  # fmt: skip
    check(spec, ["interval_tree", "nested_loop"], left, right, data, sizes)


PREDICATES = [
    "l.a > r.a - 3 AND l.a < r.a + 2",
    "l.a > r.a - 3 AND l.a < r.a + 2 AND l.s = r.s",
    "l.a = r.a",
    "l.a <=> r.a AND l.x <=> r.x",
    "l.a = r.x",
    "l.a = r.d AND l.x = r.x",
    "l.a + 1 = r.a AND l.x < r.x",
    "l.a <= r.b AND r.a <= l.b",
    "l.a < r.b AND r.a < l.b AND l.x <> r.x",
    "l.x <= r.y AND r.x <= l.y",
    "l.x - r.x <= 1.5 AND l.y >= r.y",
    "abs(l.x - r.x) < 1.0",
    "l.a BETWEEN r.a AND r.b",
    "r.a BETWEEN l.a AND l.b",
    "r.d BETWEEN l.a AND l.b + 1",
    "l.d < r.a AND l.d > r.b - 2.5",
    "l.a < r.x",
    "l.t >= r.t - INTERVAL 90 SECONDS AND l.t < r.t",
    "l.t BETWEEN r.t AND r.u",
    "l.day <= r.day AND l.day > r.day - 2",
    "l.a * r.a = 6",
    "l.a + r.a > 5 OR l.s = r.s",
    "l.a > 2 AND r.b < 4 AND l.a < r.a",
    "l.a < r.a AND l.b > r.b",
    "l.a < r.a AND l.b > r.b AND l.x < r.x AND l.s = r.s",
    "l.s < r.s",
    "l.a IS NULL OR r.a IS NULL",
    "l.a > r.a AND r.s IN ('a', 'c')",
    "l.a + 9223372036854775807 > r.a",
    "l.a > 1",
    "1 = 1",
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("predicate", PREDICATES)
@settings(max_examples=settings.default.max_examples // 3)
@given(data=st.data())
def test_predicates(sizes, predicate, data):
    whole, floats = [None, 0, 1, 2, 3, 4, 6], [None, 0.0, -0.0, 1.0, 1.5, 3.0, math.nan, math.inf, -math.inf]
    times = [NOON + timedelta(seconds=seconds) for seconds in (0, 30, 60, 90, 120)]

    def side(rows, unit, name):
        columns = {
            "a": column(data, [*whole, GREATEST], pa.int64(), rows),
            "b": column(data, whole, pa.int32(), rows),
            "x": column(data, floats, pa.float64(), rows),
            "y": column(data, floats, pa.float32(), rows),
            "d": column(data, [None, Decimal("1.5"), Decimal(2)], pa.decimal128(10, 2), rows),
            "t": column(data, [None, *times], pa.timestamp(unit), rows),
            "u": column(data, times, pa.timestamp("us"), rows),
            "day": column(data, [date(2024, 2, day) for day in (1, 2, 3)], pa.date32(), rows),
            "s": column(data, ["a", "b", "", None], pa.string_view(), rows),
            "k": keys(data, rows, coded=True),
            name: pa.array([*range(rows)], pa.int64()),
        }
        return pa.table(columns)

    left, right = side(data.draw(st.integers(0, 9)), "s", "i"), side(data.draw(st.integers(0, 14)), "ms", "j")
    spec = Where(
        predicate, by=data.draw(st.sampled_from([None, None, "k"])), how=data.draw(st.sampled_from(HOWS)),
        allow_cross=True,
    )  # fmt: skip
    algorithm = data.draw(
        st.sampled_from(["auto", "auto", "binary_search", "interval_tree", "block_nested_loop", "nested_loop"])
    )
    options = {"algorithm": algorithm, "threads": data.draw(st.integers(1, 2)), "sizes": sizes}
    try:
        answer = join_in_process(spec, left, right, **options)
    except PlanError:
        assert algorithm in ("interval_tree", "block_nested_loop")
        return
    problem = difference(answer, defined_rows(spec, left, right), ordered=True)
    assert problem is None, f"{algorithm} {spec}\n{problem}"


AGG_TYPES = [
    (pa.int64(), [None, 0, 1, -5, 7, GREATEST // 2, -GREATEST - 1, GREATEST]),
    (pa.uint64(), [None, 0, 1, 2**63, 2**64 - 1]),
    (pa.int8(), [None, 0, 1, -5, 7]),
    (pa.float64(), [None, 0.0, -0.0, 1.5, 0.1, -0.1, 1e20, 1e100, -1e100, math.nan, math.inf, -math.inf]),
    (pa.float64(), [None, 1e9 + 0.1, 1e9 + 0.2, 1e9 + 0.3]),
    (pa.float32(), [None, 0.5, 1.5]),
    (pa.decimal128(10, 2), [None, Decimal("1.50"), Decimal("-2.25"), Decimal(9)]),
    (pa.decimal128(38, 3), [None, Decimal("1.5"), Decimal("-2.25"), Decimal(10) ** 34, Decimal(9) * 10**34]),
    (pa.date32(), [None, date(2024, 2, 1), date(2024, 2, 2)]),
    (pa.timestamp("ns"), [None, NOON, NOON + timedelta(seconds=1)]),
    (pa.duration("us"), [None, timedelta(seconds=1), timedelta(seconds=-1)]),
    (pa.string(), [None, "a", "b", ""]),
]


def close(one, other):
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-14)
    return one == other


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", AGG_TYPES, ids=lambda case: str(case[0]))
@pytest.mark.parametrize("kind", ["range", "overlap", "where"])
@settings(max_examples=settings.default.max_examples // 4)
@given(data=st.data())
def test_aggregates(sizes, kind, case, data):
    data_type, pool = case
    whole = [0, 1, 2, 3, 4, 5, 6, None]

    def side(rows, columns):
        starts = column(data, whole, pa.int64(), rows)
        lengths = data.draw(numbers(rows, 6))
        ends = [None if s is None else s + n for s, n in zip(starts.to_pylist(), lengths, strict=True)]
        return pa.table({"s": starts, "e": pa.array(ends, pa.int64()), "k": keys(data, rows, coded=True)} | columns)

    lefts, rights = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 60))
    left = side(lefts, {"i": pa.array([*range(lefts)], pa.int64())})
    right = side(rights, {"v": column(data, pool, data_type, rights), "w": column(data, [1, 2], pa.int8(), rights)})
    functions = ["count", "first", "last", "list", "count_distinct", ("arg_min", "w"), ("arg_max", "e")]
    functions += [] if data_type == pa.string() else ["min", "max"]
    is_number = pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type)
    functions += ["sum", "mean", "std", "median", ("quantile", 0.3)] if is_number else []
    agg = {"v": data.draw(st.lists(st.sampled_from(functions), min_size=1, max_size=4, unique=True)), "*": "count"}
    shared = {"by": "k", "agg": agg, "how": data.draw(st.sampled_from(["left", "inner"]))}
    if kind == "range":
        spec, algorithms = Range(on="s", lower=-2, upper=3, **shared), ["binary_search", "binary_search", "nested_loop"]
        if data.draw(st.booleans()):
            spec = Range(on="s", windows={"a": (-2, 0), "b": (1, 3), "c": (None, -4)}, **shared)
    elif kind == "where":
        predicate = data.draw(
            st.sampled_from(["l.s * r.e > 4", "l.s <= r.e AND l.e <> r.s", "l.s < r.e AND l.e > r.s"])
        )
        spec, algorithms = Where(predicate, **shared), ["binary_search", "auto", "nested_loop"]
    else:
        spec = Overlap(left_interval=("s", "e"), right_interval=("s", "e"), **shared)
        algorithms = ["interval_tree", "interval_tree", "nested_loop"]
    options = {
        "algorithm": data.draw(st.sampled_from(algorithms)),
        "threads": data.draw(st.integers(1, 2)),
        "sizes": sizes,
    }
    try:
        answer = defined_rows(spec, left, right)
    except DataError:
        with pytest.raises(DataError, match="does not fit"):
            join_in_process(spec, left, right, **options)
        return
    found = join_in_process(spec, left, right, **options)
    assert found.schema == answer.schema
    for name in found.schema.names:
        ours, theirs = found[name].to_pylist(), answer[name].to_pylist()
        assert len(ours) == len(theirs)
        assert all(map(close, ours, theirs)), (name, ours, theirs, spec, write_table(left), write_table(right))
