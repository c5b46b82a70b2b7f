"""Stored rows by key, for joins with selective keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Codes, IntTable, Mask
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.row_order import arrange_rows, sort_rows
from juncture.matching.candidates import first_codes, key_groups, lines_of, matching_pairs
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.streams.state.segment import Arranged, Segment, freeze
from juncture.streams.state.store import RowStore


class KeyedSegment(Segment):
    """Rows by key and first code. ``matching`` is the number of code lines that find matches."""

    def __init__(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask, matching: int) -> None:
        super().__init__(batch, new_rows, matched)
        self.groups, self.starts = key_groups(self.keys, self.codes, self.least)
        freeze(self.groups, self.starts)
        self._matching = matching
        self._greatest = self.codes[0].max(initial=MIN_CODE) if matching else MAX_CODE
        self._reach = kernels.excess_of(self.codes) if matching > 1 else kernels.UNLIMITED

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return super().nbytes + self.starts.nbytes + self.groups.nbytes

    def find(self, new_rows: Arranged) -> Iterator[tuple[Codes, Codes]]:
        """Yield matching pairs in blocks, as `Segment.find`."""
        if self._matching and len(new_rows.keys) and self._greatest < ~new_rows.codes[0].max():
            return
        yield from matching_pairs(
            new_rows.keys, new_rows.codes, self._matching, self.groups, self.starts, self.codes, self._reach
        )

    def rekeyed(self, mapping: Codes) -> None:
        """Map key codes to new ones, in the same order. Keys of dead rows must be compacted before."""
        kept = mapping[self.groups] >= 0
        if not kept.all():
            raise AssertionError("a segment is compacted before its keys are forgotten")
        self.keys, self.groups = mapping[self.keys], mapping[self.groups]
        freeze(self.keys, self.groups)


def arrange(keys: Codes, codes: IntTable, key_count: int) -> Arranged:
    """Return the rows that have a key, by key and first code."""
    rows, sorted_keys, sorted_codes = np.empty_like(keys), np.empty_like(keys), np.empty_like(codes)
    count = arrange_rows(keys, codes, key_count, rows, sorted_keys, sorted_codes)
    if count == len(keys):
        return Arranged(rows, sorted_keys, sorted_codes)
    if count >= 0:
        return Arranged(rows[:count], sorted_keys[:count], np.ascontiguousarray(sorted_codes[:, :count]))
    usable = np.flatnonzero(keys != EMPTY).astype(np.int32)
    order = np.empty(len(usable), np.int32)
    sort_rows(keys[usable], first_codes(codes)[usable], order)
    rows = usable[order]
    return Arranged(rows, keys[rows], lines_of(codes, rows))


class KeyedStore(RowStore[KeyedSegment]):
    """The stored rows of a side by key."""

    def __init__(self, matching: int) -> None:
        super().__init__()
        self._matching = matching

    def _sorted(self, keys: Codes, codes: IntTable) -> Arranged:
        order = np.empty(len(keys), np.int32)
        sort_rows(keys, first_codes(codes), order)
        return Arranged(order, keys[order], lines_of(codes, order))

    def _segment(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> KeyedSegment:
        return KeyedSegment(batch, new_rows, matched, self._matching)

    @property
    def keyed_rows(self) -> int:
        """Number of stored rows."""
        return self.rows

    def keys(self, count: int) -> Mask:
        """Return a mask of the key codes that a row has, after removing dead rows."""
        used = np.zeros(count, np.bool_)
        self.segments = [
            segment if segment.alive_rows == len(segment.rows) else self._merged([segment]) for segment in self.segments
        ]
        for segment in self.segments:
            used[segment.groups] = True
        return used

    def rekey(self, mapping: Codes) -> None:
        """Map key codes to new ones."""
        for segment in self.segments:
            segment.rekeyed(mapping)
