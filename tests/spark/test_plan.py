"""Plans on Spark: they stay where their session is, and say what ran to make them."""

from __future__ import annotations

import copy
import logging
import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import PlanError
from juncture.spark.session.session import BATCH_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.deepcopy])
@pytest.mark.parametrize("form", ["frame", "path"])
def test_a_plan_cannot_leave_its_session(spark: SparkSession, tmp_path, form, duplicate) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "table.parquet")
    table = spark.range(10) if form == "frame" else str(tmp_path)
    plan = jn.plan(table, table, jn.Range(on="id", lower=0, upper=1), spark=spark)
    with pytest.raises(PlanError, match=r"plan\.join\.spec"):
        duplicate(plan)
    assert pickle.loads(pickle.dumps(plan.join.spec)) == plan.join.spec
    assert repr(copy.copy(plan)) == repr(plan)


def test_the_jobs_that_ran_to_plan_are_logged(spark: SparkSession, caplog) -> None:
    caplog.set_level(logging.INFO, "juncture")
    plan = jn.plan(spark.range(10), spark.range(10), jn.Asof(on="id"))
    assert plan.jobs
    plan.execute()
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("juncture.spark.plan", f"Ran to plan a join on Spark: {'; '.join(plan.jobs)}"),
        ("juncture.planner.plan", caplog.records[-1].getMessage()),
    ]
    assert caplog.records[-1].getMessage().startswith(f"As-of join on Spark by {plan.algorithm}: ")


@pytest.mark.parametrize(("batch_bytes", "is_said"), [("64m", True), ("2147483647", False)])
def test_a_plan_names_the_setting_that_makes_spark_slow_to_hand_rows_to_python(spark, batch_bytes, is_said) -> None:
    frame, many = spark.range(10).selectExpr("id AS ts", "id AS k"), jn.SideStats(rows=100_000_000, row_bytes=8)
    before = spark.conf.get(BATCH_BYTES)
    spark.conf.set(BATCH_BYTES, batch_bytes)
    try:
        stats = jn.Stats(left=many, right=many)
        plan = jn.plan(frame, frame, jn.Asof(on="ts", by="k"), algorithm="hash", stats=stats, lazy=True)
        few = jn.plan(frame, frame, jn.Asof(on="ts", by="k"), algorithm="hash", lazy=True)
    finally:
        spark.conf.set(BATCH_BYTES, before)
    said = f"about 43 s to measure the bytes of each row. Set {BATCH_BYTES} to 2147483647"
    assert (said in plan.explain()) is is_said
    assert BATCH_BYTES not in few.explain()
