"""What a store keeps: how far a join has come, the rows of both sides, and what it gave last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of
from juncture.kernels.array_types import Ints
from juncture.spec.schema import Side

__all__ = ["Position", "Rows", "Store", "packed", "unpacked", "weighted_schema"]

_WEIGHT = " weight"

Rows = Iterable[tuple[pa.RecordBatch, Ints]]
"""Rows with weights."""


@dataclass(frozen=True)
class Position:
    """How far a join has come.

    Attributes
    ----------
    epoch
        How many epochs it has taken.
    offset
        What its caller knows of where the sources are, as plain data.
    missing
        How many deletes of each side found no row.
    """

    epoch: int
    offset: Any
    missing: Mapping[Side, int]


class Store(Protocol):
    """Keeps the state of one join: what is committed is there whole, and what is not is not there."""

    def position(self) -> Position | None:
        """Return how far the join has come; None for one that has not begun."""

    def rows(self, side: Side) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield the rows of a side: those of the last checkpoint, and all changes since."""

    def last(self) -> list[pa.RecordBatch]:
        """Return what the last epoch gave."""

    def commit(self, position: Position, deltas: Mapping[Side, Rows], answer: list[pa.RecordBatch]) -> None:
        """Keep an epoch: its number and offset, what changed, and what it gave."""

    def checkpoint(self, position: Position, rows: Mapping[Side, Rows]) -> None:
        """Keep all rows anew, in place of the last checkpoint and the changes since."""

    @property
    def wants_checkpoint(self) -> bool:
        """Whether so much has changed since the last checkpoint that reading it would take long."""

    def close(self) -> None:
        """Let another process have the state."""


def weighted_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of rows with weights."""
    return schema.append(pa.field(_WEIGHT, pa.int64()))


def packed(batch: pa.RecordBatch, weights: Ints) -> bytes:
    """Return rows with weights as bytes."""
    whole = pa.RecordBatch.from_arrays(
        [*batch.columns, array_of(weights, pa.int64())], schema=weighted_schema(batch.schema)
    )
    content: bytes = whole.serialize().to_pybytes()
    return content


def unpacked(content: bytes, schema: pa.Schema) -> tuple[pa.RecordBatch, Ints]:
    """Return the rows and weights that `packed` was given."""
    whole = pa.ipc.read_record_batch(pa.py_buffer(content), weighted_schema(schema))
    whole.validate()
    weights = np.asarray(whole.column(whole.num_columns - 1))
    return whole.select(schema.names), weights
