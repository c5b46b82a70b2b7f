"""What a store keeps: how far a join has come, runs of rows, the changes since, and what the last epoch gave."""

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
    """How far a join has come."""

    epoch: int
    offset: Any
    missing: Mapping[Side, int]


class Writer(Protocol):
    """Writes one run."""

    def add(self, rows: BlockRows, /) -> None:
        """Write rows that follow those before."""


class Store(BlockReader, Protocol):
    """Keeps the state of one join: what is committed is there whole, and what is not is not there.

    That is the runs of a checkpoint, and the changes of each epoch since.
    """

    folder: Path

    def position(self) -> Position | None:
        """Return how far the join has come; None for one that has not begun."""

    def runs(self, side: Side) -> list[tuple[Index, Mask, int]]:
        """Return the runs of a side as of the last checkpoint: indexes, which blocks have a state, and living rows."""

    def log(self, side: Side) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield the changes of a side since the last checkpoint."""

    def last(self) -> list[pa.RecordBatch]:
        """Return what the last epoch gave."""

    def writer(self, *, is_sorted: bool) -> Any:
        """Begin to write a run, which is taken in by `take_in`."""

    def take_in(self, writer: Any, /) -> tuple[Index, Mask] | None:
        """Take in a run, which counts once a checkpoint names it; return what `runs` does of it, None without rows."""

    def write(self, pieces: Iterable[BlockRows], *, is_sorted: bool) -> tuple[Index, Mask] | None:
        """Write rows as a run, and take it in."""

    def commit(self, position: Position, deltas: Mapping[Side, Changed], answer: list[pa.RecordBatch]) -> None:
        """Keep an epoch: its number and offset, what changed, and what it gave."""

    def checkpoint(self, position: Position, runs: Mapping[Side, Sequence[StoredRun]]) -> None:
        """Have these runs count, with what has changed of them, in place of others and of the changes since."""

    @property
    def wants_checkpoint(self) -> bool:
        """Whether so much has changed since the last checkpoint that reading it would take long."""

    def close(self) -> None:
        """Let another process have the state."""


def weighted_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of rows with weights."""
    return schema.append(pa.field(_WEIGHT, pa.int64()))


def weighted(batch: pa.RecordBatch, weights: Ints) -> pa.RecordBatch:
    """Return rows with weights as one batch."""
    columns = [*batch.columns, array_of(weights, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=weighted_schema(batch.schema))


def unweighted(whole: pa.RecordBatch) -> tuple[pa.RecordBatch, Ints]:
    """Return the rows and weights that `weighted` was given."""
    weights = np.asarray(whole.column(whole.num_columns - 1))
    return whole.select(whole.schema.names[:-1]), weights


def packed(batch: pa.RecordBatch, weights: Ints) -> bytes:
    """Return rows with weights as bytes."""
    content: bytes = weighted(batch, weights).serialize().to_pybytes()
    return content


def unpacked(content: bytes, schema: pa.Schema) -> tuple[pa.RecordBatch, Ints]:
    """Return the rows and weights that `packed` was given."""
    whole = pa.ipc.read_record_batch(pa.py_buffer(content), weighted_schema(schema))
    whole.validate()
    return unweighted(whole)
