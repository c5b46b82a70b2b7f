"""The interface of the operators of stream joins, and of the rows that they store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from juncture.kernels.array_types import Mask
from juncture.spec.schema import Side


class StateView(Protocol):
    """The stored rows of one side. ``evicted`` counts rows that were evicted."""

    evicted: int

    @property
    def rows(self) -> int:
        """Number of stored rows."""

    @property
    def nbytes(self) -> int:
        """Memory of the stored rows."""

    def living(self) -> Iterator[tuple[pa.RecordBatch, Mask]]:
        """Yield the stored rows, and masks of those that have had a match."""

    def batches(self) -> Iterator[StateBatch]:
        """Yield the batches that the rows are in. Loaded rows may be in the same objects that were loaded."""


class StreamOperator(Protocol):
    """Takes rows of both sides, stores rows that may still match, and yields final results. ``failed`` ends it."""

    failed: bool

    @property
    def stores(self) -> Mapping[Side, StateView]:
        """The stored rows of each side."""

    def push(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the results of new rows of a side, after its frontier has advanced past them."""

    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the results of new rows of a side, without those of `expire`."""

    def expire(self, side: Side) -> Iterator[pa.RecordBatch]:
        """Evict rows of a side that the other side has passed, and yield the results of that."""

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Store rows from a checkpoint."""


@dataclass(frozen=True)
class StateBatch:
    """Stored rows. ``batch`` is the same object while they stay together; ``alive`` and ``matched`` are masks of it."""

    batch: pa.RecordBatch
    alive: Mask
    matched: Mask
