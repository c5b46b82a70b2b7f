"""One bucket of a hosted join: what a micro-batch brings both sides, and what follows from it."""

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
from juncture.streams.state.held_batch import HeldBatch


class BucketJoin(StreamJoin):
    """A join of two streams that takes whole micro-batches.

    Rows of a micro-batch come in no order, and a bucket sees some of them. So they are late by how far all buckets had
    come before it, and none of them makes another one late; after them the sides have come as far as it is told.
    """

    def step(
        self, rows: Mapping[Side, Sequence[pa.RecordBatch]], greatest: Mapping[Side, Sequence[Sequence[int | None]]]
    ) -> list[pa.RecordBatch]:
        """Take the rows of a micro-batch that are in this bucket, and return what follows.

        Parameters
        ----------
        rows
            Of each side, with the columns that the join looks at.
        greatest
            Of each side, the greatest code of each order in all rows of the micro-batch, part by part.

        Raises
        ------
        DataError
            If a row has no place in an order and might match, an interval starts after its end, or right rows tie where
            that is an error.
        """
        self._check_open()
        for side in SIDES:
            for batch in combined(list(rows[side])):
                self._take(side, batch)
        for side in SIDES:
            self._move(side, greatest[side])
        for side in SIDES:
            self._ready += self._expire(side)
        return self._given()

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Hold rows that were held before, with the marks of which have had a match."""
        self._operator.load(side, batch, matched)

    def held(self, side: Side) -> Iterator[HeldBatch]:
        """Yield what is held of a side. Loaded rows are in the batches that `load` was given, if they stay."""
        return self._operator.stores[side].batches()

    def progress(self) -> dict[str, Any]:
        """Return how far the join has come, as plain data: a snapshot's, without its rows."""
        return self._progress()

    def passed(self, side: Side) -> float | None:
        """Return the least that can still come in a side's first order, in seconds or as a number that grows."""
        frontier = self._frontiers[side]
        least = frontier.least[0] if frontier.orders else None
        return None if least is None else frontier.orders[0].measured(least)

    def _take(self, side: Side, batch: pa.RecordBatch) -> None:
        late, placed = _judged(self._frontiers[side], batch)
        self._check_placed(side, batch, placed)
        if late is not None:
            batch = self._set_apart(side, batch, batch, late)
        held = batch.select(self._plan.held[side].names)
        if held.num_rows:
            self._ready += self._operator.take(side, held)

    def _move(self, side: Side, greatest: Sequence[Sequence[int | None]]) -> None:
        """Let a side have come as far as its greatest rows tell."""
        frontier = self._frontiers[side]
        for codes in greatest:
            frontier.advance(
                [
                    None if code is None else order.behind_one(code)
                    for order, code in zip(frontier.orders, codes, strict=True)
                ]
            )


def _judged(frontier: Frontier, batch: pa.RecordBatch) -> tuple[Mask | None, list[Mask | None]]:
    """Return which rows a side has left behind, and which have a place in each order; None for none, and for all."""
    late = np.zeros(batch.num_rows, np.bool_)
    placed: list[Mask | None] = []
    for order, least in zip(frontier.orders, frontier.least, strict=True):
        codes, valid = order.codes(batch)
        placed.append(valid)
        if least is not None:
            behind = codes < least
            late |= behind if valid is None else behind & valid
    return (late if late.any() else None), placed
