"""The choice for equality joins on Spark: what rules an operator out, and what is taken."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import PlanError
from juncture.planner.algorithm import PlanningInput, held_side
from juncture.planner.choose import algorithms_of, choose
from juncture.planner.decision import Choice
from juncture.planner.statistics import Resources, SideStats, Stats
from support.calls import calls

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
MILLION = 1_000_000
BILLION = 1_000 * MILLION
CALLS_A_COLUMN = 550
"""The most calls of Python that a column more may take to plan, where each of the JVM is about a hundred."""


def asked(
    how: Any = "inner",
    *,
    left: int | None = MILLION,
    right: int | None = MILLION,
    hottest_right: float | None = None,
    lazy: bool = False,
) -> PlanningInput:
    """Return what the choice depends on, for a join of rows of a hundred bytes, in tasks of a gigabyte."""
    sides = [SideStats(rows=rows, row_bytes=None if rows is None else 100) for rows in (left, right)]
    if hottest_right is not None:
        sides[1] = SideStats(rows=right, row_bytes=100, hottest_key_share=hottest_right)
    return PlanningInput(
        join=jn.Equi(on="k", how=how).resolve(SCHEMA, SCHEMA),
        engine="spark",
        stats=Stats(left=sides[0], right=sides[1]),
        resources=Resources(cores=8, memory_bytes=1_000_000_000),
        partitions=200,
        lazy=lazy,
    )


@pytest.mark.parametrize(
    ("planning", "algorithm", "reason"),
    [
        pytest.param(asked("full"), "broadcast", "keeps unmatched right rows", id="broadcast-full"),
        pytest.param(asked("semi"), "broadcast_left", "how='semi' needs all matches", id="broadcast_left-semi"),
        pytest.param(asked(right=BILLION), "broadcast", "the limit for a copy in every task", id="broadcast-large"),
        pytest.param(asked(left=None, lazy=True), "broadcast_left", "is unknown", id="broadcast_left-unknown"),
        pytest.param(asked("semi", right=None, lazy=True), "shuffle_hash", "is unknown", id="shuffle_hash-unknown"),
        pytest.param(
            asked(left=BILLION, right=BILLION),
            "shuffle_hash",
            "one of 200 partitions of the right side takes",
            id="shuffle_hash-large",
        ),
        pytest.param(
            asked(left=BILLION, right=20 * MILLION, hottest_right=0.5),
            "shuffle_hash",
            "the hottest key of the right side takes about 1.0 GB",
            id="shuffle_hash-hot",
        ),
    ],
)
def test_what_cannot_serve_is_refused_with_its_reason(planning: PlanningInput, algorithm: str, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        choose(planning, algorithm)
    refusals = {option.algorithm: option.excluded for option in choose(planning).options}
    assert reason in (refusals[algorithm] or "")


@pytest.mark.parametrize(
    ("planning", "algorithm"),
    [
        pytest.param(asked(left=BILLION, right=1_000), "broadcast", id="small-right"),
        pytest.param(asked(left=1_000, right=BILLION), "broadcast_left", id="small-left"),
        pytest.param(asked("left", left=1_000, right=BILLION), "shuffle_hash", id="small-left-kept"),
        pytest.param(asked(left=BILLION, right=100 * MILLION), "shuffle_hash", id="partitions-fit"),
        pytest.param(asked(left=BILLION, right=BILLION), "sort_merge", id="nothing-fits"),
        pytest.param(asked("semi", left=MILLION, right=BILLION), "sort_merge", id="semi-of-a-large-right"),
        pytest.param(asked(left=None, right=None, lazy=True), "sort_merge", id="lazy"),
    ],
)
def test_each_operator_where_it_is_right(planning: PlanningInput, algorithm: str) -> None:
    choice: Choice = choose(planning)
    assert choice.algorithm == algorithm


@pytest.mark.parametrize(
    ("planning", "side"),
    [
        pytest.param(asked(left=MILLION, right=BILLION), "left", id="smaller"),
        pytest.param(asked("anti", left=MILLION, right=BILLION), "right", id="anti"),
        pytest.param(asked(left=MILLION, right=None), "left", id="unknown"),
    ],
)
def test_tables_are_made_of_the_smaller_side(planning: PlanningInput, side: str) -> None:
    assert held_side(planning, algorithms_of(planning.join.spec, "spark")["shuffle_hash"]) == side


@pytest.mark.in_turn
def test_the_result_of_a_wide_join_is_told_spark_in_a_few_calls(spark):
    wide = {width: spark.range(3).selectExpr("id", *(f"id AS c{i}" for i in range(width))) for width in (50, 150)}
    right = spark.range(3)

    def told(width):
        return calls(lambda: jn.join(wide[width], right, on="id", lazy=True))[1]

    told(50)
    assert told(150) - told(50) < 100 * CALLS_A_COLUMN
