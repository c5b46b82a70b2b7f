"""Aggregates over windows of streams: a left row is emitted once no future row can be in its window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import joined_batches, rows_at
from juncture.kernels.array_types import Mask
from juncture.local.inequality.join import execute
from juncture.matching.condition import Condition
from juncture.matching.output import stored_schema
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.spec.schema import SIDES, Side
from juncture.streams.bounds import Bounds
from juncture.streams.frontier import Frontier, Limits
from juncture.streams.operator import StreamOperator
from juncture.streams.state.keyed import KeyedStore


class AggregateJoin(StreamOperator):
    """A join that emits each left row once, with aggregates over all of its matches."""

    def __init__(self, condition: Condition, bounds: Mapping[Side, Bounds], frontiers: Mapping[Side, Frontier]) -> None:
        self.stores: Mapping[Side, KeyedStore] = {side: KeyedStore(condition.matching) for side in SIDES}
        super().__init__(condition, frontiers, self.stores)
        self._join: Any = condition.join
        self._bounds = bounds

    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Store rows of a side, and yield rows that can match nothing."""
        new_rows = self._arranged(side, batch)
        self.stores[side].add(batch, new_rows, np.zeros(len(new_rows.rows), np.bool_))
        if side == "left" and len(new_rows.rows) < batch.num_rows:
            yield from self._aggregated(rows_at(batch, new_rows.others(batch.num_rows)))

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Store rows from a checkpoint."""
        new_rows = self._arranged(side, batch)
        self.stores[side].add(batch, new_rows, matched[new_rows.rows])

    def expire(self, _side: Side) -> Iterator[pa.RecordBatch]:
        """Yield left rows whose windows are complete, and evict right rows that are in no other window."""
        limits = self._bounds["left"].limits(self._frontiers["right"])
        complete = [segment.taken(gone) for segment, gone in self.stores["left"].expire(limits)]
        if complete:
            yield from self._aggregated(joined_batches(complete))
        for _ in self.stores["right"].expire(self._right_limits()):
            pass
        self._keys.forget()

    def _right_limits(self) -> Limits:
        """Return the limits of right rows that can be in a window of a waiting or future left row."""
        limits = self._bounds["right"].limits(self._frontiers["left"])
        waiting = [segment for segment in self.stores["left"].segments if segment.alive_rows]
        if not waiting:
            return limits
        greatest = np.max(
            [segment.codes.max(axis=1, initial=MIN_CODE, where=segment.alive) for segment in waiting], axis=0
        )
        future = np.full(len(greatest), MAX_CODE) if limits.ended else limits.least
        return Limits(np.minimum(future, ~greatest))

    def _aggregated(self, left: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield left rows with aggregates over the stored right rows that they match."""
        living = [stored.living()[0] for stored in self.stores["right"].batches()]
        right = pa.Table.from_batches(living, stored_schema(self._join, "right"))
        sources = TableSource(pa.Table.from_batches([left])), TableSource(right)
        with join_context(threads=1) as context:
            yield from execute(self._join, *sources, context)
