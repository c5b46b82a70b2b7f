"""One partition of a join on Spark, run again in this process."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.functions import spark_partition_id

import juncture as jn
from juncture.errors import PlanError
from juncture.testing import replay
from support.engines import to_spark
from support.tables import difference

LEFT = pa.table({"ts": [5, 1, 9, 3, 7, 2], "k": ["a", "b", "a", "c", "b", None], "l": range(6)})
RIGHT = pa.table({"ts": [4, 1, 8, 3, 6, 0], "k": ["a", "b", "a", "b", "b", "d"], "r": range(6)})


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("spec", "algorithm"),
    [
        (jn.Asof(on="ts", by="k"), "hash"),
        (jn.Asof(on="ts", by="k"), "broadcast"),
        (jn.Asof(on="ts", by="k"), "broadcast_left"),
        (jn.Asof(on="ts", by="k", how="full"), "range"),
        (jn.Range(on="ts", by="k", lower=-2, upper=2, how="full"), "range"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_the_partitions_together_are_the_result(spark, spec, algorithm):
    plan = jn.plan(to_spark(spark, LEFT), to_spark(spark, RIGHT), spec, algorithm=algorithm)
    rows = plan.execute()
    placed = rows.withColumn("partition", spark_partition_id()).toArrow()
    for partition in sorted(set(placed["partition"].to_pylist())):
        expected = placed.filter(pa.compute.equal(placed["partition"], partition)).drop_columns(["partition"])
        assert difference(replay(plan, partition), expected, ordered=False) is None


@pytest.mark.in_turn
def test_joins_without_tasks_have_none_and_rows_on_spark_no_numbers(spark):
    plan = jn.plan(LEFT, RIGHT, jn.Asof(on="ts", by="k"))
    with pytest.raises(PlanError, match="replay"):
        replay(plan, 0)
    plan = jn.plan(to_spark(spark, LEFT), to_spark(spark, RIGHT), jn.Asof(on="ts", by="k"), algorithm="window")
    with pytest.raises(PlanError, match="replay"):
        replay(plan, 0)
    for method in (plan.match, plan.row_report, lambda: plan.explain_row(0)):
        with pytest.raises(PlanError, match="runs on Spark, where rows have no numbers"):
            method()
