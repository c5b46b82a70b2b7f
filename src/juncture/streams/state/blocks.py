"""Rows by number, in few batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.kernels.array_types import Ints, Mask
from juncture.streams.state.state_batch import StateBatch

_TIMES_AS_LARGE = 2


class Blocks:
    """Rows numbered in the order of arrival, with a mark of those that have had a match.

    Notes
    -----
    A batch is joined with the one before it unless that is several times as large. So there are few batches, and each
    row is copied a number of times that grows with the logarithm of their number.
    """

    def __init__(self) -> None:
        self.matched: Mask = np.zeros(0, np.bool_)
        self._batches: list[pa.RecordBatch] = []
        self._edges: Ints = np.zeros(1, np.int64)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.matched)

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return sum(int(batch.nbytes) for batch in self._batches) + self.matched.nbytes

    def add(self, batch: pa.RecordBatch, matched: Mask) -> None:
        """Append rows."""
        batches = [*self._batches, batch]
        while len(batches) > 1 and batches[-2].num_rows <= _TIMES_AS_LARGE * batches[-1].num_rows:
            try:
                batches[-2:] = [joined_batches(batches[-2:])]
            except pa.ArrowException:
                # The rows do not fit one batch of their types.
                break
        self._batches = batches
        self._edges = np.cumsum([0, *(each.num_rows for each in batches)])
        self.matched = np.concatenate([self.matched, matched])

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

    def held(self, alive: Mask) -> Iterator[StateBatch]:
        """Yield the batches that have any living row."""
        for batch, first, last in zip(self._batches, self._edges[:-1], self._edges[1:], strict=True):
            if alive[first:last].any():
                yield StateBatch(batch, alive[first:last], self.matched[first:last].copy())

    def _of_one(self, part: int, slots: Ints, names: list[str] | None) -> pa.RecordBatch:
        batch = self._batches[part] if names is None else self._batches[part].select(names)
        return _rows(batch, slots - self._edges[part])


def _rows(batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return some rows of a batch, without copying consecutive ones."""
    first, count = int(rows[0]), len(rows)
    if int(rows[-1]) - first == count - 1 and (rows[1:] > rows[:-1]).all():
        return batch if count == batch.num_rows else batch.slice(first, count)
    return rows_of(batch, array_of(rows, pa.int64()))
