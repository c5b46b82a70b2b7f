"""Sources of a task's rows: batches from Spark, Parquet files that the task reads itself, and broadcast sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

import pyarrow as pa
import pyarrow.fs
import pyarrow.types as pat

from juncture.columnar.arrays import with_fields
from juncture.columnar.conversion import converted
from juncture.columnar.types import plain_type
from juncture.runtime.context import JoinContext
from juncture.runtime.footers import changed, read_footers
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.paths import Value, file_at
from juncture.runtime.sources import Source
from juncture.runtime.spill import spooled
from juncture.spark.tasks.engine import RECEIVED_SHARE


@dataclass(frozen=True)
class BatchFeed:
    """Rows from Spark, with columns in the order of `schema` under Spark's own names."""

    schema: pa.Schema
    chunk_rows: int = 1 << 20  # a chunk ends at this number of rows, or of bytes
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
        """Return the rows, in memory up to their share and otherwise spilled."""
        memory = context.memory.reserve("rows received", RECEIVED_SHARE)
        merged = (batch for chunk in self.chunks(batches) for batch in chunk.combine_chunks().to_batches())
        return spooled(self.schema, merged, context.spill, memory)

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        table = pa.Table.from_batches(batches).rename_columns(self.schema.names)
        # Spark's schema has the session's time zone and other names within nested types.
        return table if table.schema.equals(self.schema) else table.cast(self.schema)


@dataclass(frozen=True)
class Unit:
    """A part of a Parquet file that one task reads: some row groups, or all."""

    file: str
    row_groups: tuple[int, ...]
    digest: bytes  # identifies the footer at planning time
    partition: tuple[tuple[str, Value], ...] = ()  # the values of its folders
    filesystem: pa.fs.FileSystem | None = field(default=None, compare=False)  # of a file that is not local


def plain_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the schema of files in tasks: without encodings and views, as Spark has it.

    The dictionary of one row group may lack the values of another, and Arrow cannot take rows of views.
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
    """Return the rows of parts of files, in the types of tasks; raise `DataError` if a file has changed."""
    return _UnitSource(list(units), schema).converted(plain_types(schema))


class _UnitSource(ParquetSource):
    """Parts of Parquet files."""

    def __init__(self, units: Sequence[Unit], schema: pa.Schema) -> None:
        files = []
        for unit in units:
            file = file_at(unit.file, unit.filesystem)
            if file is None:
                raise changed(unit.file, "was removed")
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
    """Rows that the task reads itself; Spark sends only the numbers of its `shares`."""

    schema: pa.Schema  # a dictionary type keeps values encoded
    file_schema: pa.Schema
    shares: tuple[tuple[Unit, ...], ...]  # at least one unit each

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows, a row group or a million rows at a time."""
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


Feed = BatchFeed | FileFeed
"""The rows of one task, in large chunks or as a source that can be read repeatedly."""

_REMEMBERED = 2  # number of tables that a worker process caches


@dataclass(frozen=True)
class SentTable:
    """A table in a task's code: a compressed Arrow stream in `cell`, cached by the `digest` of its content."""

    digest: str
    num_rows: int
    cell: bytes = field(compare=False, repr=False)

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns, decompressed once in each process."""
        return _decompressed(self).select(columns)

    def slice(self, first: int, end: int) -> pa.Table:
        """Return a range of rows."""
        return _decompressed(self).slice(first, end - first)


def send(table: pa.Table) -> SentTable:
    """Return a table as part of a task's code."""
    sink = pa.BufferOutputStream()
    compression = "lz4" if pa.Codec.is_available("lz4") else None
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_table(table)
    cell = sink.getvalue().to_pybytes()
    return SentTable(blake2b(cell, digest_size=16).hexdigest(), table.num_rows, cell)


@lru_cache(_REMEMBERED)
def _decompressed(sent: SentTable) -> pa.Table:
    return pa.ipc.open_stream(sent.cell).read_all().combine_chunks()


@dataclass(frozen=True)
class FileTable:
    """A table that every task reads from files."""

    units: tuple[Unit, ...]  # the row groups in the order of the rows
    schema: pa.Schema
    num_rows: int
    # Identifies the join, so that a process does not reuse a table of another join, read before the files changed.
    plan: str

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns, read once in each process."""
        return _read(self, tuple(columns))

    def slice(self, first: int, end: int) -> pa.Table:
        """Return a range of rows, reading only their row groups."""
        source = open_units(self.units, self.schema)
        batches: list[pa.RecordBatch] = []
        for part in range(len(source.part_rows)):
            position = int(source.bounds[part])
            if position < end and source.bounds[part + 1] > first:
                for batch in source.read(part, source.schema.names):
                    start, stop = max(first - position, 0), min(end - position, batch.num_rows)
                    batches += [batch.slice(start, stop - start)] if start < stop else []
                    position += batch.num_rows
        return pa.Table.from_batches(batches, source.schema)


BroadcastTable = SentTable | FileTable
"""A broadcast side of a join."""


@lru_cache(_REMEMBERED)
def _read(file_table: FileTable, columns: tuple[str, ...]) -> pa.Table:
    source = open_units(file_table.units, file_table.schema)
    schema = pa.schema([source.schema.field(name) for name in columns])
    parts = range(len(source.part_rows))
    return pa.Table.from_batches([batch for part in parts for batch in source.read(part, columns)], schema)
