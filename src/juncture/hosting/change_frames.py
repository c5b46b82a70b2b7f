"""Streaming DataFrames of changes: as one side of a join, and as a result in one of the formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.types import StructType

from juncture.incremental.changes.change_batch import CHANGE_TYPE, WEIGHT, ChangeFormat, rows_within
from juncture.spark.input.sides import FrameSide
from juncture.spark.tasks.feed import Feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class ChangeSide:
    """A DataFrame of changes. ``marks`` are the columns that mark changes: one beside the row, or three with it."""

    changes: FrameSide
    schema: pa.Schema
    spark_schema: StructType
    marks: tuple[str, ...]

    @classmethod
    def of(cls, frame: DataFrame, side: str) -> ChangeSide:
        """Validate the schema of a DataFrame."""
        changes = FrameSide.of(frame, side)
        schema, marks = rows_within(changes.schema, side)
        row_type = frame.schema if len(marks) <= 1 else frame.schema[marks[-1]].dataType
        assert isinstance(row_type, StructType)
        return cls(changes, schema, StructType([row_type[name] for name in schema.names]), marks)

    @property
    def session(self) -> SparkSession:
        """The session of the DataFrame."""
        return self.changes.session

    def rows(self, columns: Sequence[str], coded: Sequence[str] = ()) -> tuple[DataFrame, Feed]:
        """Return a DataFrame for tasks, and a feed that reads changes of some columns from it."""
        return self.changes.rows([*columns, *self.marks] if len(self.marks) <= 1 else self.marks, coded)


def formatted(frame: DataFrame, form: ChangeFormat) -> DataFrame:
    """Return changes, whose last column is a weight, in another format. A row per change is repeated by its weight."""
    if form == "weight":
        return frame
    *names, _ = frame.columns
    safe = [f"c{place}" for place in range(len(names))]
    frame = frame.toDF(*safe, WEIGHT)
    comes = F.col(WEIGHT) > 0
    times = F.explode(F.array_repeat(comes, F.abs(WEIGHT).cast("int")))
    frame = frame.select(*safe, times.alias("comes"))
    if form == "change_type":
        kind = F.when(F.col("comes"), "insert").otherwise("delete")
        return frame.select(*safe, kind.alias(CHANGE_TYPE)).toDF(*names, CHANGE_TYPE)
    row = F.struct(*(F.col(one).alias(name) for one, name in zip(safe, names, strict=True)))
    return frame.select(
        F.when(F.col("comes"), "c").otherwise("d").alias("op"),
        F.when(~F.col("comes"), row).alias("before"),
        F.when(F.col("comes"), row).alias("after"),
    )
