"""Aggregates over windows of streams: a left row is emitted once no future row can be in its window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.kernels.array_types import Mask
from juncture.kernels.hash_table import EMPTY
from juncture.local.inequality.join import execute
from juncture.matching.condition import Condition
from juncture.matching.keys import JoinKeys
from juncture.matching.output import stored_schema
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.spec.schema import Side
from juncture.streams.bounds import Bounds
from juncture.streams.frontier import Frontier, Limits
from juncture.streams.state.keyed import KeyedStore, arrange


class AggregateJoin:
    """A join that emits each left row once, with aggregates over all of its matches."""

    def __init__(self, condition: Condition, bounds: Mapping[Side, Bounds], frontiers: Mapping[Side, Frontier]) -> None:
        self._condition = condition
        self._bounds = bounds
        self._frontiers = frontiers
        self.failed = False
        self.stores: dict[Side, KeyedStore] = {
            "left": KeyedStore(condition.matching),
            "right": KeyedStore(condition.matching),
        }
        self._keys = JoinKeys(condition.key_types, self.stores, nulls_equal=condition.nulls_equal)

    def push(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the results of new rows of a side, after its frontier has advanced past them."""
        yield from self.take(side, batch)
        yield from self.expire(side)

    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Store rows of a side, and yield rows that can match nothing."""
        possible = self._store(side, batch)
        if side == "left" and possible is not None:
            yield from self._aggregated(rows_of(batch, array_of(np.flatnonzero(~possible), pa.int64())))

    def _store(self, side: Side, batch: pa.RecordBatch) -> Mask | None:
        """Store the rows of a side that have a key; return a mask of them, or None if all have one."""
        compared = self._condition.rows(batch, side)
        keys = self._keys.of(compared.keys, compared.valid, batch.num_rows)
        found = arrange(keys, compared.codes, self._keys.count)
        self.stores[side].add(batch, found, np.zeros(len(found.rows), np.bool_))
        return None if len(found.rows) == batch.num_rows else keys != EMPTY

    def load(self, side: Side, batch: pa.RecordBatch, _matched: Mask) -> None:
        """Store rows from a checkpoint."""
        self._store(side, batch)

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
        greatest = np.max([_greatest(segment.codes, segment.alive) for segment in waiting], axis=0)
        future = np.full(len(greatest), MAX_CODE) if limits.ended else limits.least
        return Limits(np.minimum(future, ~greatest))

    def _aggregated(self, left: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield left rows with aggregates over the stored right rows that they match."""
        join: Any = self._condition.join
        held = [batch for batch, _ in self.stores["right"].living()]
        right = pa.Table.from_batches(held) if held else stored_schema(join, "right").empty_table()
        sources = TableSource(pa.Table.from_batches([left])), TableSource(right)
        with join_context(threads=1) as context:
            yield from execute(join, *sources, context)


def _greatest(codes: npt.NDArray[np.int64], alive: Mask) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = codes.max(axis=1, initial=MIN_CODE, where=alive)
    return found
