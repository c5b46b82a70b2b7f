"""Joins of two streams by Juncture's operator inside Spark. Spark stores and recovers its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import PlanError
from juncture.hosting.buckets import BucketKeys
from juncture.hosting.progress import observed
from juncture.hosting.refusals import refuse_to_count, refuse_to_measure
from juncture.hosting.results import (
    FromBuckets,
    bucket_count,
    buckets_detail,
    check_store,
    hosted_choice,
    without_watermarks,
)
from juncture.hosting.stream_processor import RESULT_COLUMNS, JoinProcessor
from juncture.hosting.stream_scatter import ToBuckets
from juncture.hosting.virtual_time import delay_of
from juncture.planner.plan import Plan
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.spark.exchange import finish, given_back, packets, result_schema, task_output
from juncture.spark.input.sides import FrameSide, SparkSide
from juncture.spark.plan import Query, typed_sides
from juncture.spark.schema import check_times, check_types
from juncture.spark.session.session import resources
from juncture.spec.resolved import Resolved, refuse_computed
from juncture.spec.schema import SIDES, Side
from juncture.streams.explain import emission_text, kept_while, order_text, unbounded
from juncture.streams.order import Order
from juncture.streams.plan import StreamPlan
from juncture.streams.progress import OBSERVED, Scale
from juncture.streams.setup import Setup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def plan_hosted(
    spec: Any, left: DataFrame, right: DataFrame, *, orders: Mapping[Side, Sequence[Order]], reason: str
) -> Plan:
    """Plan a join of two streams. ``reason`` says why Spark's own operator is not used."""
    sides = FrameSide.of(left, "left"), FrameSide.of(right, "right")
    session = sides[0].session
    join = spec.resolve(sides[0].schema, sides[1].schema)
    refuse_computed(join, "a stream")
    check_times(sides[0].spark_schema, sides[1].spark_schema, session)
    check_types(join, sides[0].spark_schema, sides[1].spark_schema)
    join, *typed = typed_sides(join, *sides)
    setup = Setup(
        spec, typed[0].schema, typed[1].schema, tuple(orders["left"]), tuple(orders["right"]), True, late="count"
    )
    plan = StreamPlan(setup)
    for side in SIDES:
        if not plan.bounds[side].is_bounded:
            raise PlanError(unbounded(plan.bounds[side], on_spark=True), name="JN-STREAM-UNBOUNDED")
    check_store(session)
    buckets = bucket_count(session, BucketKeys(plan.join, 1))
    limits = resources(session)
    frame = _joined(plan, join, typed, buckets, limits)
    query = Query(without_watermarks(given_back(frame, join, *sides)))
    return Plan(
        join=join,
        engine="spark",
        choice=hosted_choice(_DOES, reason),
        stats=Stats(left=SideStats(), right=SideStats()),
        resources=limits,
        details=tuple(_words(plan, join, buckets)),
        _run=query.execute,
        _measure=refuse_to_measure,
        _count_matches=refuse_to_count,
    )


_DOES = "Juncture's join of two streams in Spark's stateful operator"


def _words(plan: StreamPlan, join: Resolved, buckets: int) -> Iterator[tuple[str, str]]:
    """Yield the lines of `explain()`."""
    yield "streams", "hosted: Juncture's operator in transformWithState, with rows as Arrow in Spark's state store"
    for side in SIDES:
        yield f"{side} order", "; ".join(order_text(order) for order in plan.orders[side])
    for side in SIDES:
        yield f"{side} state", f"rows are kept {kept_while(plan.bounds[side])}"
    yield buckets_detail(buckets)
    yield "watermarks", "one for each side: the greatest value of its order so far, minus the delay"
    yield "emitted", emission_text(join)


def _joined(plan: StreamPlan, join: Resolved, sides: Sequence[SparkSide], buckets: int, limits: Resources) -> DataFrame:
    """Return the join as a DataFrame."""
    setup = plan.setup
    sent = []
    for side, given in zip(SIDES, sides, strict=True):
        frame, feed = given.rows(plan.seen[side].names)
        sent.append(packets(frame, ToBuckets(feed, side, setup, buckets, memory_bytes=limits.memory_bytes)))
    results = (
        sent[0]
        .union(sent[1])
        .groupBy("target")
        .transformWithStateInPandas(JoinProcessor(setup, buckets), RESULT_COLUMNS, "Append", "None")
    )
    results = _observed(results, plan)
    schema = result_schema(join, *sides)
    cells = results.select(F.lit(0).alias("target"), "content", F.lit(None).cast("string").alias("side"), "rows")
    return finish(cells, FromBuckets(output=task_output(schema), memory_bytes=limits.memory_bytes), schema)


def _observed(results: DataFrame, plan: StreamPlan) -> DataFrame:
    """Return the results, with metrics that Spark reports."""
    token = token_hex(4)
    for side in SIDES:
        order = plan.orders[side][0]
        kind, delay = order.node.type, float(delay_of(order))
        sign = -1.0 if order.order.descending else 1.0
        metrics = {name: F.sum(f"{side}_{name}") for name in ("rows", "state_rows", "state_bytes", "late_rows")}
        metrics["last"] = F.max(f"{side}_passed") + F.lit(delay)
        results = observed(results, token, side, metrics, Scale(kind.kind, kind.zoned, sign, delay))
    return results.observe(OBSERVED.format(join=token, side="out"), F.sum("output_rows").alias("rows"))
