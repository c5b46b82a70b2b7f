"""What hosted joins of streams and of changes share: the state store, buckets and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import PlanError
from juncture.hosting.buckets import BucketKeys
from juncture.hosting.refusals import UNENDING
from juncture.hosting.watermarks import WATERMARK, watermarks
from juncture.planner.decision import Choice, Estimate, Option
from juncture.runtime.context import JoinContext
from juncture.spark.exchange import SHUFFLE_PARTITIONS
from juncture.spark.session.session import setting
from juncture.spark.tasks.packets import Content, read_packets
from juncture.spark.tasks.stage import OutputStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class FromBuckets(OutputStage):
    """Returns the result rows of buckets."""

    def tables(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the rows."""
        for packet in read_packets(batches):
            if packet.content is Content.OUTPUT:
                yield packet.rows


def bucket_count(session: SparkSession, keys: BucketKeys) -> int:
    """Return the number of buckets: that of Spark's partitions, or 1 if nothing has to be equal."""
    return int(session.conf.get(SHUFFLE_PARTITIONS) or 1) if keys.is_keyed else 1


def buckets_detail(buckets: int) -> tuple[str, str]:
    """Return the line of `explain()` on buckets."""
    if buckets > 1:
        return "partitions", f"{buckets:,} by key, as long as the checkpoint lives"
    return "partitions", "one task joins all rows"


def hosted_choice(does: str, reason: str) -> Choice:
    """Return the choice of Juncture's operator."""
    return Choice(
        algorithm="hosted",
        reason=reason,
        options=(Option(algorithm="hosted", summary=does, remark=UNENDING),),
        output_rows=Estimate(value=None, source="streams have no end"),
        shuffle_bytes=None,
        task_bytes=None,
    )


def without_watermarks(frame: DataFrame) -> DataFrame:
    """Return a result without watermarks, since rows that have waited for the other side would be late."""
    fields = frame.schema.fields
    if not watermarks(frame.schema):
        return frame
    kept = [{name: value for name, value in field.metadata.items() if name != WATERMARK} for field in fields]
    safe = [f"c{place}" for place in range(len(fields))]
    columns = [F.col(name).alias(name, metadata=metadata) for name, metadata in zip(safe, kept, strict=True)]
    return frame.toDF(*safe).select(*columns).toDF(*(field.name for field in fields))


def check_store(session: SparkSession) -> None:
    """Raise an error with the setting that helps if the session's state store does not support stateful operators."""
    store = setting(session, _STORE) or ""
    if not store.endswith("RocksDBStateStoreProvider"):
        raise PlanError(
            f"{_STORE} is {store or 'not set'!r}, but this join runs in transformWithState, whose state needs "
            f"RocksDB. Run spark.conf.set({_STORE!r}, {_ROCKS!r}) before planning the join.",
            name="JN-SPARK-SETTING",
        )
