"""A streaming DataFrame of changes as one side of a join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from juncture.incremental.change_batch import rows_within
from juncture.spark.input.sides import FrameSide
from juncture.spark.tasks.feed import Feed
from juncture.spec.schema import Side

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
    def of(cls, frame: DataFrame, side: Side) -> ChangeSide:
        """Validate the schema of a DataFrame."""
        changes = FrameSide.of(frame, side)
        schema, marks = rows_within(changes.schema, side)
        given = frame.schema if len(marks) <= 1 else frame.schema[marks[-1]].dataType
        assert isinstance(given, StructType)
        return cls(changes, schema, StructType([given[name] for name in schema.names]), marks)

    @property
    def session(self) -> SparkSession:
        """The session of the DataFrame."""
        return self.changes.session

    def rows(self, columns: Sequence[str], coded: Sequence[str] = ()) -> tuple[DataFrame, Feed]:
        """Return a DataFrame for tasks, and a feed that reads changes of some columns from it."""
        return self.changes.rows([*columns, *self.marks] if len(self.marks) <= 1 else self.marks, coded)

    def columns(self, names: Sequence[str]) -> pa.Schema:
        """Return the schema of some columns of the rows."""
        return pa.schema([self.schema.field(name) for name in names])
