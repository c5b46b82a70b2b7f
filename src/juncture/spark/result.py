"""The columns of a result on Spark: their types while it is made, and what users are given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.spark.input.frame import SparkSide
from juncture.spark.schema import arrow_schema, nullable, spark_schema
from juncture.spark.tasks.output import TaskOutput
from juncture.spec.aggregate import CHOSEN
from juncture.spec.resolved import Resolved
from juncture.spec.schema import is_null_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def result_schema(join: Resolved, left: SparkSide, right: SparkSide) -> st.StructType:
    """Return the schema of the result in Spark's types: those of the inputs, and of aggregates."""
    types = {"left": left.spark_schema, "right": right.spark_schema}
    fields = []
    for column in join.output:
        data_type = types[column.side][column.source].dataType
        # A value of the right side may stand in a left column, and have nulls inside where that has none.
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
    """Return what the last tasks make of their rows, whose columns go by number."""
    wire = arrow_schema(schema, "left")
    return TaskOutput(pa.schema([(f"c{i}", field.type) for i, field in enumerate(wire)]))


def given_back(
    frame: DataFrame, join: Resolved, left: SparkSide, right: SparkSide, more: Sequence[str] = ()
) -> DataFrame:
    """Return a result as users get it: its columns have the metadata of the inputs, as in Spark's own joins.

    What was of the null type is so again.

    Parameters
    ----------
    frame
        The result as it was made.
    join
        The join.
    left, right
        The inputs as they were given.
    more
        Columns that follow those of the join.
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
