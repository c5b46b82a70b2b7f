"""The two kinds of input on Spark, as one: a DataFrame, and Parquet files that the tasks read themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.schema import arrow_schema, spark_schema
from juncture.spark.tasks.feed import BatchFeed, Feed
from juncture.spec.schema import is_null_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class SparkSide(Protocol):
    """An input."""

    @property
    def schema(self) -> pa.Schema:
        """In Arrow's types."""
        ...

    @property
    def spark_schema(self) -> StructType:
        """In Spark's types, in which its columns appear in the result."""
        ...

    @property
    def session(self) -> SparkSession:
        """The session that it belongs to."""
        ...

    def rows(self, columns: Sequence[str], coded: Sequence[str] = ()) -> tuple[DataFrame, Feed]:
        """Return what tasks are given, and how they make rows of it.

        Parameters
        ----------
        columns
            What is needed.
        coded
            Columns that may come as dictionaries.
        """
        ...


@dataclass(frozen=True)
class FrameSide:
    """A DataFrame.

    Its columns are found by position, since names may hold dots and backticks, or differ in case only.
    """

    frame: DataFrame
    schema: pa.Schema

    @classmethod
    def of(cls, frame: DataFrame, side: Literal["left", "right"]) -> FrameSide:
        """Look at a DataFrame's schema.

        Raises
        ------
        SchemaError
            If a column has a type that cannot be handed to Python.
        """
        return cls(frame, arrow_schema(frame.schema, side))

    def typed(self, schema: pa.Schema) -> FrameSide:
        """Return the same in another schema, in which columns of the null type have another."""
        names = [f"c{i}" for i in range(len(schema))]
        columns = []
        for name, ours, wanted in zip(names, self.schema, spark_schema(schema), strict=True):
            value = F.lit(None).cast(wanted.dataType) if is_null_type(ours.type) else F.col(name)
            columns.append(value.alias(name))
        return FrameSide(self.frame.toDF(*names).select(*columns).toDF(*schema.names), schema)

    @property
    def is_stream(self) -> bool:
        """Whether its rows have no end, so that no job can look at them."""
        return self.frame.isStreaming

    @property
    def session(self) -> SparkSession:
        """The session that the DataFrame belongs to."""
        return self.frame.sparkSession

    @property
    def spark_schema(self) -> StructType:
        """The schema as Spark has it."""
        return self.frame.schema

    def rows(
        self,
        columns: Sequence[str],
        coded: Sequence[str] = (),  # noqa: ARG002 - only files can be read that way
    ) -> tuple[DataFrame, Feed]:
        """Return what tasks are given, and how they make rows of it.

        Parameters
        ----------
        columns
            What is needed.
        coded
            Columns that may come as dictionaries.
        """
        safe = {name: f"c{i}" for i, name in enumerate(self.schema.names)}
        frame = self.frame.toDF(*safe.values())
        feed = BatchFeed(pa.schema([self.schema.field(name) for name in columns]))
        return frame.select(*(safe[name] for name in columns)), feed
