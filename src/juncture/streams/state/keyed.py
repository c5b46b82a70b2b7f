"""Stored rows by key, for joins with selective keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.row_order import sort_rows
from juncture.streams.state.segment import Arranged, Segment, Table, first_codes, lines_of, merged, paged
from juncture.streams.state.store import RowStore

_GREATEST = 2**63 - 1


class KeyedSegment(Segment):
    """Rows by key and first code. ``matching`` is the number of code lines that find matches."""

    def __init__(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask, matching: int) -> None:
        super().__init__(batch, new_rows, matched)
        self.groups, self.starts = grouped(self.keys, self.codes, self.least)
        self._matching = matching
        self._greatest = self.codes[0].max(initial=-_GREATEST - 1) if matching else _GREATEST
        self._reach = kernels.reach_of(self.codes) if matching > 1 else kernels.UNLIMITED

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return super().nbytes + self.starts.nbytes + self.groups.nbytes

    def find(self, new_rows: Arranged) -> Iterator[tuple[Codes, Codes]]:
        """Yield matching pairs in blocks, as `Segment.find`."""
        if self._matching and len(new_rows.keys) and self._greatest < ~new_rows.codes[0].max():
            return
        yield from matches(
            new_rows.keys, new_rows.codes, self._matching, self.groups, self.starts, self.codes, self._reach
        )

    def rekeyed(self, mapping: Codes) -> None:
        """Map key codes to new ones, in the same order. Keys of dead rows must be compacted before."""
        kept = mapping[self.groups] >= 0
        if not kept.all():
            raise AssertionError("a segment is compacted before its keys are forgotten")
        self.keys, self.groups = mapping[self.keys], mapping[self.groups]


def grouped(keys: Codes, codes: Table, least: Ints | None = None) -> tuple[Codes, Ints]:
    """Return the distinct keys of sorted rows and the starts of their rows, with the end; write the least codes."""
    starts, groups = np.empty(len(keys) + 1, np.int64), np.empty(len(keys), np.int32)
    count = kernels.index_rows(keys, codes, starts, groups, np.empty(len(codes), np.int64) if least is None else least)
    return groups[:count], starts[: count + 1]


def matches(
    keys: Codes, codes: Table, matching: int, groups: Codes, starts: Ints, held: Table, reach: int
) -> Iterator[tuple[Codes, Codes]]:
    """Yield matching pairs in blocks, as the kernel `find_matches` writes them."""

    def find(resume: Ints, rows: Codes, positions: Codes) -> int:
        return kernels.find_matches(keys, codes, matching, groups, starts, held, reach, resume, rows, positions)

    return paged(len(keys), np.array([0, -1], np.int64), find)


class ByKey:
    """Arranges rows by key code and first code."""

    def __init__(self, matching: int) -> None:
        self._matching = matching

    def sorted(self, keys: Codes, codes: Table) -> Arranged:
        """Return rows that all have a key, arranged."""
        order = np.empty(len(keys), np.int32)
        sort_rows(keys, first_codes(codes), order)
        return Arranged(order, keys[order], lines_of(codes, order))

    def segment(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> KeyedSegment:
        """Return arranged rows of a batch as a segment."""
        return KeyedSegment(batch, new_rows, matched, self._matching)


class KeyedStore(RowStore[KeyedSegment]):
    """The stored rows of a side by key."""

    def __init__(self, matching: int) -> None:
        super().__init__(ByKey(matching))

    def keys(self, count: int) -> Mask:
        """Return a mask of the key codes that a row has, after removing dead rows."""
        used = np.zeros(count, np.bool_)
        self.segments = [
            segment if segment.alive_rows == len(segment.rows) else merged([segment], self._arrangement)
            for segment in self.segments
        ]
        for segment in self.segments:
            used[segment.groups] = True
        return used

    def rekey(self, mapping: Codes) -> None:
        """Map key codes to new ones."""
        for segment in self.segments:
            segment.rekeyed(mapping)
