"""Where a task's rows come from: batches that Spark hands over, or Parquet files that the task reads itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from juncture.errors import DataError

__all__ = ["BatchFeed", "Feed", "FileFeed", "Unit"]

_CHUNK_ROWS = 1 << 20
_CHUNK_BYTES = 64 * 1024 * 1024


class Feed(Protocol):
    """A source of chunks, large enough that handling one costs little besides its rows."""

    @property
    def schema(self) -> pa.Schema:
        """Of every chunk."""
        ...

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows of one task, given what Spark hands over."""
        ...


@dataclass(frozen=True)
class BatchFeed:
    """Rows that Spark hands over.

    Attributes
    ----------
    schema
        The names and types that the rows get. The columns come in this order, under names of Spark's own.
    """

    schema: pa.Schema

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows, many batches at a time."""
        held: list[pa.RecordBatch] = []
        rows = held_bytes = 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            held_bytes += batch.nbytes
            if rows >= _CHUNK_ROWS or held_bytes >= _CHUNK_BYTES:
                yield self._table(held)
                held, rows, held_bytes = [], 0, 0
        if rows:
            yield self._table(held)

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
        Its path.
    row_groups
        Which of its row groups.
    """

    file: str
    row_groups: tuple[int, ...]


@dataclass(frozen=True)
class FileFeed:
    """Rows that the task reads itself. Spark hands over nothing but the numbers of its shares.

    Attributes
    ----------
    schema
        The columns to read, and their types.
    shares
        The units of each share.
    """

    schema: pa.Schema
    shares: tuple[tuple[Unit, ...], ...]

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows, a row group at a time.

        Raises
        ------
        DataError
            If a file cannot be read.
        """
        for batch in batches:
            for share in batch.column(0).to_pylist():
                for unit in self.shares[share]:
                    yield from _row_groups(unit, self.schema)


def _row_groups(unit: Unit, schema: pa.Schema) -> Iterator[pa.Table]:
    text = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    try:
        with pq.ParquetFile(unit.file, read_dictionary=text, memory_map=True) as file:
            for number in unit.row_groups:
                table = file.read_row_group(number, columns=schema.names, use_threads=False)
                yield table.select(schema.names).cast(schema)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"The Parquet file {unit.file!r} cannot be read: {error}") from error
