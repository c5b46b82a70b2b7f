"""Joins of two streaming DataFrames by Spark's own operator: to the row, the join of two tables."""

from __future__ import annotations

import math
import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate

import pyarrow as pa
import pytest

import juncture as jn
from juncture.hosting.native import plan_of_streams
from support.engines import to_spark
from support.streaming import PARTITIONS, ROCKS, STORE, cut, read_stream, run, take_back, without_end, write_files
from support.tables import difference

KEYS = [None, "a", "b"]
ROWS = 120
START = datetime(2024, 2, 28)

MAKERS = {
    "int": (pa.int64(), lambda value: value),
    "float": (pa.float64(), lambda value: value / 7),
    "decimal": (pa.decimal128(12, 2), lambda value: Decimal(value) / 4),
    "date": (pa.date32(), lambda value: date(1969, 11, 1) + timedelta(days=value)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda value: START + timedelta(milliseconds=250 * value)),
}

CASES = {
    "int-inner": ("int", jn.Where("l.k = r.k AND l.a > r.a - 3 AND l.a < r.a + 10"), {}),
    "sum-left": (
        "int",
        jn.Where("l.k = r.k AND l.a + l.s BETWEEN r.a - 2 AND r.a + 4", how="left"),
        {"left": "a + s", "store": ROCKS},
    ),
    "float-full": (
        "float",
        jn.Where("l.k = r.k AND l.a >= r.a - 0.5 AND l.a - 0.1 < r.a", how="full"),
        {"store": ROCKS},
    ),
    "date-full": (
        "date",
        jn.Where("l.k = r.k AND l.a >= r.a - INTERVAL 3 DAYS AND l.a <= r.a", how="full"),
        {"restart": True},
    ),
    "timestamp-semi": ("timestamp", jn.Range(on="a", by="k", lower="2s", upper="3s", how="semi"), {}),
    "decimal-falling": ("decimal", jn.Range(on="a", lower=-1, upper=Decimal("0.5"), how="right"), {"falls": True}),
}
DELAYS = {"int": 7, "float": 1, "decimal": 2, "date": "7d", "timestamp": "2s"}


def a_stream(chance: random.Random, kind: str, *, falls: bool) -> pa.Table:
    """Return rows whose values grow but for a disorder of at most 7, with ties, gaps and nulls, and one far beyond."""
    data_type, made = MAKERS[kind]
    grown = accumulate(chance.choice([0, 0, 1, 1, 2, 40 if chance.random() < 0.1 else 1]) for _ in range(ROWS))
    values = [value - chance.randint(0, 7) for value in grown]
    end = max(values) + 10_000
    values = [-value if falls else value for value in [*values, end]]
    places = [None if chance.random() < 0.05 and value != values[-1] else made(value) for value in values]
    keys = [*(chance.choice(KEYS) for _ in range(ROWS)), f"end {chance.random()}"]
    return pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "a": pa.array(places, data_type),
            "s": pa.array([0] * (ROWS + 1), pa.int32()),
            "n": pa.array([*range(ROWS), -1], pa.int64()),
        }
    )


