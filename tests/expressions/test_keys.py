"""Numbers of several kinds as keys and as ``on``: compared by their values, whatever holds them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import juncture as jn
from juncture import testing as reference
from juncture.errors import DataError, PlanError, SchemaError
from support.engines import LOCAL, LOCAL_EQUI
from support.tables import difference

BIG = 2**53
WHOLE = [1, 2, BIG, BIG + 1, BIG + 2, -BIG - 1, 2**62, -3, None]
FLOATS = [1.0, 2.5, float(BIG), float(BIG + 2), 2.0**62, 2.0**63, -3.0, math.nan, math.inf, None]


def tables(left: list[Any], right: list[Any], types: tuple[pa.DataType, pa.DataType]) -> tuple[pa.Table, pa.Table]:
    sides = zip((left, right), types, "ab", strict=True)
    ours, theirs = (pa.table({"k": pa.array(each, of), name: range(len(each))}) for each, of, name in sides)
    return ours, theirs


@pytest.mark.parametrize("nulls_equal", [False, True])
@pytest.mark.parametrize("algorithm", LOCAL_EQUI)
def test_wide_integers_equal_the_floats_that_they_are(algorithm, nulls_equal):
    left, right = tables(WHOLE, FLOATS, (pa.int64(), pa.float64()))
    expected = {
        (row, other)
        for row, ours in enumerate(WHOLE)
        for other, theirs in enumerate(FLOATS)
        if (nulls_equal if ours is None and theirs is None else None not in (ours, theirs) and ours == theirs)
    }
    for tables_, names in (((left, right), "ab"), ((right, left), "ba")):
        answer = jn.join(*tables_, on="k", algorithm=algorithm, nulls_equal=nulls_equal)
        found = zip(*(answer[name].to_pylist() for name in names), strict=True)
        assert {pair if names == "ab" else pair[::-1] for pair in found} == expected


@pytest.mark.parametrize("algorithm", LOCAL)
@pytest.mark.parametrize("turned", [False, True])
def test_wide_integers_are_ordered_among_floats_exactly(algorithm, turned):
    left, right = tables(WHOLE, FLOATS, (pa.int64(), pa.float64()))
    ours, theirs = (FLOATS, WHOLE) if turned else (WHOLE, FLOATS)
    names = "ba" if turned else "ab"
    answer = jn.join_asof(*((right, left) if turned else (left, right)), on="k", algorithm=algorithm)
    usable = [value for value in theirs if value is not None and not math.isnan(value)]
    expected = []
    for value in ours:
        before = [] if value is None or math.isnan(value) else [other for other in usable if other <= value]
        expected.append(theirs.index(max(before)) if before else None)
    assert answer[names[1]].to_pylist() == expected


def test_decimals_count_as_the_nearest_float_beside_floats_and_exactly_beside_integers():
    left, right = tables([Decimal("0.10"), Decimal("3.00")], [0.1, 3.0], (pa.decimal128(10, 2), pa.float64()))
    assert jn.join(left, right, on="k")["b"].to_pylist() == [0, 1]
    left, right = tables([Decimal("2.99"), Decimal("3.00")], [3], (pa.decimal128(10, 2), pa.int64()))
    assert jn.join(left, right, on="k")["a"].to_pylist() == [1]
    assert jn.join_asof(right, left, on="k")["a"].to_pylist() == [1]


def test_duckdb_and_polars_agree_where_floats_hold_the_integers():
    left, right = tables([5, 1, 3, 8, None], [0.5, 3.0, 3.5, 7.25, None], (pa.int64(), pa.float64()))
    with duckdb.connect() as connection:
        connection.register("l", left).register("r", right)
        nearest = connection.sql("SELECT b FROM l ASOF LEFT JOIN r ON l.k >= r.k ORDER BY a").fetchall()
        equal = connection.sql("SELECT a, b FROM l JOIN r ON l.k = r.k ORDER BY a").fetchall()
    assert jn.join_asof(left, right, on="k")["b"].to_pylist() == [row for (row,) in nearest]
    ours = jn.join(left, right, on="k")
    assert list(zip(ours["a"].to_pylist(), ours["b"].to_pylist(), strict=True)) == equal
    frames = [pl.from_arrow(side.slice(0, 4)).with_columns(pl.col("k").cast(pl.Float64)) for side in (left, right)]
    theirs = frames[0].sort("k").join_asof(frames[1].sort("k"), on="k").sort("a")
    assert jn.join_asof(left.slice(0, 4), right.slice(0, 4), on="k")["b"].to_pylist() == theirs["b"].to_list()


def test_a_filled_key_has_the_wider_type_in_each_library():
    left, right = tables([1, 2], [2, 2**40], (pa.int32(), pa.int64()))
    expected = [1, 2, 2**40]
    assert jn.join(left, right, on="k", how="full")["k"].combine_chunks() == pa.array(expected, pa.int64())
    frame = jn.join(left.to_pandas(), right.to_pandas(), on="k", how="full")
    assert frame["k"].tolist() == pd.Series(expected).tolist()
    ours = jn.join(pl.from_arrow(left), pl.from_arrow(right), on="k", how="full")
    assert ours["k"].dtype == pl.Int64
    assert ours["k"].to_list() == expected


@pytest.mark.parametrize(
    ("types", "filled"),
    [
        ((pa.timestamp("s"), pa.timestamp("ms")), pa.timestamp("ms")),
        ((pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("s", "UTC")), pa.timestamp("us", "Asia/Tokyo")),
        ((pa.time64("us"), pa.time64("ns")), pa.time64("ns")),
    ],
    ids=str,
)
def test_filled_times_have_the_finer_unit(types, filled):
    left, right = (
        pa.table({"k": pa.array([at * second, 7 * second, None], pa.int64()).cast(each), name: [0, 1, 2]})
        for each, second, at, name in zip(types, map(second_of, types), (2, 3), "ab", strict=True)
    )
    for spec in (jn.Equi(on="k", how="full"), jn.Asof(on="k", how="right")):
        join = reference.asof_join if spec.kind == "asof" else reference.equi_join
        answer = jn.plan(left, right, spec).execute()
        assert answer.schema.field("k").type == filled
        expected = join(spec.resolve(left.schema, right.schema), left, right)
        assert difference(answer, expected, ordered=False) is None
    far = pa.table({"k": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises(DataError, match=r"does not fit in timestamp\[ns\], to which"):
        jn.join(far, far.cast(pa.schema([("k", pa.timestamp("ns"))]), safe=False), on="k", how="full")


def second_of(data_type: pa.DataType) -> int:
    return {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[data_type.unit]


def test_dates_beyond_those_of_the_other_table():
    noon, far = 86_400_000 + 43_200_000, 2**63 - 2**63 % 86_400_000 - 86_400_000
    near = pa.table({"k": pa.array([1], pa.int32()).cast(pa.date32()), "b": [0]})
    for day in (noon, far):
        left = pa.table({"k": pa.array([day, None], pa.date64()), "a": [0, 1]})
        for spec in (jn.Asof(on="k", how="full"), jn.Equi(on="k", how="full")):
            join = reference.asof_join if spec.kind == "asof" else reference.equi_join
            runs = [
                lambda left=left, spec=spec: jn.plan(left, near, spec).execute(),
                lambda left=left, spec=spec, join=join: join(spec.resolve(left.schema, near.schema), left, near),
            ]
            for run in runs:
                if day == far:
                    with pytest.raises(DataError, match="does not fit in date32"):
                        run()
                else:
                    assert run()["b"].to_pylist() == [0, None]


def test_what_does_not_compare_exactly_is_refused():
    left, right = tables([1], [1.0], (pa.uint64(), pa.float64()))
    with pytest.raises(SchemaError, match="do not compare exactly"):
        jn.join(left, right, on="k")
    with pytest.raises(SchemaError, match="have no common type"):
        jn.join(left.cast(pa.schema([("k", pa.int64()), ("a", pa.int64())])), right, on="k", how="full")


def test_left_and_right_on_are_both_shown_whatever_their_types():
    left, right = tables([1], [1], (pa.int64(), pa.int64()))
    wide = right.set_column(0, "k", right["k"].cast(pa.decimal128(19, 0)))
    for spec in (jn.Asof(left_on="k", right_on="k", how="full"), jn.Asof(left_on=["k", "a"], right_on=["k", "b"])):
        names = [jn.plan(left, each, spec).execute().column_names for each in (right, wide)]
        assert names == [["k", "a", "k_right", "b"]] * 2


MIXED = tables([1, 3, None], [1.0, 1.0, 3.5], (pa.int64(), pa.float64()))
DECIMALS = tables([1, 3], [1, 1], (pa.int64(), pa.decimal128(5, 2)))
INVERTED = pa.table({"start": pa.array([5], pa.int64()), "end": [2.5]})


@pytest.mark.parametrize(
    ("join", "said"),
    [
        (
            lambda: jn.join_asof(*DECIMALS, on="k", ties="error"),
            r"with the same 'k' tie for the left row with k=1 \(row 0\)",
        ),
        (
            lambda: jn.join_asof(*MIXED, on="k", by=jn.expr("k > 0"), tolerance=1, ties="error", algorithm="probe"),
            r"the same 'k' tie for the left row with k > 0=true, k=1 \(row 0\)",
        ),
        (
            lambda: jn.join_asof(
                *DECIMALS, left_on=["k", jn.expr("a + 1")], right_on=["k", jn.expr("0")], ties="error"
            ),
            r"the same '\(k, 0\)' tie for the left row with k=1, a \+ 1=1 \(row 0\)",
        ),
        (
            lambda: jn.join_many(MIXED[0], {"r": jn.Right(MIXED[1], jn.Equi(on="k", nulls_equal=True), prefix="r_")}),
            r"match the row of the spine with k=1 \(row 0\)",
        ),
        (
            lambda: jn.join_overlap(
                INVERTED, INVERTED.slice(1), left_interval=("start", "end"), right_interval=("start", "end")
            ),
            r"starts after its end: start=5\.?0* and end=2\.5\. Swap",
        ),
    ],
)
def test_errors_name_what_the_caller_named(join, said):
    with pytest.raises(DataError, match=said):
        join()


@pytest.mark.parametrize(
    ("spec", "types", "said"),
    [
        (jn.Equi(on="k"), (pa.int64(), pa.float64()), "'k' of the right table would be converted to int64"),
        (jn.Equi(on="k"), (pa.int64(), pa.decimal128(5, 2)), r"'k' of the left table would be converted to decimal128"),
        (jn.Asof(on="k"), (pa.int64(), pa.float64()), "on= compares 64-bit integers with floats"),
        (jn.Asof(on=jn.expr("k + 1")), (pa.int64(), pa.int64()), r"'k \+ 1' is an expression over the left table"),
        (jn.Asof(on=["k", jn.expr("-k")]), (pa.int64(), pa.int64()), r"on=\(k, -k\) names several columns"),
    ],
    ids=str,
)
def test_streams_and_changes_refuse_them(spec, types, said):
    left, right = (side.schema for side in tables([1], [1], types))
    with pytest.raises(PlanError, match=said):
        jn.stream(left, right, spec, left_order=jn.Order("k"), right_order=jn.Order("k"))
    with pytest.raises(PlanError, match=said):
        jn.changes(left, right, spec)


def test_joins_of_many_tables_take_them():
    left, right = tables([1, 2], [1.0, 2.5], (pa.int64(), pa.float64()))
    spec = jn.Equi(on="k", how="left")
    joined = jn.join_many(left, {"r": jn.Right(right, spec, prefix="r_")})
    alone = jn.plan(left, right, spec).execute()
    assert [list(row.values()) for row in joined.to_pylist()] == [list(row.values()) for row in alone.to_pylist()]


@pytest.mark.parametrize("number", [pa.int64(), pa.decimal128(5, 0)])
def test_a_column_that_equals_an_expression_is_in_the_output(number):
    left, right = pa.table({"a": [1, 2]}), pa.table({"k": pa.array([2, 3], number), "v": [5, 6]})
    assert jn.join(left, right, left_on=jn.expr("a + 1"), right_on="k").column_names == ["a", "k", "v"]
