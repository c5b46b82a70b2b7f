"""Plans joins of two streams by Juncture's operator inside Spark. Spark stores and recovers its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.types import LongType, StructField, StructType

from juncture.errors import PlanError
from juncture.hosting.buckets import Buckets
from juncture.hosting.change_frames import ChangeSide, formatted
from juncture.hosting.changes import HostedChanges
from juncture.hosting.endless_plan import endless_plan, resolved_streams
from juncture.hosting.hosted_join import Hosted, HostedJoin
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
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet, read_packets
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side
from juncture.streams.explain import emission_text, kept_while, order_text, unbounded
from juncture.streams.plan import Setup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
WEIGHT_FIELD = StructField(WEIGHT, LongType())
_OPERATOR = "hosted: Juncture's operator in transformWithState, with rows as Arrow in Spark's state store"


@dataclass(frozen=True)
class ToBuckets(PacketStage):
    """Sends the rows of one side to their buckets."""

    feed: Feed
    hosted: HostedJoin
    side: Side
    buckets: int

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield the packets of one task."""
        tables = (table.combine_chunks() for table in self.feed.chunks(batches))
        return self.hosted.packets(self.side, tables, Buckets(self.hosted.join, self.buckets))


@dataclass(frozen=True)
class FromBuckets(OutputStage):
    """Returns the result rows of buckets."""

    def tables(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the rows."""
        for packet in read_packets(batches):
            if packet.content is Content.OUTPUT:
                yield packet.rows


def plan_streams(spec: Any, left: DataFrame, right: DataFrame, *, orders: Mapping[Side, Sequence[Order]]) -> Plan:
    """Plan a join of two streams."""
    sides = FrameSide.of(left, "left"), FrameSide.of(right, "right")
    join = resolved_streams(spec, sides, "a stream")
    join, *typed = typed_sides(join, *sides)
    schemas = typed[0].schema, typed[1].schema
    hosted = HostedStreams(Setup(spec, *schemas, tuple(orders["left"]), tuple(orders["right"]), True, late="count"))
    plan = hosted.plan
    for side in SIDES:
        if not plan.bounds[side].is_bounded:
            raise PlanError(unbounded(plan.bounds[side], on_spark=True), name="JN-STREAM-UNBOUNDED")
    buckets = _bucket_count(hosted, sides[0].session)
    return endless_plan(
        join,
        _without_watermarks(restore_types(_results(hosted, join, typed, buckets), join, *sides)),
        sides[0].session,
        algorithm="hosted",
        summary="Juncture's join of two streams in Spark's stateful operator",
        reason="both sides are streams",
        details=[
            ("streams", _OPERATOR),
            *((f"{side} order", "; ".join(order_text(order) for order in plan.orders[side])) for side in SIDES),
            *((f"{side} state", f"rows are kept {kept_while(plan.bounds[side])}") for side in SIDES),
            _buckets_detail(buckets),
            ("watermarks", "one for each side: the greatest value of its order so far, minus the delay"),
            ("emitted", emission_text(join)),
        ],
    )


def plan_changes(spec: Any, left: DataFrame, right: DataFrame, *, output: Any, unmatched_deletes: Any) -> Plan:
    """Plan a join of two streams of changes."""
    sides = ChangeSide.of(left, "left"), ChangeSide.of(right, "right")
    setup = ChangeSetup(spec, sides[0].schema, sides[1].schema, "weight", unmatched_deletes)
    join = resolved_streams(spec, sides, "tables that change")
    written_schema(join.output_schema, output)
    hosted = HostedChanges(setup, resources(sides[0].session))
    buckets = _bucket_count(hosted, sides[0].session)
    results = _results(hosted, join, sides, buckets, more=[WEIGHT_FIELD])
    return endless_plan(
        join,
        _without_watermarks(formatted(restore_types(results, join, *sides, more=[WEIGHT]), output)),
        sides[0].session,
        algorithm="hosted",
        summary="Juncture's join of tables that change in Spark's stateful operator",
        reason="both sides are streams of changes",
        details=[
            ("changes", _OPERATOR),
            *(
                (f"{side} changes", " and ".join(each.marks) or "no column: all rows are inserted")
                for side, each in zip(SIDES, sides, strict=True)
            ),
            ("state", "all current rows of both sides"),
            _buckets_detail(buckets),
            ("emitted", "once per micro-batch; each changed row once, without changes that cancel"),
        ],
    )


def _bucket_count(hosted: HostedJoin, session: SparkSession) -> int:
    """Return the number of buckets of a join."""
    check_store(session)
    return Buckets(hosted.join, int(session.conf.get(SHUFFLE_PARTITIONS) or 1)).count


def check_store(session: SparkSession) -> None:
    """Raise `PlanError` if Spark cannot store the state of its stateful operator."""
    store = setting(session, _STORE) or ""
    if not store.endswith("RocksDBStateStoreProvider"):
        raise PlanError(
            f"{_STORE} is {store or 'not set'!r}, but this join runs in transformWithState, whose state needs "
            f"RocksDB. Run spark.conf.set({_STORE!r}, {_ROCKS!r}) before planning the join.",
            name="JN-SPARK-SETTING",
        )


def _results(
    hosted: HostedJoin, join: Resolved, sides: Sequence[SparkSide], buckets: int, more: Sequence[StructField] = ()
) -> DataFrame:
    """Return the results of the stateful operator, with the columns of the join and ``more``."""
    memory_bytes = resources(sides[0].session).memory_bytes
    sent = []
    for side, each in zip(SIDES, sides, strict=True):
        frame, feed = each.rows(hosted.columns(side))
        sent.append(packets(frame, ToBuckets(feed, hosted, side, buckets, memory_bytes=memory_bytes)))
    schema = StructType([*result_schema(join, *sides).fields, *more])
    return stateful(hosted, sent, buckets, schema, memory_bytes)


def stateful(
    hosted: Hosted, sent: Sequence[DataFrame], buckets: int, schema: StructType, memory_bytes: int
) -> DataFrame:
    """Return the results, of some schema, of the stateful operator for packets."""
    processor = JoinProcessor(hosted, buckets)
    rows = reduce(lambda one, other: one.union(other), sent).groupBy("target")
    results = hosted.observed(rows.transformWithStateInPandas(processor, processor.columns, "Append", "None"))
    cells = results.select(F.lit(0).alias("target"), "content", F.lit(None).cast("string").alias("side"), "rows")
    return finish(cells, FromBuckets(output=task_output(schema), memory_bytes=memory_bytes), schema)


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
