"""The algorithms of each engine, what each refuses, and how a join is run under one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat

import juncture as jn
from juncture.planner.choose import choose
from juncture.planner.stats import Resources, Stats
from juncture.spec.asof import Asof, ResolvedAsof
from support.kinds import Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "LOCAL",
    "LOCAL_EQUI",
    "LOCAL_NEAR",
    "SPARK",
    "fits_spark",
    "join_in_process",
    "refuses",
    "run_in_process",
    "run_on_spark",
    "spark_type",
    "to_spark",
]

LOCAL = ("probe", "merge")
LOCAL_EQUI = ("hash", "parallel_hash", "grace", "sort_merge", "external_sort_merge")
LOCAL_NEAR = {
    "range": ("sorted", "nested"),
    "overlap": ("tree", "nested"),
    "where": ("auto", "sorted", "nested"),
    "equi": LOCAL_EQUI,
}
SPARK = ("broadcast", "broadcast_left", "hash", "range", "window")


def refuses(algorithm: str, join: ResolvedAsof) -> bool:
    """Tell whether an algorithm has to refuse a join. No other refusal passes."""
    spec = join.spec
    if spec.how in ("right", "full") and algorithm in ("broadcast", "broadcast_left", "window"):
        return True
    if algorithm == "hash":
        return not join.left_by
    return algorithm == "window" and (spec.matches > 1 or spec.ties == "error")


def fits_spark(schema: pa.Schema) -> bool:
    """Tell whether Spark has the types of a schema."""
    return all(spark_type(field.type) for field in schema)


def spark_type(data_type: pa.DataType) -> bool:
    """Tell whether Spark has a type, so that it comes back as it went in."""
    if pat.is_timestamp(data_type):
        return data_type.unit == "us" and data_type.tz in (None, "UTC")
    if pat.is_duration(data_type):
        return data_type.unit == "us"
    if pat.is_decimal(data_type):
        return pat.is_decimal128(data_type)
    if pat.is_map(data_type):
        return spark_type(data_type.key_type) and spark_type(data_type.item_type)
    if pat.is_struct(data_type):
        return all(spark_type(field.type) for field in data_type)
    if pat.is_list(data_type):
        return spark_type(data_type.value_type)
    return data_type in SCALARS


SCALARS = {
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
}


def run_in_process(spec: Spec, left: object, right: object, algorithm: str) -> pa.Table:
    return jn.plan(left, right, spec, algorithm=algorithm).execute()


def join_in_process(spec: Spec, left: pa.Table, right: pa.Table, algorithm: str, **options: Any) -> pa.Table:
    """Join two tables by the engine itself, without a plan; ``"auto"`` is what is chosen for tables of unknown size."""
    from juncture.local.kinds import KINDS, question
    from juncture.local.scan import TableSource

    join = spec.resolve(left.schema, right.schema)
    algorithm = choose(question(join, Stats(), Resources(cores=1, memory_bytes=1 << 30)), algorithm).algorithm
    batches = KINDS[type(spec)].stream(join, TableSource(left), TableSource(right), algorithm=algorithm, **options)
    return pa.Table.from_batches(batches, join.output_schema)


def to_spark(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a DataFrame of a table's rows.

    The schema is given, since Spark takes times without a zone for instants otherwise, and Spark Connect infers none
    where there is no row.
    """
    from juncture.spark.schema import spark_schema

    schema = spark_schema(table.schema)
    return spark.createDataFrame(table if table.num_rows else [], schema)


def run_on_spark(spark: SparkSession, spec: Asof, left: pa.Table, right: pa.Table, algorithm: str) -> pa.Table:
    frames = [to_spark(spark, table) for table in (left, right)]
    return jn.plan(*frames, spec, algorithm=algorithm).execute().toArrow()
