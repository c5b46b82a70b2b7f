"""What can be known of a join on Spark once it has run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import juncture as jn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        pytest.param(jn.Asof(on="id"), 100, id="asof"),
        pytest.param(jn.Range(on="id", lower=-1, upper=0), 20, id="range"),
        pytest.param(jn.Where("l.id < 0 AND l.id = r.id"), 0, id="none"),
    ],
)
def test_rows_and_time_are_known_and_the_rest_is_said_not_to_be(spark: SparkSession, spec: jn.Asof, rows: int) -> None:
    left, right = spark.range(100), spark.range(10)
    plan = jn.plan(left, right, spec)
    analysis = plan.analyze(keep=True)
    assert analysis.run.rows == rows == plan.execute().count()
    assert analysis.run.seconds > 0
    assert analysis.result.count() == rows
    assert analysis.run.left_rows is None
    assert "    shuffle    not known: " in str(analysis)
    assert set(json.loads(analysis.explain(format="json"))["run"]["unknown"]) == {
        "left, right",
        "shuffle",
        "spilled",
        "memory",
    }
