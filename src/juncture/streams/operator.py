"""What every operator of streams can, whichever join it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from juncture.kernels.array_types import Mask
from juncture.spec.schema import Side
from juncture.streams.state.held_batch import HeldBatch


class HeldRows(Protocol):
    """The rows that are held of one side.

    Attributes
    ----------
    evicted
        How many have been let go.
    """

    evicted: int

    @property
    def rows(self) -> int:
        """How many rows are held."""

    @property
    def nbytes(self) -> int:
        """How much memory they take."""

    def living(self) -> Iterator[tuple[pa.RecordBatch, Mask]]:
        """Yield the held rows, and which of them have had a match."""

    def batches(self) -> Iterator[HeldBatch]:
        """Yield the batches that the rows are in. A batch of rows that were loaded may be the one that was loaded."""


class StreamOperator(Protocol):
    """Takes rows of both sides, holds what may still match, and yields rows of the answer that are final.

    Attributes
    ----------
    failed
        Whether there was an error after which there is no answer.
    """

    failed: bool

    @property
    def stores(self) -> Mapping[Side, HeldRows]:
        """The rows that are held of each side."""

    def push(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield what follows from rows of a side, whose frontier has moved on by them."""

    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield what follows from rows of a side, but for what `expire` finds: `push` does both."""

    def expire(self, side: Side) -> Iterator[pa.RecordBatch]:
        """Let go of rows of a side that its other side has left behind, and yield what follows from that."""

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Hold rows that were held before."""
