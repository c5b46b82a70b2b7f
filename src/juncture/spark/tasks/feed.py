"""Where a task's rows come from: batches that Spark hands over, or Parquet files that the task reads itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import with_fields
from juncture.columnar.conversion import converted
from juncture.runtime.context import JoinContext
from juncture.runtime.footers import changed, read_footers
from juncture.runtime.partitions import Value
from juncture.runtime.paths import file_at
from juncture.runtime.sources import ParquetSource, Source
from juncture.runtime.spill import SpooledSource
from juncture.spark.tasks.engine import RECEIVED_SHARE
from juncture.spec.schema import plain_type


class Feed(Protocol):
    """The rows of one task."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        ...

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows, given what Spark hands over, in chunks so large that handling one costs little."""
        ...

    def source(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Source:
        """Return the rows as something that can be read again."""
        ...


@dataclass(frozen=True)
class BatchFeed:
    """Rows that Spark hands over.

    Attributes
    ----------
    schema
        The names and types that the rows get. The columns come in this order, under names of Spark's own.
    chunk_rows, chunk_bytes
        When a chunk is large enough.
    """

    schema: pa.Schema
    chunk_rows: int = 1 << 20
    chunk_bytes: int = 64 << 20

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows, many batches at a time."""
        gathered: list[pa.RecordBatch] = []
        rows = size_bytes = 0
        for batch in batches:
            gathered.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows >= self.chunk_rows or size_bytes >= self.chunk_bytes:
                yield self._table(gathered)
                gathered, rows, size_bytes = [], 0, 0
        if rows:
            yield self._table(gathered)

    def source(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Source:
        """Return the rows, kept in memory as far as their share of it goes."""
        memory = context.memory.reserve("rows received", RECEIVED_SHARE)
        merged = (batch for chunk in self.chunks(batches) for batch in chunk.combine_chunks().to_batches())
        return SpooledSource(self.schema, merged, context.spill, memory)

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        table = pa.Table.from_batches(batches).rename_columns(self.schema.names)
        # The session's time zone and names within nested types are Spark's own.
        return table if table.schema.equals(self.schema) else table.cast(self.schema)


@dataclass(frozen=True)
class Unit:
    """A part of a Parquet file that one task reads.

    Attributes
    ----------
    file
        Its path or URI.
    row_groups
        Which of its row groups.
    digest
        Of the footer that the join was planned with.
    partition
        The columns that the names of its folders stand for, with their values.
    """

    file: str
    row_groups: tuple[int, ...]
    digest: bytes
    partition: tuple[tuple[str, Value], ...] = ()


def plain_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the columns of files that tasks have in other types, without encodings and views, as Spark has them.

    A dictionary of one row group may have no room for the values of another, and Arrow takes no rows of views.

    Examples
    --------
    >>> plain_types(pa.schema({"k": pa.dictionary(pa.int8(), pa.string()), "n": pa.int8()}))
    {'k': DataType(string)}
    """
    types = {field.name: _plain(field.type) for field in schema}
    return {name: plain for name, plain in types.items() if plain != schema.field(name).type}


def _plain(data_type: pa.DataType) -> pa.DataType:
    data_type = plain_type(data_type)
    if pat.is_string_view(data_type):
        return pa.string()
    if pat.is_binary_view(data_type):
        return pa.binary()
    return with_fields(data_type, lambda field: field.with_type(_plain(field.type)))


def open_units(units: Iterable[Unit], schema: pa.Schema) -> ParquetSource:
    """Return the rows of some parts of files, in the types that tasks have.

    Parameters
    ----------
    units
        The parts.
    schema
        Of all files of the table.

    Raises
    ------
    DataError
        If a file cannot be read, or has changed since the join was planned.
    """
    return _UnitSource(list(units), schema).converted(plain_types(schema))


class _UnitSource(ParquetSource):
    """Some parts of Parquet files."""

    def __init__(self, units: Sequence[Unit], schema: pa.Schema) -> None:
        files = []
        for unit in units:
            file = file_at(unit.file)
            if file is None:
                raise changed(unit.file, "is not there any more")
            files.append(file)
        footers = read_footers(files)
        for unit, footer in zip(units, footers, strict=True):
            if unit.digest != footer.digest:
                raise changed(unit.file)
        self._open(
            files, footers, schema, [dict(unit.partition) for unit in units], [unit.row_groups for unit in units]
        )


@dataclass(frozen=True)
class FileFeed:
    """Rows that the task reads itself. Spark hands over nothing but the numbers of its shares.

    Attributes
    ----------
    schema
        The columns to read, and their types. A dictionary type asks for the values to stay encoded.
    file_schema
        All columns of the files.
    shares
        The units of each share, at least one.
    """

    schema: pa.Schema
    file_schema: pa.Schema
    shares: tuple[tuple[Unit, ...], ...]

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows, a row group or a million rows at a time.

        Raises
        ------
        DataError
            If a file cannot be read.
        """
        source = open_units(self._units(batches), self.file_schema)
        coded = [field.name for field in self.schema if pat.is_dictionary(field.type)]
        for part in range(len(source.part_rows)):
            for batch in source.read(part, self.schema.names, coded):
                columns = [
                    converted(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)
                ]
                yield pa.table(columns, schema=self.schema)

    def source(
        self,
        batches: Iterable[pa.RecordBatch],
        context: JoinContext,  # noqa: ARG002 - the files are there to be read again
    ) -> Source:
        """Return the row groups."""
        return open_units(self._units(batches), self.file_schema)

    def _units(self, batches: Iterable[pa.RecordBatch]) -> list[Unit]:
        return [unit for batch in batches for share in batch.column(0).to_pylist() for unit in self.shares[share]]
