"""The first rows in an order. The best rows are cached, and all rows are scanned if deletes exhaust them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import joined_batches, rows_at
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.incremental.operators.arranged import ArrangedOperator
from juncture.incremental.operators.eviction import Frontiers, Future, final_rows
from juncture.incremental.operators.operator import ViewOperator
from juncture.incremental.state.run import Delta
from juncture.kernels.array_types import Ints, Mask

_SPARE = 1_000  # cached rows beyond the returned ones, so that deletes need no scan


@dataclass(frozen=True)
class SortKey:
    """A column of an order."""

    column: int
    descending: bool
    nulls_first: bool


def sorted_rows(batch: pa.RecordBatch, order: Sequence[SortKey]) -> Ints:
    """Return the row numbers in an order. Ties are broken by the remaining columns."""
    named = {key.column for key in order}
    others = [SortKey(index, False, False) for index in range(batch.num_columns) if index not in named]
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
        # All changes of the source that are possible, if it may forget the rows that none of them can return.
        self.superseding: Future = ()
        self._best = ChangeBatch.joined([], self.schema)  # the first rows in order, with their weights
        self._has_all = True
        self._next = self._best, True

    @property
    def needed_final_rows(self) -> int | None:
        """How many final rows are needed, the first ones in order; None for all."""
        return None if any(map(pat.is_nested, self.schema.types)) else self._end

    def forget(self, frontiers: Frontiers) -> None:
        """Remove final rows of the source beyond those that are returned if all rows that can be deleted are."""
        arrangement, end = self._source.arrangement, self.needed_final_rows
        if end is None or not self.superseding or not arrangement.may_evict:
            return
        is_final = partial(final_rows, self.superseding, frontiers=frontiers)
        first = ChangeBatch.joined([], self.schema)
        for each in arrangement.living():
            rows = ChangeBatch.joined([first, each.some(np.flatnonzero(is_final(each.rows)))], self.schema)
            first = self._summed(rows.some(sorted_rows(rows.rows, self._order)))
            first = first.slice(0, int(np.searchsorted(np.cumsum(first.weights), end)) + 1)
        if end and first.weights.sum() >= end:
            arrangement.evict(partial(self._beyond, first.rows.slice(first.rows.num_rows - 1), is_final))

    def _beyond(self, last: pa.RecordBatch, is_final: Callable[[pa.RecordBatch], Mask], batch: pa.RecordBatch) -> Mask:
        """Return which rows are final, and after another one in order."""
        mask = is_final(batch)
        final = np.flatnonzero(mask)
        order = sorted_rows(joined_batches([last, rows_at(batch, final)]), self._order)
        after = final[order[int(np.flatnonzero(order == 0)[0]) + 1 :] - 1]
        equal = self._source.identity.same(rows_at(batch, after), rows_at(last, np.zeros(len(after), np.int64)))
        mask[:] = False
        mask[after[~equal]] = True
        return mask

    @property
    def reads(self) -> Collection[ViewOperator]:
        """The rows in any order."""
        return (self._source,)

    @property
    def has_parts(self) -> bool:
        """All rows meet."""
        return False

    def step(self, _flows: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the rows that enter or exit the first rows."""
        delta = self._source.delta
        self._next = self._best, self._has_all
        if not len(delta):
            return []
        best, has_all = self._changed(self._best, self._has_all, delta)
        if not has_all and (self._end is None or best.weights.sum() < self._end):
            best, has_all = self._changed(*self._anew(deletes=-int(delta.weights[delta.weights < 0].sum())), delta)
        self._next = best, has_all
        old, new = self._in_output(self._best), self._in_output(best)
        return [each for each in (ChangeBatch(old.rows, -old.weights), new) if each.rows.num_rows]

    def _changed(self, best: ChangeBatch, has_all: bool, delta: Delta) -> tuple[ChangeBatch, bool]:
        """Return the best rows after some changes, and whether they are all rows."""
        cached = best.rows.num_rows
        rows = ChangeBatch.joined([best, delta.changes], self.schema)
        order = sorted_rows(rows.rows, self._order)
        if not has_all and cached:
            # Rows after the last cached one may be incomplete, so drop them, except for rows equal to it.
            last = int(np.flatnonzero(order == cached - 1)[0])
            behind = order[last + 1 :]
            complete = order[: last + 1]
            equal = self._source.identity.same(
                rows_at(rows.rows, behind), rows_at(rows.rows, np.full(len(behind), cached - 1))
            )
            order = np.concatenate([complete, behind[equal]])
        elif not has_all:
            order = order[:0]
        return self._cut(rows.some(order), has_all)

    def _anew(self, deletes: int) -> tuple[ChangeBatch, bool]:
        """Return the best rows before the epoch and ``deletes`` more, read in pieces, and whether they are all rows."""
        best, has_all = ChangeBatch.joined([], self.schema), True
        for each in self._source.arrangement.living():
            rows = ChangeBatch.joined([best, each], self.schema)
            best, has_all = self._cut(rows.some(sorted_rows(rows.rows, self._order)), has_all, deletes)
        return best, has_all

    def _cut(self, rows: ChangeBatch, has_all: bool, more: int = 0) -> tuple[ChangeBatch, bool]:
        """Return the first rows and ``more`` extra ones, with equal rows merged, and whether they are all rows."""
        rows = self._summed(rows)
        if self._end is None:
            return rows, has_all
        room = self._end + max(_SPARE, self._end) + more
        count = int(np.searchsorted(np.cumsum(rows.weights), room)) + 1
        return (rows.slice(0, count), False) if count < len(rows.weights) else (rows, has_all)

    def _summed(self, rows: ChangeBatch) -> ChangeBatch:
        """Return adjacent equal rows merged, without rows of weight zero."""
        batch, weights = rows
        if batch.num_rows < 2:
            return rows.some(np.flatnonzero(weights))
        same = self._source.identity.same(batch.slice(1), batch.slice(0, batch.num_rows - 1))
        starts = np.flatnonzero(np.concatenate([[True], ~same]))
        total = np.add.reduceat(weights, starts)
        assert (total >= 0).all(), f"{self.label} received deletes of rows that it does not store"
        present = np.flatnonzero(total)
        return ChangeBatch(rows_at(batch, starts[present]), total[present])

    def _in_output(self, best: ChangeBatch) -> ChangeBatch:
        ends = np.cumsum(best.weights)
        most = ends if self._end is None else np.minimum(ends, self._end)
        copies = most - np.maximum(ends - best.weights, self._offset)
        return ChangeBatch(best.rows, copies).some(np.flatnonzero(copies > 0))

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
        return int(self._best.rows.num_rows)

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the cached rows."""
        return int(self._best.rows.nbytes) + int(self._best.weights.nbytes)
