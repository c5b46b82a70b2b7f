"""Grids and interpolated tables on Spark."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.inputs import Files, kind_of
from juncture.spark.exchange import finish, task_output
from juncture.spark.input.sides import FileSide, FrameSide, in_jvm
from juncture.spark.many.plan import plan
from juncture.spark.schema import spark_schema
from juncture.spark.session.session import resources as resources_of
from juncture.spark.tasks.many import ExpandGrid, InterpolateRows
from juncture.spec.spines import Grid, Interpolation, ResolvedGrid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def grid(spec: Grid, data: Any, session: SparkSession | None) -> DataFrame:
    """Return a grid as a DataFrame."""
    side = _frame(data, session)
    resolved = spec.resolve(side.schema)
    keys = side.frame.toDF(*(f"c{i}" for i in range(len(side.schema))))
    names = {name: f"c{i}" for i, name in enumerate(side.schema.names)}
    by = [names[name] for name in resolved.by]
    if by:
        keys = keys.where(reduce(Column.__and__, (F.col(name).isNotNull() for name in by)))
    ends = [_end(resolved, names, side, which) for which in ("first", "last")]
    whole = keys.groupBy(*by).agg(F.min(ends[0]).alias("first"), F.max(ends[1]).alias("last"))
    by_types = [(names[name], side.schema.field(name).type) for name in resolved.by]
    rows = FrameSide(whole, pa.schema([*by_types, ("first", resolved.type), ("last", resolved.type)]))
    frame, feed = rows.rows(rows.schema.names)
    types = side.spark_schema
    made = _on_type(resolved, side)
    schema = st.StructType([*(types[name] for name in resolved.by), st.StructField(resolved.on, made)])
    memory_bytes = resources_of(side.session).memory_bytes
    return finish(frame, ExpandGrid(feed, resolved, memory_bytes=memory_bytes, output=task_output(schema)), schema)


def interpolate(spec: Interpolation, left: Any, right: Any, session: SparkSession | None) -> DataFrame:
    """Return a DataFrame with values interpolated between the rows of another."""
    left_side, right_side = (_side(table, session) for table in (left, right))
    lines = spec.resolve(left_side.schema, right_side.schema)
    joined = FrameSide.of(plan(left, spec.tables(right), session=session).execute(), "left")
    frame, feed = joined.rows(joined.schema.names)
    doubles = [st.StructField(name, st.DoubleType()) for _, name in lines.columns]
    schema = st.StructType([*left_side.spark_schema.fields, *doubles])
    memory_bytes = resources_of(joined.session).memory_bytes
    return finish(frame, InterpolateRows(feed, lines, memory_bytes=memory_bytes, output=task_output(schema)), schema)


def _end(grid: ResolvedGrid, names: dict[str, str], side: FrameSide, which: str) -> Column:
    """Return the column with a row's start or end of its key; null if it is a constant, which tasks have."""
    name = grid.first if which == "first" else grid.last
    return F.lit(None).cast(_on_type(grid, side)) if name is None else F.col(names[name])


def _on_type(grid: ResolvedGrid, side: FrameSide) -> st.DataType:
    """Return the Spark type of a grid's column."""
    known = [name for name in (grid.on, grid.first, grid.last) if name is not None and name in side.schema.names]
    if known:
        return side.spark_schema[known[0]].dataType
    return spark_schema(pa.schema([(grid.on, grid.type)])).fields[0].dataType


def _side(table: Any, session: SparkSession | None) -> FileSide | FrameSide:
    if kind_of(table, "left") == "path":
        assert session is not None
        return FileSide.of(session, Files.of(table), resources_of(session).cores)
    return FrameSide.of(table, "left")


def _frame(table: Any, session: SparkSession | None) -> FrameSide:
    return in_jvm(_side(table, session), "left")
