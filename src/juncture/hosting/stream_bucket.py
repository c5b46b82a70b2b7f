"""One bucket of a hosted stream join: applies the rows of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Mask
from juncture.spec.schema import SIDES, Side
from juncture.streams.batches import combined
from juncture.streams.frontier import Frontier
from juncture.streams.join import StreamJoin
from juncture.streams.state.state_batch import StateBatch


class BucketJoin(StreamJoin):
    """A join of two streams that takes whole micro-batches.

    The rows of a micro-batch have no order, and a bucket has only some of them. So they are late relative to the
    frontier of all buckets before the micro-batch, and no row of the micro-batch makes another one late.
    """

    def step(
        self, rows: Mapping[Side, Sequence[pa.RecordBatch]], greatest: Mapping[Side, Sequence[Sequence[int | None]]]
    ) -> list[pa.RecordBatch]:
        """Apply the rows of a micro-batch in this bucket. ``greatest`` has the codes of all its rows, part by part."""
        self._check_open()
        for side in SIDES:
            for batch in combined(list(rows[side])):
                self._take(side, batch)
        for side in SIDES:
            self._move(side, greatest[side])
        for side in SIDES:
            self._ready += self._expire(side)
        return self._results()

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Store rows from a checkpoint, with a mask of those that have had a match."""
        self._operator.load(side, batch, matched)

    def held(self, side: Side) -> Iterator[StateBatch]:
        """Yield the stored rows of a side. Loaded rows are in the batches that were passed to `load`, if unchanged."""
        return self._operator.stores[side].batches()

    def progress(self) -> dict[str, Any]:
        """Return the progress of the join as plain data: a snapshot without rows."""
        return self._progress()

    def passed(self, side: Side) -> float | None:
        """Return the least future position of a side in its first order, in seconds or as a growing number."""
        frontier = self._frontiers[side]
        least = frontier.least[0] if frontier.orders else None
        return None if least is None else frontier.orders[0].measured(least)

    def _take(self, side: Side, batch: pa.RecordBatch) -> None:
        late, placed = _judged(self._frontiers[side], batch)
        self._check_placed(side, batch, placed)
        if late is not None:
            batch = self._without_late(side, batch, batch, late)
        held = batch.select(self._plan.held[side].names)
        if held.num_rows:
            self._ready += self._operator.take(side, held)

    def _move(self, side: Side, greatest: Sequence[Sequence[int | None]]) -> None:
        """Advance the frontier of a side."""
        frontier = self._frontiers[side]
        for codes in greatest:
            frontier.advance(
                [
                    None if code is None else order.behind_one(code)
                    for order, code in zip(frontier.orders, codes, strict=True)
                ]
            )


def _judged(frontier: Frontier, batch: pa.RecordBatch) -> tuple[Mask | None, list[Mask | None]]:
    """Return a mask of late rows (None for none), and for each order a mask of rows with a value (None for all)."""
    late = np.zeros(batch.num_rows, np.bool_)
    placed: list[Mask | None] = []
    for order, least in zip(frontier.orders, frontier.least, strict=True):
        codes, valid = order.codes(batch)
        placed.append(valid)
        if least is not None:
            behind = codes < least
            late |= behind if valid is None else behind & valid
    return (late if late.any() else None), placed
