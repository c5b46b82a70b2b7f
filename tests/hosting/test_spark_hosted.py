"""Joins of two streaming DataFrames equal the joins of two tables: as-of, overlap, anti and aggregates."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from itertools import accumulate

import pyarrow as pa
import pytest

import juncture as jn
from support.streaming import STORE, cut, read_stream, run, take_back, without_end, write_files
from support.tables import difference

START = datetime(2024, 2, 28)
ROWS = 150
DELAY = 7

CASES = {
    "asof": (jn.Asof(on="ts", by="k", direction="nearest", tolerance="2s", matches=2, how="full"), "ts", 1),
    "asof-no-key": (jn.Asof(on="ts", how="right", order_by="n"), "ts", 3),
    "range-varying": (jn.Range(on="a", by="k", lower=-2, upper="s", agg={"n": ["sum", "last"]}), "a", 3),
    "overlap-anti": (jn.Overlap(left_interval=("a", "b"), right_interval=("a", "b"), by="k", how="anti"), "a", 2),
}
"""A join, its order on both sides, and how many of three micro-batches come before the query is started again."""

MARKED = {"asof-no-key"}
"""Joins whose streams have watermarks of users, which count as their orders."""


def a_stream(chance: random.Random, end: int) -> pa.Table:
    """Return rows whose times grow but for a disorder of at most 7 s, with ties, gaps and nulls; and a last one.

    The last one is beyond all others by so many days, has no key, and lets all others go.
    """
    grown = accumulate(chance.choice([0, 0, 1, 1, 2, 20 if chance.random() < 0.1 else 1]) for _ in range(ROWS))
    seconds = [max(value - chance.randint(0, DELAY), 0) for value in grown]
    times = [None if chance.random() < 0.05 else START + timedelta(seconds=each) for each in seconds]
    times.append(START + timedelta(days=end))
    starts = [None if time is None else (time - START) // timedelta(seconds=1) for time in times]
    return pa.table(
        {
            "k": pa.array([*(chance.choice([None, "a", "b", "c"]) for _ in seconds), None], pa.string()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "a": pa.array(starts, pa.int32()),
            "b": pa.array([start and start + chance.randint(0, 4) for start in starts], pa.int64()),
            "s": pa.array([chance.randint(-1, 3) for _ in starts], pa.int16()),
            "n": pa.array([*range(ROWS), -1], pa.int64()),
        }
    )


# Those of a nightly run are held by tests of the same tasks without Spark.
USUAL = ("asof",)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in USUAL else pytest.mark.nightly) for case in CASES]
)
def test_two_streams(hosting, tmp_path, case):
    (spec, order, first), chance = CASES[case], random.Random(case)
    # Without a key, the last right row is let go by left rows beyond the one that takes its place.
    tables = {"left": a_stream(chance, 2), "right": a_stream(chance, 1)}
    pieces = {side: cut(table, chance, 3) for side, table in tables.items()}
    orders = {f"{side}_order": jn.Order(order, delay=f"{DELAY}s" if order == "ts" else DELAY) for side in tables}
    # What is left for later comes to a query that is started again.
    for some in [slice(0, first), slice(first, 3)][: 1 if first == 3 else 2]:
        if some.start:
            take_back(tmp_path)
        for side, parts in pieces.items():
            write_files(parts[some], tmp_path / side)
        streams = [read_stream(hosting, tmp_path / side) for side in pieces]
        if case in MARKED:
            streams, orders = [each.withWatermark(order, f"{DELAY} seconds") for each in streams], {}
        plan = jn.plan_stream(*streams, spec, **orders)
        assert plan.algorithm == "hosted"
        ran = run(plan.execute(), tmp_path)
    wanted = jn.plan(*(table.slice(0, ROWS) for table in tables.values()), spec).execute()
    assert wanted.num_rows > 0
    problem = difference(without_end(ran.answer), wanted, ordered=False)
    assert problem is None, problem


def rate(spark):
    return spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS a", "CAST(value AS STRING) k")


def test_what_is_told(hosting):
    marked = rate(hosting).withWatermark("ts", "5 seconds")
    order = jn.Order("ts", delay="2s")
    plan = jn.plan_stream(rate(hosting), marked, jn.Asof(on="ts", by="k"), left_order=order)
    said = plan.explain()
    for line in (
        "algorithm  hosted: Juncture's join of two streams in Spark's stateful operator",
        "reason     both sides are streams",
        "left order  ts, growing, at most 2s behind",
        "right order  ts, growing, at most 5s behind",
        "left state  rows are kept while ts >= the right ts",
        "right state  rows are kept while ts >= the left ts, and the last before of each k",
        "partitions  2 by key",
        "emitted    left rows once no future row can change their match",
    ):
        assert line in said, said
    keyless = jn.plan_stream(
        rate(hosting), rate(hosting), jn.Asof(on="a"), left_order=jn.Order("a"), right_order=jn.Order("a")
    )
    assert "partitions  one task joins all rows" in keyless.explain()
    for asked in (plan.analyze, plan.match_report):
        with pytest.raises(jn.PlanError, match=r"but a stream does not end. Start a query on the result of execute"):
            asked()


def test_a_result_has_no_watermark(hosting):
    marked = rate(hosting).withWatermark("ts", "5 seconds")
    joined = jn.stream(marked, marked, jn.Range(on="ts", by="k", lower="-5s", upper=0))
    assert joined.isStreaming
    assert not any("spark.watermarkDelayMs" in (field.metadata or {}) for field in joined.schema.fields)


@pytest.mark.parametrize("spec", [jn.Asof(on="a"), jn.Range(on="a", lower=-1, upper=0)])
def test_a_state_store_that_cannot_host(hosting, spec):
    hosting.conf.unset(STORE)
    said = r"stateStore\.providerClass.*needs RocksDB.*Run spark\.conf\.set\(.*before planning"
    with pytest.raises(jn.PlanError, match=said):
        jn.stream(rate(hosting), rate(hosting), spec, left_order=jn.Order("a"), right_order=jn.Order("a"))
