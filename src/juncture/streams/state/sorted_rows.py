"""All held rows of one side of a stream in one order, where each row that comes is put."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from juncture.kernels import sorted_rows as kernels
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.symmetric import index_rows
from juncture.streams.state.blocks import Blocks
from juncture.streams.state.held_batch import HeldBatch

_DEAD_LEAST = 1 << 10
"""Rows that have been let go up to which their memory is not asked back."""


class SortedRows:
    """Rows in the order of key and code; those of one key and code in the order in which they came.

    Attributes
    ----------
    row_keys, row_codes
        Of the rows.
    slots
        Their numbers, by which their columns are looked up until `shrink` is called.
    evicted
        How many rows have been let go.

    Notes
    -----
    Rows are put in and let go by a pass over all that are held. What was let go keeps its memory until it is as much as
    what is held.
    """

    def __init__(self) -> None:
        self.row_keys: Codes = np.zeros(0, np.int32)
        self.row_codes: Ints = np.zeros(0, np.int64)
        self.slots: Ints = np.zeros(0, np.int64)
        self.evicted = 0
        self._blocks = Blocks()

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return len(self.row_keys)

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return self._blocks.nbytes + self.row_keys.nbytes + self.row_codes.nbytes + self.slots.nbytes

    def add(self, batch: pa.RecordBatch, rows: Codes, keys: Codes, codes: Ints, matched: Mask) -> None:
        """Hold rows of a batch.

        Parameters
        ----------
        batch
            The rows, in any order.
        rows
            Which of them to hold, in the order of key and code.
        keys, codes
            Of these.
        matched
            Which rows of the batch have had a match.
        """
        if not len(rows):
            return
        slots = rows + np.int64(self._blocks.rows)
        self._blocks.add(batch, matched)
        if not self.rows:
            self.row_keys, self.row_codes, self.slots = keys, codes, slots
            return
        count = self.rows + len(rows)
        merged = np.empty(count, np.int32), np.empty(count, np.int64), np.empty(count, np.int64)
        kernels.merge_rows(self.row_keys, self.row_codes, self.slots, keys, codes, slots, *merged)
        self.row_keys, self.row_codes, self.slots = merged

    def index(self) -> tuple[Codes, Ints]:
        """Return the distinct keys, and where the rows of each start, and the end."""
        starts, groups = np.empty(self.rows + 1, np.int64), np.empty(self.rows, np.int32)
        count = index_rows(self.row_keys, np.empty((0, 0), np.int64), starts, groups, np.empty(0, np.int64))
        return groups[:count], starts[: count + 1]

    def keep(self, wanted: Mask) -> Ints:
        """Let go of rows that are not wanted, and return their numbers."""
        gone = np.empty(self.rows, np.int64)
        count = kernels.keep_rows(wanted.view(np.uint8), self.row_keys, self.row_codes, self.slots, gone)
        gone = gone[: self.rows - count]
        self.evicted += len(gone)
        self.row_keys, self.row_codes, self.slots = self.row_keys[:count], self.row_codes[:count], self.slots[:count]
        return gone

    def shrink(self) -> None:
        """Give back the memory of rows that have been let go, once it is as much as that of the others."""
        if not self.rows:
            self._blocks = Blocks()
        elif self._blocks.rows > 2 * self.rows + _DEAD_LEAST:
            kept = np.zeros(self._blocks.rows, np.bool_)
            kept[self.slots] = True
            self.slots = (np.cumsum(kept) - 1)[self.slots]
            blocks = Blocks()
            blocks.add(self.taken(np.flatnonzero(kept)), self._blocks.matched[kept])
            self._blocks = blocks

    def taken(self, slots: Ints, names: list[str] | None = None) -> pa.RecordBatch:
        """Return the rows of some numbers, of which there is at least one, or some columns of them."""
        return self._blocks.taken(slots, names)

    def mark(self, slots: Ints) -> None:
        """Say that rows have had a match."""
        self._blocks.matched[slots] = True

    def unmatched(self, slots: Ints) -> Ints:
        """Return which of some rows have had none."""
        found: Ints = slots[~self._blocks.matched[slots]]
        return found

    def keys(self, count: int) -> Mask:
        """Return which of so many keys any row has."""
        used = np.zeros(count, np.bool_)
        used[self.row_keys] = True
        return used

    def rekey(self, mapping: Codes) -> None:
        """Take other codes for keys, in the same order."""
        self.row_keys = mapping[self.row_keys]

    def living(self) -> Iterator[tuple[pa.RecordBatch, Mask]]:
        """Yield the held rows, and which of them have had a match."""
        if self.rows:
            slots = np.sort(self.slots)
            yield self.taken(slots), self._blocks.matched[slots]

    def batches(self) -> Iterator[HeldBatch]:
        """Yield the batches that the rows are in."""
        alive = np.zeros(self._blocks.rows, np.bool_)
        alive[self.slots] = True
        yield from self._blocks.held(alive)
