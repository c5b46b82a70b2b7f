"""Inputs with the join's computed columns, evaluated in the JVM."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.input.files import in_jvm
from juncture.spark.input.frame import FrameSide, SparkSide
from juncture.spark.schema import arrow_schema, spark_schema
from juncture.spark.sql.expressions import expression
from juncture.spec.compared import Conversion, Expression, parsed
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side


def computed_sides(join: Resolved, left: SparkSide, right: SparkSide) -> tuple[Resolved, SparkSide, SparkSide]:
    """Return a join and its inputs with all compared columns; raise `SchemaError` for types that Spark lacks."""
    if not join.is_computed:
        return join, left, right
    left, right = _with_computed(left, join, "left"), _with_computed(right, join, "right")
    return join.retyped(left.schema, right.schema), left, right


def _with_computed(side: SparkSide, join: Resolved, name: Side) -> SparkSide:
    values = [value for value in join.computed(name) if value.name not in side.schema.names]
    if not values:
        return side
    fields = [join.schema(name).field(value.name) for value in values]
    given = in_jvm(side, name)
    safe = {own: f"c{place}" for place, own in enumerate(given.schema.names)}
    frame = given.frame.toDF(*safe.values())
    columns = {own: F.col(safe[own]) for own in safe}
    for value, wanted in zip(values, spark_schema(pa.schema(fields)), strict=True):
        if isinstance(value, Expression):
            column = expression(parsed(value.text, given.schema, name), {name: safe})
        elif isinstance(value, Conversion):
            column = columns[value.of[0].name]
        else:
            column = F.struct(*(columns[part.name] for part in value.parts))
        columns[value.name] = column.cast(wanted.dataType)
    numbered = [column.alias(f"c{place}") for place, column in enumerate(columns.values())]
    frame = frame.select(*numbered).toDF(*columns)
    made = arrow_schema(frame.schema, name)
    return FrameSide(frame, pa.schema([*given.schema, *(made.field(value.name) for value in values)]))
