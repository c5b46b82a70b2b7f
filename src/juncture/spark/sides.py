"""The two kinds of input on Spark, as one: a DataFrame, and Parquet files that the tasks read themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import pyarrow as pa

from juncture.spark.schema import arrow_schema
from juncture.spark.worker.feed import BatchFeed, Feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["FrameSide", "Side"]


class Side(Protocol):
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
