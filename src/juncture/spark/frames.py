"""Operations on DataFrames that some supported versions of PySpark lack, or lack on Spark Connect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from juncture.spark.schema import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def union_all(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all DataFrames."""
    return reduce(lambda one, other: one.unionAll(other), frames)


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return the rows of a DataFrame; before Spark 4.0, by Python workers."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    schema = arrow_schema(frame.schema, "left")
    streams = frame.mapInArrow(_written(), "rows binary").collect()
    tables = [pa.ipc.open_stream(bytes(stream[0])).read_all() for stream in streams]
    # Field names of nested types, and nullability, differ between versions.
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])


def _written() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the task that writes each batch as an Arrow stream, as code, since a worker may lack this module."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["rows"])

    return write


def from_arrow(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return an Arrow table as a DataFrame."""
    schema = spark_schema(table.schema)
    if hasattr(DataFrame, "toArrow"):
        return session.createDataFrame(table, schema=schema)
    # Before Spark 4.0, a session takes rows only.
    return session.createDataFrame([tuple(row.values()) for row in table.to_pylist()], schema)
