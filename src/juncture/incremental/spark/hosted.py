"""Joins of two tables that change, by our own operator, which Spark hosts: its state is Spark's, and so is recovery."""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.types import LongType, StructField, StructType

from juncture.incremental.change_batch import WEIGHT, written_schema
from juncture.incremental.join import ChangeSetup
from juncture.incremental.spark.output import said
from juncture.incremental.spark.processor import METRICS, RESULT_COLUMNS, ChangeProcessor
from juncture.incremental.spark.scatter import ChangesToBuckets
from juncture.incremental.spark.side import ChangeSide
from juncture.planner.plan import Plan
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.spark.exchange.exchange import finish, packets
from juncture.spark.plan import Query
from juncture.spark.result import given_back, result_schema, task_output
from juncture.spark.session.session import resources
from juncture.spark.type_rules import check_times, check_types
from juncture.spec.resolved import Resolved, refuse_computed
from juncture.spec.schema import SIDES
from juncture.streams.output import held_schema, streaming_join
from juncture.streams.spark.buckets import BucketKeys
from juncture.streams.spark.hosting import (
    FromBuckets,
    bucket_count,
    buckets_detail,
    check_store,
    hosted_choice,
    without_watermarks,
)
from juncture.streams.spark.refusals import refuse_to_count, refuse_to_measure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBSERVED = "juncture_changes_{join}"
"""What the metrics are called by which Spark reports of a join in ``observedMetrics``: those of `METRICS`."""

_DOES = "our own join of tables that change inside Spark's stateful operator"


def plan_hosted(spec: Any, left: DataFrame, right: DataFrame, *, output: Any, unmatched_deletes: Any) -> Plan:
    """Plan a join of two streams of changes."""
    sides = ChangeSide.of(left, "left"), ChangeSide.of(right, "right")
    session = sides[0].session
    setup = ChangeSetup(spec, sides[0].schema, sides[1].schema, "weight", unmatched_deletes)
    join = spec.resolve(*(side.schema for side in sides))
    refuse_computed(join, "tables that change")
    written_schema(join.output_schema, output)
    check_times(sides[0].spark_schema, sides[1].spark_schema, session)
    check_types(join, sides[0].spark_schema, sides[1].spark_schema)
    check_store(session)
    buckets = bucket_count(session, BucketKeys(streaming_join(join), 1))
    limits = resources(session)
    made = without_watermarks(_joined(setup, join, sides, buckets, limits))
    frame = said(given_back(made, join, *sides, more=[WEIGHT]), output)
    return Plan(
        join=join,
        engine="spark",
        choice=hosted_choice(_DOES, "both sides are streams of changes"),
        stats=Stats(left=SideStats(), right=SideStats()),
        resources=limits,
        details=tuple(_words(sides, buckets)),
        run=Query(frame).execute,
        measure=refuse_to_measure,
        count_matches=refuse_to_count,
    )


def _words(sides: tuple[ChangeSide, ChangeSide], buckets: int) -> Iterator[tuple[str, str]]:
    """Say what `explain` says of the join."""
    yield "changes", "hosted: our operator in transformWithState, with its rows as Arrow in Spark's state store"
    for side, given in zip(SIDES, sides, strict=True):
        said_by = " and ".join(given.marks) if given.marks else "no column: all rows come"
        yield f"{side} changes", said_by
    yield "state", "the rows of both sides as they are, which is as much as there is of them"
    yield buckets_detail(buckets)
    yield (
        "emitted",
        "once in each micro-batch, what it changes of the answer; each row once, and none that comes and goes",
    )


def _joined(
    setup: ChangeSetup, join: Resolved, sides: tuple[ChangeSide, ChangeSide], buckets: int, limits: Resources
) -> DataFrame:
    """Return the changes of the answer as Spark makes them, with weights."""
    sent = []
    for side, given in zip(SIDES, sides, strict=True):
        names = held_schema(streaming_join(join), side).names
        frame, feed = given.rows(names)
        stage = ChangesToBuckets(feed, given.columns(names), side, setup, buckets, memory_bytes=limits.memory_bytes)
        sent.append(packets(frame, stage))
    results = (
        sent[0]
        .union(sent[1])
        .groupBy("target")
        .transformWithStateInPandas(ChangeProcessor(setup, buckets, limits), RESULT_COLUMNS, "Append", "None")
        .observe(OBSERVED.format(join=token_hex(4)), *(F.sum(name).alias(name) for name in METRICS))
    )
    fields = result_schema(join, *sides).fields
    schema = StructType([*fields, StructField(WEIGHT, LongType())])
    cells = results.select(F.lit(0).alias("target"), "content", F.lit(None).cast("string").alias("side"), "rows")
    return finish(cells, FromBuckets(output=task_output(schema), memory_bytes=limits.memory_bytes), schema)
