"""The choice for range, overlap and predicate joins: what a predicate offers, and what is taken."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import PlanError
from juncture.local.kinds import planning_input
from juncture.planner.algorithm import JoinFeatures, PlanningInput
from juncture.planner.choose import choose
from juncture.planner.decision import Choice
from juncture.planner.statistics import Resources, SideStats, Stats

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64()), ("k", pa.string())])
RANGE = jn.Range(on="a", lower=-1, upper=1)
OVERLAP = jn.Overlap(left_interval=("a", "b"), right_interval=("a", "b"))
MILLION = 1_000_000


def in_process(
    spec: Any, algorithm: str = "auto", *, left: int | None = MILLION, right: int | None = MILLION
) -> Choice:
    stats = Stats(left=SideStats(rows=left), right=SideStats(rows=right))
    join = spec.resolve(SCHEMA, SCHEMA)
    return choose(planning_input(join, stats, Resources(cores=2, memory_bytes=1 << 30)), algorithm)


@pytest.mark.parametrize(
    ("spec", "algorithm"),
    [
        pytest.param(RANGE, "binary_search", id="range"),
        pytest.param(jn.Range(on="a", lower=0), "binary_search", id="range-open"),
        pytest.param(OVERLAP, "interval_tree", id="overlap"),
        pytest.param(jn.Where("l.a = r.a"), "binary_search", id="equality"),
        pytest.param(jn.Where("l.a + l.b > r.c", by="k"), "binary_search", id="by"),
        pytest.param(jn.Where("l.a <= r.b"), "binary_search", id="inequality"),
        pytest.param(jn.Where("l.a <= r.b AND l.a * l.b <> r.c"), "binary_search", id="inequality-and-more"),
        pytest.param(jn.Where("l.a <= r.b AND r.a <= l.b"), "interval_tree", id="two-inequalities"),
        pytest.param(
            jn.Where("l.a - 2 <= r.a AND r.a <= l.a + 2 AND l.c < r.c"), "interval_tree", id="band-and-inequality"
        ),
        pytest.param(jn.Where("l.a * r.a > 5 OR l.b = r.c"), "block_nested_loop", id="nothing-to-sort-by"),
    ],
)
@pytest.mark.parametrize("rows", [1_000, MILLION])
def test_the_most_is_made_of_what_the_conditions_offer(spec: Any, algorithm: str, rows: int | None) -> None:
    assert in_process(spec, left=rows, right=rows).algorithm == algorithm


@pytest.mark.parametrize("spec", [RANGE, OVERLAP, jn.Where("l.a <= r.b"), jn.Where("l.a * r.a > 5")], ids=repr)
@pytest.mark.parametrize("rows", [100 * MILLION, None])
def test_what_may_not_fit_goes_to_disk(spec: Any, rows: int | None) -> None:
    choice = in_process(spec, right=rows)
    assert choice.algorithm == "external_merge"
    if rows is not None:
        with pytest.raises(PlanError, match=r"right rows take about 8\.8 GB, but only 644\.2 MB is available\."):
            in_process(spec, "nested_loop", right=rows)


def test_a_handful_of_pairs_is_just_compared() -> None:
    assert in_process(RANGE, left=1, right=1).algorithm == "nested_loop"


@pytest.mark.parametrize(
    ("spec", "algorithm", "reason"),
    [
        pytest.param(jn.Where("l.a <= r.b"), "interval_tree", "two different right expressions", id="tree"),
        pytest.param(jn.Where("l.a <= r.b", by="k"), "block_nested_loop", "does not support by=", id="blocks"),
    ],
)
def test_what_cannot_serve_is_refused_with_its_reason(spec: Any, algorithm: str, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        in_process(spec, algorithm)
    refusals = {option.algorithm: option.excluded for option in in_process(spec).options}
    assert reason in (refusals[algorithm] or "")


@pytest.mark.parametrize("spec", [RANGE, OVERLAP, jn.Where("l.a = r.a")])
def test_a_stream_whose_rows_nobody_has_counted_is_planned(spec: Any) -> None:
    table = pa.table({"a": [1, 2], "b": [3, 4]})
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    assert jn.plan(stream, table, spec).execute().num_rows > 0


def on_spark(
    spec: Any,
    algorithm: str = "auto",
    *,
    left: int | None = MILLION,
    right: int | None = MILLION,
    lazy: bool = False,
    **offered: Any,
) -> Choice:
    sides = [SideStats(rows=rows, row_bytes=None if rows is None else 24) for rows in (left, right)]
    planning = PlanningInput(
        join=spec.resolve(SCHEMA, SCHEMA),
        engine="spark",
        stats=Stats(left=sides[0], right=sides[1]),
        resources=Resources(cores=2, memory_bytes=2_000_000_000),
        lazy=lazy,
        features=JoinFeatures(**({"is_partitionable": True, "is_bounded": True} | offered)),
    )
    return choose(planning, algorithm)


FULL = jn.Range(on="a", lower=-1, upper=1, how="full")
AGGREGATED = jn.Range(on="a", lower=-1, upper=1, agg={"b": "mean"})
WHERE = jn.Where("l.a < r.b")
KEYED = jn.Where("l.k = r.k AND l.a < r.b")
LARGE = {"left": 100 * MILLION, "right": 100 * MILLION, "has_keys": True}


@pytest.mark.parametrize(
    ("spec", "algorithm", "changes", "reason"),
    [
        pytest.param(FULL, "broadcast", {}, "keeps unmatched right rows", id="broadcast-full"),
        pytest.param(FULL, "broadcast_left", {}, "how='full' needs all matches", id="broadcast_left-full"),
        pytest.param(AGGREGATED, "broadcast_left", {}, "agg= needs all matches", id="broadcast_left-agg"),
        pytest.param(RANGE, "broadcast", {"lazy": True}, "collects one side", id="broadcast-lazy"),
        pytest.param(
            RANGE, "broadcast", {"right": 100 * MILLION}, "the limit for a copy in every task", id="broadcast-large"
        ),
        pytest.param(RANGE, "range", {"lazy": True}, "samples both sides", id="range-lazy"),
        pytest.param(WHERE, "range", {"is_partitionable": False}, "no condition determines", id="range-without-places"),
        pytest.param(AGGREGATED, "nested_loop", {}, "make all matches", id="nested-agg"),
        pytest.param(RANGE, "bins", {"no_sql": "no common type."}, "no common type", id="bins-without-sql"),
        pytest.param(RANGE, "bins", {"is_bounded": False}, "share a bin", id="bins-open"),
        pytest.param(OVERLAP, "bins", {"lazy": True, "needs_sample": True}, "need a sample", id="bins-lazy"),
        pytest.param(WHERE, "sql", {}, "nothing has to be equal", id="sql-without-keys"),
    ],
)
def test_what_cannot_serve_on_spark_is_refused_with_its_reason(
    spec: Any, algorithm: str, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(PlanError, match=reason):
        on_spark(spec, algorithm, **changes)
    choice = on_spark(spec, **changes)
    assert choice.algorithm != algorithm
    assert reason in (next(option.excluded for option in choice.options if option.algorithm == algorithm) or "")


@pytest.mark.parametrize(
    ("spec", "changes", "algorithm"),
    [
        pytest.param(RANGE, {"right": 1_000, "left": 100 * MILLION}, "broadcast", id="small-right"),
        pytest.param(RANGE, {"left": 1_000, "right": 100 * MILLION}, "broadcast_left", id="small-left"),
        pytest.param(RANGE, {"left": 10, "right": 10}, "nested_loop", id="few-pairs"),
        pytest.param(AGGREGATED, {"left": 100 * MILLION, "right": 100 * MILLION}, "range", id="agg"),
        pytest.param(
            OVERLAP,
            {"left": 100 * MILLION, "right": 100 * MILLION, "pairs": 1e8, "candidates": 1e6},
            "range",
            id="crowded-bins",
        ),
        pytest.param(RANGE, {"left": None, "right": None, "lazy": True}, "bins", id="lazy"),
        pytest.param(KEYED, LARGE, "range", id="keys that nobody has looked at"),
        pytest.param(KEYED, LARGE | {"key_pairs": 5e8, "pairs": 2.5e8}, "sql", id="keys of few rows"),
        pytest.param(KEYED, LARGE | {"key_pairs": 5e12, "pairs": 1e8}, "range", id="keys of many rows"),
    ],
)
def test_the_least_cost_is_taken_on_spark(spec: Any, changes: dict[str, Any], algorithm: str) -> None:
    assert on_spark(spec, **changes).algorithm == algorithm
