"""Packets between Spark's stages, the last stage's output as a DataFrame, and rows collected by the driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.runtime.context import join_context
from juncture.spark.schema import nullable, spark_schema
from juncture.spark.tasks.packets import PACKET_SCHEMA, Content
from juncture.spark.tasks.stage import OutputStage, PacketStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def packets(frame: DataFrame, stage: PacketStage) -> DataFrame:
    """Return the packets that tasks make of a DataFrame's partitions."""
    # The JVM would have to parse types given as text, which takes longer than the rest of this function.
    return frame.mapInArrow(stage, spark_schema(PACKET_SCHEMA))


def shuffled(frame: DataFrame, partitions: int) -> DataFrame:
    """Send each packet to its target partition."""
    return frame.repartitionById(partitions, "target")


def placeholders(session: SparkSession, partitions: int) -> DataFrame:
    """Return an empty packet for each partition, so that each has a task that knows its number."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    columns = {
        "target": F.col("id").cast("int"),
        "content": F.lit(Content.EMPTY.value),
        "side": F.lit(None).cast("string"),
        "rows": F.lit(None).cast("binary"),
    }
    return session.range(0, partitions, 1, 1).select(*(column.alias(name) for name, column in columns.items()))


@dataclass(frozen=True)
class LastTasks:
    """The tasks that return rows of a result: the rows that they receive, and the stage that runs in each.

    `partitions` is the number of tasks; None if Spark decides.
    """

    frame: DataFrame
    stage: OutputStage
    partitions: int | None = None

    def rows(self, schema: StructType) -> DataFrame:
        """Return the rows of all tasks."""
        return finish(self.frame, self.stage, schema)

    def replayed(self, partition: int) -> Iterator[pa.Table]:
        """Run one task in this process, and yield its rows; its errors are raised."""
        # A filter would not do: Spark evaluates it before it divides the rows of a local table.
        received = collected(self.frame.mapInArrow(partial(_of_partition, partition), self.frame.schema))
        with join_context(threads=1, memory_bytes=self.stage.memory_bytes) as context:
            for batch in self.stage.output.batches(self.stage.tables(received.to_batches(), context)):
                yield pa.Table.from_batches([batch]).drop_columns(["error"])


def _of_partition(partition: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one task, and none of others."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is not None and task.partitionId() == partition:
        yield from batches


def finish(frame: DataFrame, stage: OutputStage, schema: StructType) -> DataFrame:
    """Return the rows of the last tasks under the names of the result.

    An error row from a task becomes Spark's error of the query.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
    from pyspark.sql.types import StringType, StructField, StructType

    fields = [StructField(f"c{i}", field.dataType) for i, field in enumerate(schema.fields)]
    rows = frame.mapInArrow(stage, StructType([*fields, StructField("error", StringType())]))
    rows = rows.where(F.col("error").isNull() | F.raise_error(F.col("error")).cast("boolean"))
    return rows.drop("error").toDF(*schema.names)


def collected(frame: DataFrame) -> pa.Table:
    """Return a DataFrame's rows; its names contain neither dots nor backticks.

    PySpark cannot convert null structs with non-nullable fields, so all types are made nullable.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    types = [(field.name, field.dataType, nullable(field.dataType)) for field in frame.schema.fields]
    if any(promised != loose for _, promised, loose in types):
        frame = frame.select(*(F.col(name).cast(loose) for name, _, loose in types)).toDF(*frame.columns)
    return frame.toArrow()
