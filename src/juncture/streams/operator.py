"""What every operator of streams can, whichever join it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from juncture.columnar.arrays import Mask
from juncture.spec.schema import Side
from juncture.streams.state.store import RowStore

__all__ = ["StreamOperator"]


class StreamOperator(Protocol):
    """Takes rows of both sides, holds what may still match, and yields rows of the answer that are final.

    Attributes
    ----------
    stores
        The rows that are held of each side.
    failed
        Whether there was an error after which there is no answer.
    """

    stores: dict[Side, RowStore]
    failed: bool

    def push(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield what follows from rows of a side, whose frontier has moved on by them."""

    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield what follows from rows of a side, but for what `expire` finds: `push` does both."""

    def expire(self, side: Side) -> Iterator[pa.RecordBatch]:
        """Let go of rows of a side that its other side has left behind, and yield what follows from that."""

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Hold rows that were held before."""
