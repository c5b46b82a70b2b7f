"""The two kinds of input on Spark: DataFrames, and Parquet files that tasks read themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.columnar.types import is_null_type
from juncture.spark.schema import arrow_schema, spark_schema
from juncture.spark.tasks.feed import BatchFeed, Feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class SparkSide(Protocol):
    """An input."""

    @property
    def schema(self) -> pa.Schema:
        """The schema in Arrow's types."""
        ...

    @property
    def spark_schema(self) -> StructType:
        """The schema in Spark's types, as in the result."""
        ...

    @property
    def session(self) -> SparkSession:
        """The session of the input."""
        ...

    def rows(self, columns: Sequence[str], coded: Sequence[str] = ()) -> tuple[DataFrame, Feed]:
        """Return the DataFrame that tasks receive, and the feed that makes rows of it; `coded` may be dictionaries."""
        ...


@dataclass(frozen=True)
class FrameSide:
    """A DataFrame as a side of a join.

    Columns are found by position, since names may contain dots and backticks or differ only in case.
    """

    frame: DataFrame
    schema: pa.Schema

    @classmethod
    def of(cls, frame: DataFrame, side: Literal["left", "right"]) -> FrameSide:
        """Resolve a DataFrame's schema; raise `SchemaError` for types that Python cannot receive."""
        return cls(frame, arrow_schema(frame.schema, side))

    def typed(self, schema: pa.Schema) -> FrameSide:
        """Return the side in another schema, whose columns of the null type have other types."""
        names = [f"c{i}" for i in range(len(schema))]
        columns = []
        for name, field, wanted in zip(names, self.schema, spark_schema(schema), strict=True):
            value = F.lit(None).cast(wanted.dataType) if is_null_type(field.type) else F.col(name)
            columns.append(value.alias(name))
        return FrameSide(self.frame.toDF(*names).select(*columns).toDF(*schema.names), schema)

    @property
    def is_stream(self) -> bool:
        """Whether the DataFrame is streaming, so that no job can read it."""
        return self.frame.isStreaming

    @property
    def session(self) -> SparkSession:
        """The session of the DataFrame."""
        return self.frame.sparkSession

    @property
    def spark_schema(self) -> StructType:
        """The DataFrame's schema."""
        return self.frame.schema

    def rows(
        self,
        columns: Sequence[str],
        coded: Sequence[str] = (),  # noqa: ARG002 - only files can be read that way
    ) -> tuple[DataFrame, Feed]:
        """Return the DataFrame that tasks receive, and the feed that makes rows of it; `coded` may be dictionaries."""
        safe = {name: f"c{i}" for i, name in enumerate(self.schema.names)}
        frame = self.frame.toDF(*safe.values())
        feed = BatchFeed(pa.schema([self.schema.field(name) for name in columns]))
        return frame.select(*(safe[name] for name in columns)), feed
