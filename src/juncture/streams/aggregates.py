"""Joins of streams that emit a left row once no future row can match it: aggregates of its matches, and lookups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import joined_batches, rows_at
from juncture.errors import DataError
from juncture.kernels.array_types import Mask
from juncture.local.inequality.join import execute
from juncture.local.many.answers import FINDERS
from juncture.local.many.spine import Spine
from juncture.matching.condition import Condition
from juncture.matching.output import Output
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.spec.equi import Equi
from juncture.spec.many import Duplicates, ResolvedTable
from juncture.spec.schema import SIDES, Side
from juncture.streams.bounds import Bounds
from juncture.streams.frontier import Frontier, Limits
from juncture.streams.operator import StreamOperator
from juncture.streams.state.keyed import KeyedStore


class AggregateJoin(StreamOperator):
    """A join that emits each left row once, with aggregates over all of its matches."""

    def __init__(
        self,
        condition: Condition,
        bounds: Mapping[Side, Bounds],
        right_schema: pa.Schema,
        frontiers: Mapping[Side, Frontier],
    ) -> None:
        self.stores: Mapping[Side, KeyedStore] = {side: KeyedStore(condition.matching) for side in SIDES}
        super().__init__(condition, frontiers, self.stores)
        self._join: Any = condition.join
        self._bounds = bounds
        self._right_schema = right_schema

    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Store rows of a side, and yield rows that can match nothing."""
        new_rows = self._arranged(side, batch)
        self.stores[side].add(batch, new_rows, np.zeros(len(new_rows.rows), np.bool_))
        if side == "left" and len(new_rows.rows) < batch.num_rows:
            yield from self._answers(rows_at(batch, new_rows.others(batch.num_rows)))

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Store rows from a checkpoint."""
        new_rows = self._arranged(side, batch)
        self.stores[side].add(batch, new_rows, matched[new_rows.rows])

    def expire(self, _side: Side) -> Iterator[pa.RecordBatch]:
        """Yield left rows whose windows are complete, and evict right rows that are in no other window."""
        limits = self._bounds["left"].limits(self._frontiers["right"])
        complete = [segment.taken(gone) for segment, gone in self.stores["left"].expire(limits)]
        if complete:
            yield from self._answers(joined_batches(complete))
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

    def _answers(self, left: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield left rows with aggregates over the stored right rows that they match."""
        with join_context(threads=1) as context:
            yield from execute(self._join, _source([left]), _source(self._right_rows()), context)

    def _right_rows(self) -> list[pa.RecordBatch]:
        living = [stored.living()[0] for stored in self.stores["right"].batches()]
        return living or [pa.RecordBatch.from_pylist([], self._right_schema)]


def _source(batches: list[pa.RecordBatch]) -> TableSource:
    return TableSource(pa.Table.from_batches(batches))


class LookupJoin(AggregateJoin):
    """An equality join that emits each left row once, with at most one match. It fails at a forbidden duplicate."""

    def __init__(
        self,
        condition: Condition,
        bounds: Mapping[Side, Bounds],
        right_schema: pa.Schema,
        duplicates: Duplicates,
        output: Output,
        frontiers: Mapping[Side, Frontier],
    ) -> None:
        super().__init__(condition, bounds, right_schema, frontiers)
        self._find = FINDERS[Equi]["lookup" if self._join.predicate is None else "hash"]
        self._output = output
        self._table = ResolvedTable(
            name="",
            join=self._join,
            columns=(),
            aggregates=(),
            duplicates=duplicates,
            check_available_at=None,
        )

    def _answers(self, left: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield left rows beside the stored right row that each matches."""
        right = joined_batches(self._right_rows())
        try:
            with join_context(threads=1) as context:
                sources = _source([left]), _source([right])
                pointers = self._find(self._join, self._table, Spine(context), *sources, context)
        except DataError:
            self.failed = True
            raise
        matched = np.flatnonzero(pointers >= 0)
        if len(matched):
            yield self._output.pairs(rows_at(left, matched), rows_at(right, pointers[matched]))
        if len(matched) < left.num_rows:
            yield self._output.alone(rows_at(left, np.flatnonzero(pointers < 0)), "left")
