"""Values that are stored: the position of a maintained query, its last epoch, and rows with weights as bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of
from juncture.incremental.changes.change_batch import ChangeBatch
from juncture.kernels.array_types import Ints

if TYPE_CHECKING:
    from juncture.incremental.state.stored_run import StoredRun

EPOCH_FILE = "epoch"
"""The name of the file with the number of the last epoch."""

_WEIGHT = " weight"


@dataclass(frozen=True)
class Position:
    """The epoch of a maintained query, and the offset of its sources.

    ``missing`` counts unmatched deletes of each source, ``late`` and ``repaired`` late changes that were excluded and
    applied, and ``greatest`` has the greatest order code of each source with an order.
    """

    epoch: int
    offset: Any
    missing: dict[str, int]
    late: dict[str, int] = field(default_factory=dict)
    greatest: dict[str, int] = field(default_factory=dict)
    repaired: dict[str, int] = field(default_factory=dict)

    def next(self, offset: Any) -> Position:
        """Return the position of the next epoch, with counts that may be changed until it is committed."""
        offset = self.offset if offset is None else offset
        counts = (dict(each) for each in (self.missing, self.late, self.greatest, self.repaired))
        return Position(self.epoch + 1, offset, *counts)


@dataclass(frozen=True)
class Checkpoint:
    """All rows of a maintained query at a position."""

    position: Position
    runs: Mapping[str, Sequence[StoredRun]]  # by table
    notes: Mapping[str, Any]  # JSON data by table
    rewritten_rows: int  # number of rows that a checkpoint writes again


class EpochFile:
    """The number of a committed epoch in a file of its own: a lower bound of the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def read(self) -> int | None:
        """Return the number; None without a file. Raise `ValueError` if the file has other content."""
        try:
            return int(self._path.read_bytes() or b"0")
        except FileNotFoundError:
            return None

    def open(self) -> None:
        """Open the file for `write`; create it if it does not exist."""
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, epoch: int, *, sync: bool = False) -> None:
        """Write the number of a committed epoch, unsynced: it is a lower bound, still valid after an error."""
        with suppress(OSError):
            os.pwrite(self._descriptor, b"%020d\n" % epoch, 0)
            if sync:
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def weighted_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of rows with weights."""
    return schema.append(pa.field(_WEIGHT, pa.int64()))


def weighted(batch: pa.RecordBatch, weights: Ints) -> pa.RecordBatch:
    """Return rows with weights as one batch."""
    columns = [*batch.columns, array_of(weights, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=weighted_schema(batch.schema))


def unweighted(combined: pa.RecordBatch) -> ChangeBatch:
    """Return the rows and weights that `weighted` was given."""
    weights = np.asarray(combined.column(combined.num_columns - 1))
    return ChangeBatch(combined.select(combined.schema.names[:-1]), weights)


def packed(changes: ChangeBatch) -> bytes:
    """Return rows with weights as bytes."""
    content: bytes = weighted(*changes).serialize().to_pybytes()
    return content


def unpacked(content: bytes, schema: pa.Schema) -> ChangeBatch:
    """Return the rows and weights that `packed` was given."""
    combined = pa.ipc.read_record_batch(pa.py_buffer(content), weighted_schema(schema))
    combined.validate()
    return unweighted(combined)


def stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return record batches of one schema as bytes; no bytes for no batches."""
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content
