"""What joins that Spark hosts have in common, of streams and of changes: the store of their state, and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import PlanError
from juncture.planner.decision import Choice, Estimate, Option
from juncture.runtime.context import JoinContext
from juncture.spark.query import SHUFFLE_PARTITIONS
from juncture.spark.session.session import setting
from juncture.spark.tasks.packets import Content, read_packets
from juncture.spark.tasks.stage import OutputStage
from juncture.streams.spark.buckets import BucketKeys
from juncture.streams.spark.refusals import UNENDING
from juncture.streams.spark.watermarks import WATERMARK, watermarks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class FromBuckets(OutputStage):
    """Makes rows of the result of what buckets give."""

    def tables(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the rows."""
        for packet in read_packets(batches):
            if packet.content is Content.OUTPUT:
                yield packet.rows


def bucket_count(session: SparkSession, keys: BucketKeys) -> int:
    """Return how many buckets a join has: as many as Spark has partitions, if anything has to be equal."""
    return int(session.conf.get(SHUFFLE_PARTITIONS) or 1) if keys.is_keyed else 1


def buckets_told(buckets: int) -> tuple[str, str]:
    """Say what `explain` says of them."""
    if buckets > 1:
        return "partitions", f"{buckets:,} by key, as long as the checkpoint lives"
    return "partitions", "one task joins all rows"


def hosted_choice(does: str, reason: str) -> Choice:
    """Return the choice of our own operator, among no others."""
    return Choice(
        algorithm="hosted",
        reason=reason,
        options=(Option(algorithm="hosted", summary=does, remark=UNENDING),),
        rows=Estimate(value=None, source="streams have no end"),
        shuffle_bytes=None,
        task_bytes=None,
    )


def without_watermarks(frame: DataFrame) -> DataFrame:
    """Return a result whose columns have no watermarks: rows that have waited for the other side would be behind."""
    fields = frame.schema.fields
    if not watermarks(frame.schema):
        return frame
    kept = [{name: value for name, value in field.metadata.items() if name != WATERMARK} for field in fields]
    safe = [f"c{place}" for place in range(len(fields))]
    columns = [F.col(name).alias(name, metadata=metadata) for name, metadata in zip(safe, kept, strict=True)]
    return frame.toDF(*safe).select(*columns).toDF(*(field.name for field in fields))


def check_store(session: SparkSession) -> None:
    """Refuse sessions whose state store hosts no operators of others.

    Raises
    ------
    PlanError
        With the setting that mends it.
    """
    store = setting(session, _STORE) or ""
    if not store.endswith("RocksDBStateStoreProvider"):
        raise PlanError(
            f"{_STORE} is {store or 'not set'!r}, but this join runs in transformWithState, whose state needs "
            f"RocksDB. Run spark.conf.set({_STORE!r}, {_ROCKS!r}) before planning the join.",
            name="JN-SPARK-SETTING",
        )
