"""Joins of two streaming DataFrames by our own operator inside Spark: to the row, the join of two tables."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from itertools import accumulate

import pyarrow as pa
import pytest

import juncture as jn
from support.streaming import cut, read_stream, run, without_end, write_files
from support.tables import difference

PARTITIONS = "spark.sql.shuffle.partitions"
STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

START = datetime(2024, 2, 28)
ROWS = 150
DELAY = 7

CASES = {
    "asof": jn.Asof(on="ts", by="k"),
    "asof-nearest": jn.Asof(on="ts", by="k", direction="nearest", tolerance="2s", matches=2, how="full"),
    "asof-no-key": jn.Asof(on="ts", how="full", order_by="n"),
    "range-agg": jn.Range(on="ts", by="k", lower="-3s", upper="s", agg={"n": ["sum", "last"]}),
    "range-varying": jn.Range(on="ts", by="k", lower="-2s", upper="s", how="left"),
    "overlap": jn.Overlap(left_interval=("ts", "until"), right_interval=("ts", "until"), by="k", how="right"),
    "where-anti": jn.Where("l.k = r.k AND l.ts >= r.ts AND l.ts < r.until", how="anti"),
}


def a_stream(chance: random.Random) -> pa.Table:
    """Return rows whose times grow but for a disorder of at most 7 s, with ties, gaps and nulls; and a last one.

    That is beyond all others by far, has no key, and lets all others go.
    """
    grown = accumulate(chance.choice([0, 0, 1, 1, 2, 20 if chance.random() < 0.1 else 1]) for _ in range(ROWS))
    seconds = [max(value - chance.randint(0, DELAY), 0) for value in grown]
    times = [None if chance.random() < 0.05 else START + timedelta(seconds=each) for each in seconds]
    times.append(START + timedelta(days=1))
    lengths = [timedelta(seconds=chance.randint(0, 4)) for _ in times]
    return pa.table(
        {
            "k": pa.array([*(chance.choice([None, "a", "b", "c"]) for _ in seconds), None], pa.string()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "until": pa.array(
                [time and time + length for time, length in zip(times, lengths, strict=True)], pa.timestamp("us", "UTC")
            ),
            "s": pa.array([timedelta(seconds=chance.randint(-1, 3)) for _ in times], pa.duration("us")),
            "n": pa.array([*range(ROWS), -1], pa.int64()),
        }
    )


@pytest.fixture
def hosting(spark):
    """Let a session have a state store that can host operators."""
    spark.conf.set(STORE, ROCKS)
    spark.conf.set(PARTITIONS, "2")
    yield spark
    spark.conf.set(PARTITIONS, "3")
    spark.conf.unset(STORE)


@pytest.mark.in_turn
@pytest.mark.parametrize("case", CASES)
def test_two_streams(hosting, tmp_path, case):
    spec, chance = CASES[case], random.Random(case)
    tables = {"left": a_stream(chance), "right": a_stream(chance)}
    pieces = {side: cut(table, chance, 4) for side, table in tables.items()}
    orders = {f"{side}_order": jn.Order("ts", delay=f"{DELAY}s") for side in tables}
    # What is left for later comes to a query that is started again.
    for some in (slice(0, 3), slice(3, 4)):
        for side, parts in pieces.items():
            write_files(parts[some], tmp_path / side)
        plan = jn.plan(*(read_stream(hosting, tmp_path / side) for side in pieces), spec, **orders)
        assert plan.algorithm == "hosted"
        ran = run(plan.execute(), tmp_path)
    wanted = jn.plan(*(table.slice(0, ROWS) for table in tables.values()), spec).execute()
    problem = difference(without_end(ran.answer), wanted, ordered=False)
    assert problem is None, problem
