"""The first rows in an order. The best rows are cached, and all rows are scanned if deletes exhaust them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import joined_batches, rows_at
from juncture.incremental.operators.arranged import ArrangedOperator
from juncture.incremental.operators.operator import Flow, ViewOperator
from juncture.incremental.state.arrangement import Delta
from juncture.kernels.array_types import Ints

Best = tuple[pa.RecordBatch, Ints]
"""Rows in order, and their weights."""

_SPARE = 1_000
"""Cached rows beyond the returned ones, so that deletes need no scan."""


@dataclass(frozen=True)
class SortKey:
    """A column of an order."""

    column: int
    descending: bool
    nulls_first: bool


def sorted_rows(batch: pa.RecordBatch, order: Sequence[SortKey]) -> Ints:
    """Return the row numbers in an order. Ties are broken by the remaining columns."""
    named = {key.column for key in order}
    others = [SortKey(place, False, False) for place in range(batch.num_columns) if place not in named]
    columns: list[pa.Array] = []
    keys: list[tuple[str, str]] = []
    for key in [*order, *others]:
        values = batch.column(key.column)
        if pat.is_nested(values.type) or pat.is_null(values.type):
            continue
        direction = "descending" if key.descending else "ascending"
        # Arrow sorts nulls and NaN last in either direction, so a number before each column places them.
        kind = pc.if_else(pc.is_null(values), pa.scalar(2, pa.int8()), pa.scalar(0, pa.int8()))
        if pat.is_floating(values.type):
            nan = pa.scalar(-1 if key.descending else 1, pa.int8())
            kind = pc.if_else(pc.fill_null(pc.is_nan(values), False), nan, kind)
        if key.nulls_first:
            kind = pc.if_else(pc.is_null(values), pa.scalar(-2, pa.int8()), kind)
        if pat.is_boolean(values.type):
            values = values.cast(pa.int8())
        columns += [kind, values]
        keys += [(str(len(keys)), "ascending"), (str(len(keys) + 1), direction)]
    if not columns:
        return np.arange(batch.num_rows)
    table = pa.Table.from_arrays(columns, names=[name for name, _ in keys])
    rows: Ints = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    return rows


class TopOperator(ViewOperator):
    """Returns ``limit`` rows in an order after ``offset`` rows; without a limit, all."""

    def __init__(
        self, label: str, source: ArrangedOperator, order: Sequence[SortKey], limit: int | None, offset: int
    ) -> None:
        super().__init__(label, source.schema.types, (source,))
        self._source = source
        self._order = order
        self._offset = offset
        self._end = None if limit is None else offset + limit
        self._best = pa.RecordBatch.from_pylist([], self.schema), np.zeros(0, np.int64)
        self._has_all = True
        self._next = self._best, True

    @property
    def reads(self) -> Collection[ViewOperator]:
        """The rows in any order."""
        return (self._source,)

    @property
    def has_parts(self) -> bool:
        """All rows meet."""
        return False

    def step(self, _flows: Sequence[Flow]) -> Flow:
        """Return the rows that enter or exit the first rows."""
        delta = self._source.delta
        self._next = self._best, self._has_all
        if not len(delta):
            return []
        batch, weights, has_all = self._changed(self._best, self._has_all, delta)
        if not has_all and (self._end is None or weights.sum() < self._end):
            batch, weights, has_all = self._changed(
                *self._anew(deletes=-int(delta.weights[delta.weights < 0].sum())), delta
            )
        self._next = (batch, weights), has_all
        old_rows, new_rows = self._shown(*self._best), self._shown(batch, weights)
        return [each for each in ((old_rows[0], -old_rows[1]), new_rows) if each[0].num_rows]

    def _changed(self, best: Best, has_all: bool, delta: Delta) -> tuple[pa.RecordBatch, Ints, bool]:
        """Return the best rows after some changes, and whether they are all rows."""
        cached, cached_weights = best
        parts = joined_batches([cached, delta.batch])
        total = np.concatenate([cached_weights, delta.weights])
        order = sorted_rows(parts, self._order)
        if not has_all and cached.num_rows:
            # Rows after the last cached one may be incomplete, so drop them, except for rows equal to it.
            last = int(np.flatnonzero(order == cached.num_rows - 1)[0])
            behind = order[last + 1 :]
            complete = order[: last + 1]
            equal = self._source.identity.same(
                rows_at(parts, behind), rows_at(parts, np.full(len(behind), cached.num_rows - 1))
            )
            order = np.concatenate([complete, behind[equal]])
        elif not has_all:
            order = order[:0]
        return self._cut(rows_at(parts, order), total[order], has_all)

    def _anew(self, deletes: int) -> tuple[Best, bool]:
        """Return the best rows before the epoch and ``deletes`` more, read in pieces, and whether they are all rows."""
        best, weights, has_all = pa.RecordBatch.from_pylist([], self.schema), np.zeros(0, np.int64), True
        for rows, count in self._source.arrangement.living():
            parts, total = joined_batches([best, rows]), np.concatenate([weights, count])
            order = sorted_rows(parts, self._order)
            best, weights, has_all = self._cut(rows_at(parts, order), total[order], has_all, deletes)
        return (best, weights), has_all

    def _cut(
        self, batch: pa.RecordBatch, weights: Ints, has_all: bool, more: int = 0
    ) -> tuple[pa.RecordBatch, Ints, bool]:
        """Return the first rows and ``more`` extra ones, with equal rows merged, and whether they are all rows."""
        batch, weights = self._summed(batch, weights)
        if self._end is None:
            return batch, weights, has_all
        room = self._end + max(_SPARE, self._end) + more
        count = int(np.searchsorted(np.cumsum(weights), room)) + 1
        if count < batch.num_rows:
            return batch.slice(0, count), weights[:count], False
        return batch, weights, has_all

    def _summed(self, batch: pa.RecordBatch, weights: Ints) -> tuple[pa.RecordBatch, Ints]:
        """Return adjacent equal rows merged, without rows of weight zero."""
        if batch.num_rows < 2:
            rows = np.flatnonzero(weights)
            return rows_at(batch, rows), weights[rows]
        same = self._source.identity.same(batch.slice(1), batch.slice(0, batch.num_rows - 1))
        starts = np.flatnonzero(np.concatenate([[True], ~same]))
        total = np.add.reduceat(weights, starts)
        assert (total >= 0).all(), f"{self.label} received deletes of rows that it does not store"
        present = np.flatnonzero(total)
        return rows_at(batch, starts[present]), total[present]

    def _shown(self, batch: pa.RecordBatch, weights: Ints) -> tuple[pa.RecordBatch, Ints]:
        """Return the rows between offset and limit with their weights."""
        ends = np.cumsum(weights)
        most = ends if self._end is None else np.minimum(ends, self._end)
        copies = most - np.maximum(ends - weights, self._offset)
        rows = np.flatnonzero(copies > 0)
        return rows_at(batch, rows), copies[rows]

    def restored(self) -> None:
        """Find the best rows again."""
        self._next = self._anew(deletes=0)
        self.commit()

    def commit(self) -> None:
        """Commit the best rows."""
        self._best, self._has_all = self._next

    def abandon(self) -> None:
        """Restore the best rows."""
        self._next = self._best, self._has_all

    @property
    def rows(self) -> int:
        """Number of cached rows."""
        return int(self._best[0].num_rows)

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the cached rows."""
        return int(self._best[0].nbytes) + int(self._best[1].nbytes)
