"""Packets between Spark's stages, the last stage's way back to a DataFrame, and rows on their way to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.spark.schema import nullable, spark_schema
from juncture.spark.tasks.packets import PACKET_SCHEMA, Content
from juncture.spark.tasks.stage import OutputStage, PacketStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def packets(frame: DataFrame, stage: PacketStage) -> DataFrame:
    """Return what tasks make of a DataFrame's partitions, as packets."""
    # Types as text would have to be parsed by the JVM, which takes longer than all else that is done here.
    return frame.mapInArrow(stage, spark_schema(PACKET_SCHEMA))


def shuffled(frame: DataFrame, partitions: int) -> DataFrame:
    """Send each packet to the partition that it names."""
    return frame.repartitionById(partitions, "target")


def placeholders(session: SparkSession, partitions: int) -> DataFrame:
    """Return a packet with nothing in it for each partition, so that each has a task that knows its number."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    columns = {
        "target": F.col("id").cast("int"),
        "content": F.lit(Content.EMPTY.value),
        "side": F.lit(None).cast("string"),
        "rows": F.lit(None).cast("binary"),
    }
    return session.range(0, partitions, 1, 1).select(*(column.alias(name) for name, column in columns.items()))


def finish(frame: DataFrame, stage: OutputStage, schema: StructType) -> DataFrame:
    """Return what the last tasks make of their partitions, under the names of the result.

    An error that a task met is a row of its own, which becomes Spark's own error for a query that gives up.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
    from pyspark.sql.types import StringType, StructField, StructType

    fields = [StructField(f"c{i}", field.dataType) for i, field in enumerate(schema.fields)]
    rows = frame.mapInArrow(stage, StructType([*fields, StructField("error", StringType())]))
    rows = rows.where(F.col("error").isNull() | F.raise_error(F.col("error")).cast("boolean"))
    return rows.drop("error").toDF(*schema.names)


def collected(frame: DataFrame) -> pa.Table:
    """Return the rows of a DataFrame whose names hold neither dots nor backticks.

    PySpark cannot hand over a null that stands for a struct whose fields are never null, so no type promises that.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    types = [(field.name, field.dataType, nullable(field.dataType)) for field in frame.schema.fields]
    if any(promised != loose for _, promised, loose in types):
        frame = frame.select(*(F.col(name).cast(loose) for name, _, loose in types)).toDF(*frame.columns)
    return frame.toArrow()
