"""Joins of two streaming DataFrames that return pairs equal the joins of two tables."""

from __future__ import annotations

import math
import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate

import pyarrow as pa
import pytest

import juncture as jn
from support.streaming import cut, read_stream, run, take_back, without_end, write_files
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
        {"left": "a + s"},
    ),
    "float-full": ("float", jn.Where("l.k = r.k AND l.a >= r.a - 0.5 AND l.a - 0.1 < r.a", how="full"), {}),
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


# Tests of the same tasks without Spark cover the nightly cases.
USUAL = ("sum-left",)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in USUAL else pytest.mark.nightly) for case in CASES]
)
def test_two_streams(hosting, tmp_path, case):
    kind, spec, asked = CASES[case]
    chance, falls = random.Random(case), asked.get("falls", False)
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
        streams = [read_stream(hosting, tmp_path / side) for side in pieces]
        ran = run(jn.stream(*streams, spec, **orders), tmp_path)
    expected = without_end(jn.plan(left, right, spec).execute())
    assert expected.num_rows > 0
    problem = difference(without_end(ran.answer), expected, ordered=False)
    assert problem is None, problem


@pytest.mark.in_turn
@pytest.mark.parametrize("value", [math.nan])
def test_a_row_without_an_order_that_may_match(hosting, tmp_path, value):
    write_files([pa.table({"a": [1.0, value]})], tmp_path / "rows")
    streams = [read_stream(hosting, tmp_path / "rows") for _ in range(2)]
    joined = jn.stream(
        *streams, jn.Where("l.a >= r.a - 1 AND l.a <= r.a"), left_order=jn.Order("a"), right_order=jn.Order("a")
    )
    with pytest.raises(Exception, match=r"is null or NaN in the order 'a'.*Drop such rows"):
        run(joined, tmp_path)


def rate(spark):
    return spark.readStream.format("rate").load().selectExpr("value AS a", "timestamp AS ts", "CAST(value AS STRING) k")


BAND = "l.k = r.k AND l.a > r.a - 3 AND l.a < r.a + 10"
ORDERS = {"left_order": jn.Order("a", delay=5), "right_order": jn.Order("a")}


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
