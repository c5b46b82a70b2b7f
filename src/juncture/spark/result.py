"""The columns of a result on Spark: their types inside the query, and their types and metadata in the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.columnar.types import is_null_type
from juncture.spark.input.frame import SparkSide
from juncture.spark.schema import arrow_schema, nullable, spark_schema
from juncture.spark.tasks.output import TaskOutput
from juncture.spec.aggregate import CHOSEN
from juncture.spec.resolved import Resolved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def result_schema(join: Resolved, left: SparkSide, right: SparkSide) -> st.StructType:
    """Return the schema of the result in Spark's types."""
    types = {"left": left.spark_schema, "right": right.spark_schema}
    fields = []
    for column in join.output:
        data_type = types[column.side][column.source].dataType
        # A right value may fill a left column, and contain nulls where left values do not.
        fields.append(st.StructField(column.name, nullable(data_type) if column.filled_from else data_type))
    made = spark_schema(pa.schema([(each.name, each.type) for each in join.aggregates])).fields
    for each, field in zip(join.aggregates, made, strict=True):
        data_type = field.dataType
        if each.column is not None and each.function in CHOSEN:
            data_type = types["right"][each.column].dataType
        elif each.column is not None and each.function == "list":
            data_type = st.ArrayType(nullable(types["right"][each.column].dataType))
        fields.append(st.StructField(each.name, data_type))
    return st.StructType(fields)


def task_output(schema: st.StructType) -> TaskOutput:
    """Return the output schema of the last tasks, whose columns are numbered."""
    wire = arrow_schema(schema, "left")
    return TaskOutput(pa.schema([(f"c{i}", field.type) for i, field in enumerate(wire)]))


def given_back(
    frame: DataFrame, join: Resolved, left: SparkSide, right: SparkSide, more: Sequence[str] = ()
) -> DataFrame:
    """Return a result with the metadata and null types of the inputs, as Spark's own joins do.

    `more` names columns that follow those of the join.
    """
    inputs = {"left": left.spark_schema, "right": right.spark_schema}
    metadata = [inputs[column.side][column.source].metadata for column in join.output] + [{}] * len(join.aggregates)
    made, given = join.output_schema, join.given_back(left.schema, right.schema)
    if made == given and not any(metadata):
        return frame
    columns = []
    for place, (one, other, about) in enumerate(zip(made, given, metadata, strict=True)):
        value = F.lit(None) if is_null_type(other.type) and not is_null_type(one.type) else F.col(f"c{place}")
        columns.append(value.alias(f"c{place}", metadata=about))
    columns += [F.col(f"c{place}") for place in range(len(columns), len(columns) + len(more))]
    return frame.toDF(*(f"c{place}" for place in range(len(columns)))).select(*columns).toDF(*made.names, *more)
