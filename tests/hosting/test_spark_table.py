"""Joins of a streaming DataFrame with a table: in all micro-batches together, the join of two tables."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from support.engines import to_spark
from support.streaming import cut, read_stream, run, write_files
from support.tables import difference

SPECS = [
    jn.Asof(on="ts", by="k", tolerance=4),
    jn.Range(on="ts", lower=-2, upper=0, agg={"v": "sum"}),
    jn.Overlap(left_interval=("ts", "until"), right_interval=("ts", "until"), how="semi"),
    jn.Where("l.k = r.k AND l.ts > r.v - 3 AND l.ts < r.v + 4"),
    jn.Equi(on="k", how="anti"),
]


def a_table(chance: random.Random, rows: int) -> pa.Table:
    """Return rows in no order, some without a time or a key."""
    starts = [chance.choice([None, *range(20)]) for _ in range(rows)]
    return pa.table(
        {
            "k": pa.array([chance.choice([None, "a", "b", "c"]) for _ in range(rows)], pa.string()),
            "ts": pa.array(starts, pa.int64()),
            "until": pa.array([None if start is None else start + chance.randint(0, 5) for start in starts]),
            "v": pa.array([chance.randint(-5, 20) for _ in range(rows)], pa.int32()),
        }
    )


@pytest.mark.one_in(2)
@pytest.mark.in_turn
@pytest.mark.parametrize("number", range(len(SPECS)))
def test_a_stream_with_a_table(spark, tmp_path, number):
    spec, chance = SPECS[number], random.Random(number)
    left, right = a_table(chance, 40), a_table(chance, 30)
    write_files(cut(left, chance, 3), tmp_path / "left")
    plan = jn.plan(read_stream(spark, tmp_path / "left"), to_spark(spark, right), spec)
    answer = run(plan.execute(), tmp_path).answer
    problem = difference(answer, jn.plan(left, right, spec).execute(), ordered=False)
    assert problem is None, problem


def test_files_and_a_restart(spark, tmp_path):
    spec, chance = replace(SPECS[0], how="left"), random.Random(7)
    left, right = a_table(chance, 40), a_table(chance, 30)
    pq.write_table(right, tmp_path / "right.parquet")
    pieces = cut(left, chance, 4)
    for some in (pieces[:2], pieces[2:]):
        write_files(some, tmp_path / "left")
        plan = jn.plan(read_stream(spark, tmp_path / "left"), tmp_path / "right.parquet", spec, lazy=True)
        answer = run(plan.execute(), tmp_path).answer
    assert plan.jobs == ()
    problem = difference(answer, jn.plan(left, right, spec).execute(), ordered=False)
    assert problem is None, problem


def a_stream(spark):
    return spark.readStream.format("rate").load().selectExpr("value AS ts", "CAST(value % 3 AS STRING) AS k")


def a_frame(spark):
    return spark.createDataFrame([(1, "a")], "ts LONG, k STRING")


def test_what_is_told(spark):
    plan = jn.plan(a_stream(spark), a_frame(spark), jn.Asof(on="ts", by="k"))
    assert plan.execute().isStreaming
    assert plan.algorithm == "broadcast"
    said = plan.explain()
    assert "reason     the left side is a stream, which cannot be shuffled or buffered" in said
    assert "state      none" in said
    assert "* broadcast       no time is estimated, since a stream has no end" in said
    assert "table      as of planning" in said
    others = [option for option in plan.choice.options if option.algorithm != "broadcast"]
    assert {option.excluded for option in others} == {
        "the left side is a stream, which cannot be shuffled or buffered."
    }
    for asked in (plan.analyze, plan.match_report):
        with pytest.raises(jn.PlanError, match=r"but a stream does not end. Start a query on the result of execute"):
            asked()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"how": "right"}, "how='right' returns unmatched right rows.*a stream has no end.*Pass how='inner'"),
        ({"how": "full"}, "how='full' returns unmatched right rows.*Pass how='left'"),
        ({"algorithm": "range"}, "algorithm='range' needs all left rows.*Pass algorithm='auto'"),
        ({"lazy": True}, "lazy=True does not allow .* collect the right table.*pass the right table as a path"),
    ],
)
def test_what_a_stream_and_a_table_cannot_do(spark, arguments, said):
    with pytest.raises(jn.PlanError, match=said):
        jn.join_range(a_stream(spark), a_frame(spark), on="ts", lower=-1, **arguments)


def test_a_table_with_a_stream(spark, tmp_path):
    for left in (a_frame(spark), tmp_path / "left.parquet"):
        with pytest.raises(jn.PlanError, match=r"The right table is a streaming DataFrame.*foreachBatch"):
            jn.join_asof(left, a_stream(spark), on="ts")


def test_a_stream_with_a_table_of_this_process(spark):
    with pytest.raises(jn.PlanError, match=r"The right table is a pyarrow.Table in this process"):
        jn.join_asof(a_stream(spark), pa.table({"ts": [1]}), on="ts")
