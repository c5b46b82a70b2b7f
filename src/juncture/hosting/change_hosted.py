"""Joins of two streams of changes by Juncture's operator inside Spark. Spark stores and recovers its state."""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.types import LongType, StructField, StructType

from juncture.hosting.buckets import BucketKeys
from juncture.hosting.change_frames import ChangeSide
from juncture.hosting.change_output import formatted
from juncture.hosting.change_processor import METRICS, RESULT_COLUMNS, ChangeProcessor
from juncture.hosting.change_scatter import ChangesToBuckets
from juncture.hosting.refusals import refuse_to_count, refuse_to_measure
from juncture.hosting.results import (
    FromBuckets,
    bucket_count,
    buckets_detail,
    check_store,
    hosted_choice,
    without_watermarks,
)
from juncture.incremental.change_batch import WEIGHT, written_schema
from juncture.incremental.join import ChangeSetup
from juncture.matching.output import held_schema, streaming_join
from juncture.planner.plan import Plan
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.spark.exchange import finish, given_back, packets, result_schema, task_output
from juncture.spark.plan import Query
from juncture.spark.schema import check_times, check_types
from juncture.spark.session.session import resources
from juncture.spec.resolved import Resolved, refuse_computed
from juncture.spec.schema import SIDES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBSERVED = "juncture_changes_{join}"
"""Name of the `METRICS` of a join in ``observedMetrics``."""

_DOES = "Juncture's join of tables that change in Spark's stateful operator"


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
    frame = formatted(given_back(made, join, *sides, more=[WEIGHT]), output)
    return Plan(
        join=join,
        engine="spark",
        choice=hosted_choice(_DOES, "both sides are streams of changes"),
        stats=Stats(left=SideStats(), right=SideStats()),
        resources=limits,
        details=tuple(_words(sides, buckets)),
        _run=Query(frame).execute,
        _measure=refuse_to_measure,
        _count_matches=refuse_to_count,
    )


def _words(sides: tuple[ChangeSide, ChangeSide], buckets: int) -> Iterator[tuple[str, str]]:
    """Yield the lines of `explain()`."""
    yield "changes", "hosted: Juncture's operator in transformWithState, with rows as Arrow in Spark's state store"
    for side, given in zip(SIDES, sides, strict=True):
        marks = " and ".join(given.marks) if given.marks else "no column: all rows are inserted"
        yield f"{side} changes", marks
    yield "state", "all current rows of both sides"
    yield buckets_detail(buckets)
    yield "emitted", "once per micro-batch; each changed row once, without changes that cancel"


def _joined(
    setup: ChangeSetup, join: Resolved, sides: tuple[ChangeSide, ChangeSide], buckets: int, limits: Resources
) -> DataFrame:
    """Return the changes of the result, with weights, as a DataFrame."""
    sent, held = [], streaming_join(join)
    for side, given in zip(SIDES, sides, strict=True):
        names = held_schema(held, side).names
        frame, feed = given.rows(names)
        stage = ChangesToBuckets(feed, given.columns(names), side, held, buckets, memory_bytes=limits.memory_bytes)
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
