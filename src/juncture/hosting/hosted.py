"""Plans joins of two streams by Juncture's operator inside Spark. Spark stores and recovers its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.types import LongType, StructField, StructType

from juncture.errors import PlanError
from juncture.hosting.buckets import BucketKeys, ToBuckets
from juncture.hosting.change_frames import ChangeSide, formatted
from juncture.hosting.changes import HostedChanges
from juncture.hosting.endless_plan import endless_plan, resolved_streams
from juncture.hosting.hosted_join import HostedJoin
from juncture.hosting.processor import JoinProcessor
from juncture.hosting.streams import HostedStreams
from juncture.hosting.watermarks import WATERMARK, watermarks
from juncture.incremental.changes.change_batch import WEIGHT, written_schema
from juncture.incremental.join import ChangeSetup
from juncture.matching.order import Order
from juncture.planner.plan import Plan
from juncture.runtime.context import JoinContext
from juncture.spark.exchange import SHUFFLE_PARTITIONS, finish, packets, restore_types, result_schema, task_output
from juncture.spark.input.sides import FrameSide, SparkSide
from juncture.spark.plan import typed_sides
from juncture.spark.session.session import resources, setting
from juncture.spark.tasks.packets import Content, read_packets
from juncture.spark.tasks.stage import OutputStage
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side
from juncture.streams.explain import emission_text, kept_while, order_text, unbounded
from juncture.streams.plan import Setup, StreamPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_OPERATOR = "hosted: Juncture's operator in transformWithState, with rows as Arrow in Spark's state store"


@dataclass(frozen=True)
class FromBuckets(OutputStage):
    """Returns the result rows of buckets."""

    def tables(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the rows."""
        for packet in read_packets(batches):
            if packet.content is Content.OUTPUT:
                yield packet.rows


def plan_streams(
    spec: Any, left: DataFrame, right: DataFrame, *, orders: Mapping[Side, Sequence[Order]], reason: str
) -> Plan:
    """Plan a join of two streams. ``reason`` says why Spark's own operator is not used."""
    sides = FrameSide.of(left, "left"), FrameSide.of(right, "right")
    join = resolved_streams(spec, sides, "a stream")
    join, *typed = typed_sides(join, *sides)
    setup = Setup(
        spec, typed[0].schema, typed[1].schema, tuple(orders["left"]), tuple(orders["right"]), True, late="count"
    )
    plan = StreamPlan(setup)
    for side in SIDES:
        if not plan.bounds[side].is_bounded:
            raise PlanError(unbounded(plan.bounds[side], on_spark=True), name="JN-STREAM-UNBOUNDED")

    def words(buckets: int) -> Iterator[tuple[str, str]]:
        yield "streams", _OPERATOR
        for side in SIDES:
            yield f"{side} order", "; ".join(order_text(order) for order in plan.orders[side])
        for side in SIDES:
            yield f"{side} state", f"rows are kept {kept_while(plan.bounds[side])}"
        yield _buckets_detail(buckets)
        yield "watermarks", "one for each side: the greatest value of its order so far, minus the delay"
        yield "emitted", emission_text(join)

    does = "Juncture's join of two streams in Spark's stateful operator"
    return _plan(
        HostedStreams(setup), join, typed, lambda frame: restore_types(frame, join, *sides), does, reason, words
    )


def plan_changes(spec: Any, left: DataFrame, right: DataFrame, *, output: Any, unmatched_deletes: Any) -> Plan:
    """Plan a join of two streams of changes."""
    sides = ChangeSide.of(left, "left"), ChangeSide.of(right, "right")
    setup = ChangeSetup(spec, sides[0].schema, sides[1].schema, "weight", unmatched_deletes)
    join = resolved_streams(spec, sides, "tables that change")
    written_schema(join.output_schema, output)

    def words(buckets: int) -> Iterator[tuple[str, str]]:
        yield "changes", _OPERATOR
        for side, changes in zip(SIDES, sides, strict=True):
            marks = " and ".join(changes.marks) if changes.marks else "no column: all rows are inserted"
            yield f"{side} changes", marks
        yield "state", "all current rows of both sides"
        yield _buckets_detail(buckets)
        yield "emitted", "once per micro-batch; each changed row once, without changes that cancel"

    does = "Juncture's join of tables that change in Spark's stateful operator"
    return _plan(
        HostedChanges(setup, resources(sides[0].session)),
        join,
        sides,
        lambda frame: formatted(restore_types(frame, join, *sides, more=[WEIGHT]), output),
        does,
        "both sides are streams of changes",
        words,
        more=[StructField(WEIGHT, LongType())],
    )


def _plan(
    hosted: HostedJoin,
    join: Resolved,
    sides: Sequence[SparkSide],
    shown: Callable[[DataFrame], DataFrame],
    summary: str,
    reason: str,
    words: Callable[[int], Iterable[tuple[str, str]]],
    *,
    more: Sequence[StructField] = (),
) -> Plan:
    """Plan a join in the stateful operator. Its result has the columns of the join and ``more``."""
    session = sides[0].session
    _check_store(session)
    # Nothing has to be equal in a join without keys, so all rows are in one bucket.
    buckets = int(session.conf.get(SHUFFLE_PARTITIONS) or 1) if BucketKeys(hosted.join, 1).is_keyed else 1
    limits = resources(session)
    sent = []
    for side, each in zip(SIDES, sides, strict=True):
        frame, feed = each.rows(hosted.columns(side))
        sent.append(packets(frame, ToBuckets(feed, hosted, side, buckets, memory_bytes=limits.memory_bytes)))
    processor = JoinProcessor(hosted, buckets)
    rows = sent[0].union(sent[1]).groupBy("target")
    results = hosted.observed(rows.transformWithStateInPandas(processor, processor.columns, "Append", "None"))
    cells = results.select(F.lit(0).alias("target"), "content", F.lit(None).cast("string").alias("side"), "rows")
    schema = StructType([*result_schema(join, *sides).fields, *more])
    frame = finish(cells, FromBuckets(output=task_output(schema), memory_bytes=limits.memory_bytes), schema)
    return endless_plan(
        join,
        _without_watermarks(shown(frame)),
        session,
        algorithm="hosted",
        summary=summary,
        reason=reason,
        details=words(buckets),
    )


def _buckets_detail(buckets: int) -> tuple[str, str]:
    if buckets > 1:
        return "partitions", f"{buckets:,} by key, as long as the checkpoint lives"
    return "partitions", "one task joins all rows"


def _without_watermarks(frame: DataFrame) -> DataFrame:
    """Return a result without watermarks, since rows that have waited for the other side would be late."""
    fields = frame.schema.fields
    if not watermarks(frame.schema):
        return frame
    kept = [{name: value for name, value in field.metadata.items() if name != WATERMARK} for field in fields]
    safe = [f"c{place}" for place in range(len(fields))]
    columns = [F.col(name).alias(name, metadata=metadata) for name, metadata in zip(safe, kept, strict=True)]
    return frame.toDF(*safe).select(*columns).toDF(*(field.name for field in fields))


def _check_store(session: SparkSession) -> None:
    store = setting(session, _STORE) or ""
    if not store.endswith("RocksDBStateStoreProvider"):
        raise PlanError(
            f"{_STORE} is {store or 'not set'!r}, but this join runs in transformWithState, whose state needs "
            f"RocksDB. Run spark.conf.set({_STORE!r}, {_ROCKS!r}) before planning the join.",
            name="JN-SPARK-SETTING",
        )
