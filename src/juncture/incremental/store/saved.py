"""The interface of stores: the position of a join, runs of rows, and the changes since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of
from juncture.incremental.store.blocks import BlockRows, Index
from juncture.incremental.store.stored_run import BlockReader, StoredRun
from juncture.kernels.array_types import Ints, Mask
from juncture.spec.schema import Side

_WEIGHT = " weight"

Changed = Iterable[tuple[pa.RecordBatch, Ints]]
"""Rows with weights."""


@dataclass(frozen=True)
class Position:
    """Progress of a join: its epoch, the offset of its sources, and the number of unmatched deletes of each side."""

    epoch: int
    offset: Any
    missing: Mapping[Side, int]


class Writer(Protocol):
    """Writes one run."""

    def add(self, rows: BlockRows, /) -> None:
        """Append rows."""


class Store(BlockReader, Protocol):
    """Stores one join atomically: the runs of a checkpoint, and the changes of each epoch since."""

    folder: Path

    def position(self) -> Position | None:
        """Return the position of the join; None for a new join."""

    def runs(self, side: Side) -> list[tuple[Index, Mask, int]]:
        """Return the runs of a side as of the last checkpoint: index, blocks with a state, number of living rows."""

    def log(self, side: Side) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield the changes of a side since the last checkpoint."""

    def last(self) -> list[pa.RecordBatch]:
        """Return the changes of the result in the last epoch."""

    def writer(self, *, is_sorted: bool) -> Any:
        """Begin to write a run for `take_in`."""

    def take_in(self, writer: Any, /) -> tuple[Index, Mask] | None:
        """Add a run, which the next checkpoint commits; return what `runs` does of it, None without rows."""

    def write(self, pieces: Iterable[BlockRows], *, is_sorted: bool) -> tuple[Index, Mask] | None:
        """Write rows as a run, and add it."""

    def commit(self, position: Position, deltas: Mapping[Side, Changed], answer: list[pa.RecordBatch]) -> None:
        """Commit an epoch: its position, changes and result."""

    def checkpoint(self, position: Position, runs: Mapping[Side, Sequence[StoredRun]]) -> None:
        """Commit runs with their changed states, in place of earlier runs and the changes since."""

    @property
    def wants_checkpoint(self) -> bool:
        """Whether replaying the changes since the last checkpoint would take long."""

    def close(self) -> None:
        """Close the store, so that another process can open it."""


def weighted_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of rows with weights."""
    return schema.append(pa.field(_WEIGHT, pa.int64()))


def weighted(batch: pa.RecordBatch, weights: Ints) -> pa.RecordBatch:
    """Return rows with weights as one batch."""
    columns = [*batch.columns, array_of(weights, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=weighted_schema(batch.schema))


def unweighted(combined: pa.RecordBatch) -> tuple[pa.RecordBatch, Ints]:
    """Return the rows and weights that `weighted` was given."""
    weights = np.asarray(combined.column(combined.num_columns - 1))
    return combined.select(combined.schema.names[:-1]), weights


def packed(batch: pa.RecordBatch, weights: Ints) -> bytes:
    """Return rows with weights as bytes."""
    content: bytes = weighted(batch, weights).serialize().to_pybytes()
    return content


def unpacked(content: bytes, schema: pa.Schema) -> tuple[pa.RecordBatch, Ints]:
    """Return the rows and weights that `packed` was given."""
    combined = pa.ipc.read_record_batch(pa.py_buffer(content), weighted_schema(schema))
    combined.validate()
    return unweighted(combined)
