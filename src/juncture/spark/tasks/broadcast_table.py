"""A side that every task has whole: sent along with the task's code, or read from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Protocol

import pyarrow as pa

from juncture.spark.tasks.feed import Unit, open_units

_REMEMBERED = 2
"""Number of tables that a worker process caches."""


class BroadcastTable(Protocol):
    """A broadcast side of a join."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        ...

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Return some of its columns."""
        ...

    def slice(self, first: int, end: int) -> pa.Table:
        """Return a range of its rows."""
        ...


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
    """A table that every task reads from files.

    `units` are the row groups in the order of the rows. `plan` identifies the join, so that a process does not reuse a
    table that was read for another join before the files changed.
    """

    units: tuple[Unit, ...]
    schema: pa.Schema
    num_rows: int
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


@lru_cache(_REMEMBERED)
def _read(file_table: FileTable, columns: tuple[str, ...]) -> pa.Table:
    source = open_units(file_table.units, file_table.schema)
    schema = pa.schema([source.schema.field(name) for name in columns])
    parts = range(len(source.part_rows))
    return pa.Table.from_batches([batch for part in parts for batch in source.read(part, columns)], schema)
