"""Inputs with the join's computed columns, evaluated in the JVM."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.input.files import in_jvm
from juncture.spark.input.frame import FrameSide, SparkSide
from juncture.spark.schema import arrow_schema, spark_schema
from juncture.spark.sql.expressions import expression
from juncture.spec.computed import computed_columns, expression_of, parsed, parts_of, stands_for
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side


def computed_sides(join: Resolved, left: SparkSide, right: SparkSide) -> tuple[Resolved, SparkSide, SparkSide]:
    """Return a join and its inputs with all compared columns; raise `SchemaError` for types that Spark lacks."""
    if not join.is_computed:
        return join, left, right
    left, right = _with_computed(left, join.left_schema, "left"), _with_computed(right, join.right_schema, "right")
    return join.over(left.schema, right.schema), left, right


def _with_computed(side: SparkSide, schema: pa.Schema, name: Side) -> SparkSide:
    fields = computed_columns(schema)
    if not fields:
        return side
    given = in_jvm(side, name)
    safe = {own: f"c{place}" for place, own in enumerate(given.schema.names)}
    frame = given.frame.toDF(*safe.values())
    columns = {own: F.col(safe[own]) for own in safe}
    for field, wanted in zip(fields, spark_schema(pa.schema(fields)), strict=True):
        text = expression_of(field)
        if text is not None:
            value = expression(parsed(text, given.schema, name), {name: safe})
        elif parts := parts_of(field):
            value = F.struct(*(columns[part] for part in parts))
        else:
            value = columns[str(stands_for(field))]
        columns[field.name] = value.cast(wanted.dataType)
    numbered = [value.alias(f"c{place}") for place, value in enumerate(columns.values())]
    frame = frame.select(*numbered).toDF(*columns)
    made = arrow_schema(frame.schema, name)
    marked = [made.field(field.name).with_metadata(field.metadata) for field in fields]
    return FrameSide(frame, pa.schema([*given.schema, *marked]))
