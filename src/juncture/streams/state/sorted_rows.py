"""All stored rows of one side of a stream in one sorted order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.kernels import row_order as kernels
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.symmetric import index_rows
from juncture.streams.state.segment import Arranged, StateBatch

_TIMES_AS_LARGE = 2


_DEAD_LEAST = 1 << 10  # up to this many evicted rows, their memory is not released


class SortedRows:
    """Rows by key and code; equal ones in the order of arrival. ``slots`` are row numbers, valid until `shrink`.

    Adding and evicting takes a pass over all rows. Evicted rows keep their memory until it is as much as that of
    others. A batch is joined with the one before it unless that is several times as large. So there are few batches,
    and each row is copied a logarithmic number of times.
    """

    def __init__(self) -> None:
        self.row_keys: Codes = np.zeros(0, np.int32)
        self.row_codes: Ints = np.zeros(0, np.int64)
        self.slots: Ints = np.zeros(0, np.int64)
        self.evicted = 0
        self._clear()

    def _clear(self) -> None:
        self._matched: Mask = np.zeros(0, np.bool_)  # the rows that have had a match, by slot
        self._batches: list[pa.RecordBatch] = []
        self._edges: Ints = np.zeros(1, np.int64)

    @property
    def rows(self) -> int:
        """Number of stored rows."""
        return len(self.row_keys)

    @property
    def nbytes(self) -> int:
        """Memory of the stored rows."""
        arrays = (self._matched, self.row_keys, self.row_codes, self.slots)
        return sum(int(batch.nbytes) for batch in self._batches) + sum(array.nbytes for array in arrays)

    def add(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> None:
        """Store rows of a batch, arranged by key and code. ``matched`` is a mask of the whole batch."""
        if not len(new_rows.rows):
            return
        keys, codes, slots = new_rows.keys, new_rows.codes[0], new_rows.rows + np.int64(len(self._matched))
        self._append(batch, matched)
        if not self.rows:
            self.row_keys, self.row_codes, self.slots = keys, codes, slots
            return
        count = self.rows + len(slots)
        merged = np.empty(count, np.int32), np.empty(count, np.int64), np.empty(count, np.int64)
        kernels.merge_rows(self.row_keys, self.row_codes, self.slots, keys, codes, slots, *merged)
        self.row_keys, self.row_codes, self.slots = merged

    def _append(self, batch: pa.RecordBatch, matched: Mask) -> None:
        batches = [*self._batches, batch]
        while len(batches) > 1 and batches[-2].num_rows <= _TIMES_AS_LARGE * batches[-1].num_rows:
            try:
                batches[-2:] = [joined_batches(batches[-2:])]
            except pa.ArrowException:
                # The rows do not fit one batch of their types.
                break
        self._batches = batches
        self._edges = np.cumsum([0, *(each.num_rows for each in batches)])
        self._matched = np.concatenate([self._matched, matched])

    def index(self) -> tuple[Codes, Ints]:
        """Return the distinct keys, and the starts of their rows, with the end."""
        starts, groups = np.empty(self.rows + 1, np.int64), np.empty(self.rows, np.int32)
        count = index_rows(self.row_keys, np.empty((0, 0), np.int64), starts, groups, np.empty(0, np.int64))
        return groups[:count], starts[: count + 1]

    def keep(self, wanted: Mask) -> Ints:
        """Evict rows that are not wanted, and return their numbers."""
        gone = np.empty(self.rows, np.int64)
        count = kernels.keep_rows(wanted.view(np.uint8), self.row_keys, self.row_codes, self.slots, gone)
        gone = gone[: self.rows - count]
        self.evicted += len(gone)
        self.row_keys, self.row_codes, self.slots = self.row_keys[:count], self.row_codes[:count], self.slots[:count]
        return gone

    def shrink(self) -> None:
        """Release the memory of evicted rows, once it is as much as that of the others."""
        if not self.rows:
            self._clear()
        elif len(self._matched) > 2 * self.rows + _DEAD_LEAST:
            kept = np.zeros(len(self._matched), np.bool_)
            kept[self.slots] = True
            self.slots = (np.cumsum(kept) - 1)[self.slots]
            batch, matched = self.taken(np.flatnonzero(kept)), self._matched[kept]
            self._clear()
            self._append(batch, matched)

    def taken(self, slots: Ints, names: list[str] | None = None) -> pa.RecordBatch:
        """Return the rows at some numbers, at least one, or some of their columns."""
        parts = np.searchsorted(self._edges[1:-1], slots, "right")
        if (parts == parts[0]).all():
            return self._of_one(int(parts[0]), slots, names)
        found, places = [], []
        for part in np.unique(parts).tolist():
            places.append(np.flatnonzero(parts == part))
            found.append(self._of_one(part, slots[places[-1]], names))
        joined = joined_batches(found)
        if (parts[1:] >= parts[:-1]).all():
            return joined
        back = np.empty(len(slots), np.int64)
        back[np.concatenate(places)] = np.arange(len(slots))
        return rows_of(joined, array_of(back, pa.int64()))

    def _of_one(self, part: int, slots: Ints, names: list[str] | None) -> pa.RecordBatch:
        batch = self._batches[part] if names is None else self._batches[part].select(names)
        return _rows(batch, slots - self._edges[part])

    def mark(self, slots: Ints) -> None:
        """Mark rows as matched."""
        self._matched[slots] = True

    def unmatched(self, slots: Ints) -> Ints:
        """Return which of some rows have had no match."""
        found: Ints = slots[~self._matched[slots]]
        return found

    @property
    def keyed_rows(self) -> int:
        """Number of stored rows."""
        return self.rows

    def keys(self, count: int) -> Mask:
        """Return a mask of the first ``count`` key codes that a row has."""
        used = np.zeros(count, np.bool_)
        used[self.row_keys] = True
        return used

    def rekey(self, mapping: Codes) -> None:
        """Map key codes to new ones, in the same order."""
        self.row_keys = mapping[self.row_keys]

    def batches(self) -> Iterator[StateBatch]:
        """Yield the batches that the rows are in."""
        alive = np.zeros(len(self._matched), np.bool_)
        alive[self.slots] = True
        for batch, first, last in zip(self._batches, self._edges[:-1], self._edges[1:], strict=True):
            if alive[first:last].any():
                yield StateBatch(batch, partial(_masks, alive[first:last], self._matched[first:last]))


def _masks(alive: Mask, matched: Mask) -> tuple[Mask, Mask]:
    return alive, matched.copy()


def _rows(batch: pa.RecordBatch, rows: Ints) -> pa.RecordBatch:
    """Return some rows of a batch, without copying consecutive ones."""
    first, count = int(rows[0]), len(rows)
    if int(rows[-1]) - first == count - 1 and (rows[1:] > rows[:-1]).all():
        return batch if count == batch.num_rows else batch.slice(first, count)
    return rows_of(batch, array_of(rows, pa.int64()))