@pytest.fixture
def short(spark):
    """Let a session be quick with little state."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "1")
    yield spark
    spark.conf.set(PARTITIONS, before)
    spark.conf.unset(STORE)


# Those of a nightly run are held by joins of tables by the same virtual times.
USUAL = ("sum-left",)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in USUAL else pytest.mark.nightly) for case in CASES]
)
def test_two_streams(short, tmp_path, case):
    kind, spec, asked = CASES[case]
    chance, falls = random.Random(case), asked.get("falls", False)
    if "store" in asked:
        short.conf.set(STORE, asked["store"])
    left, right = (a_stream(chance, kind, falls=falls) for _ in range(2))
    orders = {
        "left_order": jn.Order(asked.get("left", "a"), delay=DELAYS[kind], descending=falls),
        "right_order": jn.Order("a", delay=DELAYS[kind], descending=falls),
    }
    pieces = {"left": cut(left, chance, 3), "right": cut(right, chance, 3)}
    # What is left for later comes to a query that is started again.
    first = 2 if asked.get("restart") else 3
    for some in [slice(0, first), slice(first, 3)][: 4 - first]:
        if some.start:
            take_back(tmp_path)
        for side, parts in pieces.items():
            write_files(parts[some], tmp_path / side)
        streams = [read_stream(short, tmp_path / side) for side in pieces]
        ran = run(jn.stream(*streams, spec, **orders), tmp_path)
    expected = without_end(jn.plan(left, right, spec).execute())
    assert expected.num_rows > 0
    problem = difference(without_end(ran.answer), expected, ordered=False)
    assert problem is None, problem
    # The last row of each side, far beyond all others, lets all of them go.
    assert ran.state_rows <= 2


@pytest.mark.in_turn
def test_what_the_state_holds_of_a_row(short, tmp_path):
    rows = pa.table(
        {"k": ["a", "b"], "a": pa.array([1, 2], pa.int64()), "s": pa.array([1, 2], pa.int32()), "x": [1, 2]}
    )
    sides = {"left": rows, "right": rows.set_column(0, "k", pa.array(["a", "c"])).drop_columns("x")}
    for side, table in sides.items():
        write_files([table], tmp_path / side)
    streams = [read_stream(short, tmp_path / side) for side in sides]
    orders = {"left_order": jn.Order("a", delay=5), "right_order": jn.Order("a", delay=5)}
    run(jn.stream(*streams, jn.Range(on="a", by="k", lower=-3, upper=2, how="left"), **orders), tmp_path)
    stored = short.read.format("statestore")
    held = {
        side: sorted(stored.option("joinSide", side).load(str(tmp_path / "checkpoint")).schema["value"].dataType.names)
        for side in sides
    }
    # What the result shows or the condition reads, and a time by which rows are let go: nothing twice.
    assert held == {"left": ["l0", "l1", "l2", "l3", "ltime"], "right": ["r0", "r1", "r2", "rtime"]}


@pytest.mark.in_turn
@pytest.mark.parametrize("value", [math.nan])
def test_a_row_without_a_place_that_might_match(short, tmp_path, value):
    write_files([pa.table({"a": [1.0, value]})], tmp_path / "rows")
    streams = [read_stream(short, tmp_path / "rows") for _ in range(2)]
    joined = jn.stream(
        *streams, jn.Where("l.a >= r.a - 1 AND l.a <= r.a"), left_order=jn.Order("a"), right_order=jn.Order("a")
    )
    with pytest.raises(Exception, match=r"row is null or NaN in the order 'a'.*Drop such rows"):
        run(joined, tmp_path)


FAR = {
    "int": pa.array([-(2**63), -(2**63) + 1, -(2**53), -(2**40) - 1, -3, 0, 2, 2**40, 2**43, 2**63 - 2, 2**63 - 1]),
    "float": pa.array([-math.inf, -1e308, -(2.0**53), -1e-9, -0.0, 0.0, 1e-9, 0.1, 2.0**43, 1e308, math.inf]),
    "decimal": pa.array([Decimal(each) for each in ("-9" * 1, "-1e9", "0.01", "0.02", "1e9", "99999999.99")]),
    "date": pa.array([date(1, 1, 1), date(1, 1, 3), date(1970, 1, 1), date(1970, 1, 2), date(9999, 12, 30)]),
    "timestamp": pa.array(
        [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), START, datetime(9999, 12, 31)]
    ),
}
ENDS = {
    "int": [(-3, 2), (5, 9), (-9, -5), (-(2**62), 2**62), (0, 0)],
    "float": [(-0.1, 0.2), (1e-9, 1e-8), (-1e300, 1e300), (0.0, 0.0)],
    "decimal": [(Decimal("-0.01"), 1), (10**9, 2 * 10**9)],
    "date": [("-2d", "1d"), ("700000d", "4000000d")],
    "timestamp": [("-1us", "1us"), ("-100d", "-1d")],
}


@pytest.mark.one_in(2)
@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("kind", "falls"),
    [
        pytest.param(kind, falls, marks=pytest.mark.nightly if (number + falls) % 2 else [])
        for number, kind in enumerate(FAR)
        for falls in (False, True)
    ],
)
def test_virtual_times_lose_no_match(spark, kind, falls):
    values = FAR[kind]
    if kind == "decimal":
        values = values.cast(pa.decimal128(12, 2))
    table = pa.table({"a": pa.concat_arrays([values, pa.nulls(1, values.type)]), "n": range(len(values) + 1)})
    order = jn.Order("a", descending=falls)
    frame = to_spark(spark, table)
    for lower, upper in ENDS[kind]:
        spec = jn.Range(on="a", lower=lower, upper=upper, how="full")
        # Tables in place of streams: a watermark is nothing to them.
        plan = plan_of_streams(spec, frame, frame, orders={"left": [order], "right": [order]})
        problem = difference(plan.execute().toArrow(), jn.plan(table, table, spec).execute(), ordered=False)
        assert problem is None, (lower, upper, problem)


def rate(spark):
    return spark.readStream.format("rate").load().selectExpr("value AS a", "timestamp AS ts", "CAST(value AS STRING) k")


BAND = "l.k = r.k AND l.a > r.a - 3 AND l.a < r.a + 10"
ORDERS = {"left_order": jn.Order("a", delay=5), "right_order": jn.Order("a")}


def test_what_is_told(spark):
    plan = jn.plan_stream(rate(spark), rate(spark), jn.Where(BAND, how="left"), **ORDERS)
    said = plan.explain()
    for line in (
        "algorithm  native: Spark's own join of two streams, by virtual times of both",
        "left order  a, growing, at most 5 behind",
        "left state  rows are kept while a > the right a - 3",
        "right state  rows are kept while a > the left a - 10",
        "watermarks  a millisecond of virtual time for 1; left rows may be 6 behind, right rows may be 1 behind",
        "emitted    matches at once, left rows without one when they expire",
        "* native  no time is estimated, since a stream has no end",
    ):
        assert line in said, said
    assert plan.execute().isStreaming
    assert jn.stream(rate(spark), rate(spark), jn.Range(on="a", lower=-1, upper=0), **ORDERS).isStreaming


REFUSED = {
    "no order": (jn.Where(BAND), {"left_order": jn.Order("a")}, r"The right stream has no order.*Pass right_order="),
    "one end": (jn.Where("l.a > r.a - 3"), ORDERS, r"The right rows would be kept forever.*by the left order"),
    "no end": (jn.Where("l.k = r.k"), ORDERS, r"The left rows would be kept forever.*Add a condition"),
    "unlike": (jn.Where(BAND), ORDERS | {"left_order": jn.Order("ts")}, r"right rows would be kept.*pass left_order="),
    "ahead": (jn.Asof(on="a", by="k", direction="forward"), ORDERS, r"kept forever.*Pass tolerance= to the join\.$"),
    "no such column": (jn.Asof(on="a"), ORDERS | {"right_order": jn.Order("b")}, r"'b'"),
    "no order of rows": (
        jn.Asof(on="a"),
        ORDERS | {"right_order": jn.Order("k")},
        r"has type STRING. Expected numbers",
    ),
    "wrong delay": (jn.Asof(on="ts"), ORDERS | {"right_order": jn.Order("ts", delay=3)}, r"delay=3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_two_streams_cannot_do(spark, case):
    spec, orders, said = REFUSED[case]
    with pytest.raises(jn.JunctureError, match=said):
        jn.stream(rate(spark), rate(spark), spec, **orders)


def test_other_refusals(spark):
    stream, table = rate(spark), spark.createDataFrame([(1, "a")], "a LONG, k STRING")
    spec = jn.Where(BAND)
    with pytest.raises(jn.PlanError, match=r"left_order=Order\(.*Remove it"):
        jn.stream(stream, table, spec, **ORDERS)
    with pytest.raises(jn.PlanError, match=r"Neither input is a streaming DataFrame.*jn\.plan\(left, right, spec\)"):
        jn.stream(table, table, spec, **ORDERS)
    with pytest.raises(jn.PlanError, match=r"The right table is a pyarrow\.Schema in this process"):
        jn.stream(stream, pa.schema({"a": pa.int64()}), spec)
    for arguments in ({"allow_unbounded": True}, {"late": "collect"}):
        with pytest.raises(jn.PlanError, match=rf"{next(iter(arguments))}=.*joins of two schemas"):
            jn.stream(stream, stream, spec, **ORDERS, **arguments)
    with pytest.raises(jn.PlanError, match=r"Both tables are streaming DataFrames.*jn\.stream\(.*jn\.changes\("):
        jn.join_where(stream, stream, BAND)
