"""Grids and interpolated tables on Spark."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.inputs.files import Files
from juncture.inputs.kinds import kind_of
from juncture.planner.statistics import Resources
from juncture.spark.exchange import finish, task_output
from juncture.spark.input.sides import FileSide, FrameSide, SparkSide, in_jvm
from juncture.spark.many.plan import plan
from juncture.spark.schema import spark_schema
from juncture.spark.session.session import resources as resources_of
from juncture.spark.tasks.many import ExpandGrid, InterpolateRows
from juncture.spec.spines import InterpolatedColumns, Interpolation, ResolvedGrid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def opened(table: Any, session: SparkSession | None) -> SparkSide:
    """Return an input; Spark reads paths in a session."""
    if kind_of(table, "left") == "path":
        assert session is not None
        return FileSide.of(session, Files.of(table), resources_of(session).cores)
    return FrameSide.of(table, "left")


def grid(resolved: ResolvedGrid, data: SparkSide) -> DataFrame:
    """Return a grid as a DataFrame."""
    side = in_jvm(data, "left")
    keys = side.frame.toDF(*(f"c{i}" for i in range(len(side.schema))))
    names = {name: f"c{i}" for i, name in enumerate(side.schema.names)}
    by = [names[name] for name in resolved.by]
    if by:
        keys = keys.where(reduce(Column.__and__, (F.col(name).isNotNull() for name in by)))
    on_type = _on_type(resolved, side)
    # Tasks have the start and the end of keys that are constants.
    bounds = (resolved.first, resolved.last)
    first, last = (F.lit(None).cast(on_type) if name is None else F.col(names[name]) for name in bounds)
    extents = keys.groupBy(*by).agg(F.min(first).alias("first"), F.max(last).alias("last"))
    by_types = [(names[name], side.schema.field(name).type) for name in resolved.by]
    rows = FrameSide(extents, pa.schema([*by_types, ("first", resolved.type), ("last", resolved.type)]))
    frame, feed = rows.rows(rows.schema.names)
    types = side.spark_schema
    schema = st.StructType([*(types[name] for name in resolved.by), st.StructField(resolved.on, on_type)])
    memory_bytes = resources_of(side.session).memory_bytes
    return finish(frame, ExpandGrid(feed, resolved, memory_bytes=memory_bytes, output=task_output(schema)), schema)


def interpolate(
    spec: Interpolation, lines: InterpolatedColumns, left: SparkSide, right: SparkSide, _resources: Resources
) -> DataFrame:
    """Return a DataFrame with values interpolated between the rows of another."""
    # Planned as DataFrames, since tasks read the files of those that only scan files.
    spine, table = (side.frame if isinstance(side, FrameSide) else side for side in (left, right))
    joined = FrameSide.of(plan(spine, spec.tables(table), session=left.session).execute(), "left")
    frame, feed = joined.rows(joined.schema.names)
    doubles = [st.StructField(name, st.DoubleType()) for _, name in lines.columns]
    schema = st.StructType([*left.spark_schema.fields, *doubles])
    memory_bytes = resources_of(joined.session).memory_bytes
    return finish(frame, InterpolateRows(feed, lines, memory_bytes=memory_bytes, output=task_output(schema)), schema)


def _on_type(grid: ResolvedGrid, side: FrameSide) -> st.DataType:
    names = [name for name in (grid.on, grid.first, grid.last) if name is not None and name in side.schema.names]
    if names:
        return side.spark_schema[names[0]].dataType
    return spark_schema(pa.schema([(grid.on, grid.type)])).fields[0].dataType
