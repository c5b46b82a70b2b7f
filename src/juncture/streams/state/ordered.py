"""Stored rows in the order of a band join, for joins whose keys are not selective."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import both, raw_values, validity
from juncture.columnar.key_encoding import Form, Integers, form_of
from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Codes, Ints, IntTable, Mask
from juncture.kernels.row_order import sort_rows
from juncture.matching.candidates import Keys, in_blocks, lines_of
from juncture.matching.condition import ComparedRows
from juncture.ordered.arithmetic import MIN_CODE
from juncture.streams.frontier import Limits
from juncture.streams.state.segment import Arranged, Segment
from juncture.streams.state.store import RowStore

COMPARED_MOST = 128
"""Up to this many comparisons per row, a scan is faster than a lookup by key."""

_MATCHING = 2  # number of code lines that find matches


@dataclass(frozen=True)
class BandRows(Arranged):
    """Rows for which one of the two matching code lines, ``rising``, rises while the other falls."""

    rising: int

    def living(self, limits: Limits) -> Codes:
        """Return the rows that can still match."""
        span = living_span(self.codes, self.rising, limits)
        return super().living(limits) if span is None else _places(*span)


class OrderedSegment(Segment):
    """Rows for which one of the two matching code lines rises while the other falls."""

    def __init__(self, batch: pa.RecordBatch, new_rows: BandRows, matched: Mask) -> None:
        super().__init__(batch, new_rows, matched)
        self._rising = new_rows.rising
        self._span = 0, len(self.rows)
        self._note_least()
        if len(self.codes) > _MATCHING:
            self.codes[_MATCHING:].min(axis=1, out=self.least[_MATCHING:])

    def _note_least(self) -> None:
        """Update the least codes of living rows, which are at the ends of the span."""
        first, end = self._span
        self.least[self._rising] = self.codes[self._rising, first]
        self.least[1 - self._rising] = self.codes[1 - self._rising, end - 1]

    def keep(self, positions: Codes) -> None:
        """Keep the rows at some positions, at least one, and evict all others. Positions are ascending."""
        super().keep(positions)
        self._span = int(positions[0]), int(positions[-1]) + 1
        self._note_least()

    def expire(self, limits: Limits) -> Codes:
        """Evict rows that can no longer match, and return their positions."""
        span = living_span(self.codes, self._rising, limits)
        if span is None:
            return super().expire(limits)
        (first, end), (start, stop) = self._span, span
        start, stop = max(start, first), min(stop, end)
        if start >= stop:
            start = stop = end
        gone = _places(first, start)
        if stop < end:
            gone = np.concatenate([gone, _places(stop, end)])
        if self.alive_rows < end - first:
            gone = gone[self.alive[gone]]
        self.alive[first:start] = False
        self.alive[stop:end] = False
        self.alive_rows -= len(gone)
        if start < stop:
            self._span = start, stop
            self._note_least()
        return gone

    def is_near(self, new_rows: BandRows) -> bool:
        """Return whether few stored rows are within the limits of new rows."""
        compared = kernels.pairs_to_compare(new_rows.codes, self._rising, self.codes)
        return compared <= COMPARED_MOST * len(new_rows.rows)

    def find(self, new_rows: Arranged) -> Iterator[tuple[Codes, Codes]]:
        """Yield matching pairs in blocks, as `Segment.find`."""

        def find(resume: Ints, rows: Codes, positions: Codes) -> int:
            held = self.keys, self.codes
            return kernels.find_in_windows(new_rows.keys, new_rows.codes, self._rising, *held, resume, rows, positions)

        return in_blocks(len(new_rows.keys), np.array([0, -1, 0], np.int64), find)


class InOrder:
    """Arranges rows by the codes of a band. Keys are integers; ``is_plain`` means 64-bit ones on both sides."""

    def __init__(self, form: Form | None, *, is_plain: bool = False) -> None:
        self._form = form
        self._is_plain = is_plain

    @classmethod
    def of(cls, types: tuple[Sequence[pa.DataType], Sequence[pa.DataType]]) -> InOrder | None:
        """Return the arrangement for keys of some types; None if they are not integers."""
        if not types[0]:
            return cls(None)
        if len(types[0]) > 1:
            return None
        left_type, right_type = types[0][0], types[1][0]
        form = form_of(left_type, right_type)
        is_whole = isinstance(form.of(pa.array([], left_type)), Integers)
        return cls(form, is_plain=left_type == right_type == pa.int64()) if is_whole else None

    def arranged(self, compared: ComparedRows) -> BandRows:
        """Return the rows that have a key and can match, arranged."""
        codes, rising = compared.codes, compared.rising
        keys, here = self._keys(compared.keys, codes.shape[1])
        valid = both(here, compared.valid)
        if valid is None or valid.all():
            return self.sorted(keys, codes) if rising is None else _band_rows(keys, codes, rising)
        rows = np.flatnonzero(valid).astype(np.int32)
        new_rows = self.sorted(keys[rows], lines_of(codes, rows))
        return replace(new_rows, rows=rows[new_rows.rows])

    def _keys(self, columns: list[pa.Array], rows: int) -> tuple[Ints, Mask | None]:
        """Return the keys of rows, and a mask of rows that have one."""
        if self._form is None:
            return np.zeros(rows, np.int64), None
        if self._is_plain:
            return raw_values(columns[0], np.int64), validity(columns[0])
        found = self._form.of(columns[0])
        assert isinstance(found, Integers)
        return found.values, found.valid

    def sorted(self, keys: Keys, codes: IntTable) -> BandRows:
        """Return rows that all have a key, arranged."""
        rising = kernels.rising_line(codes)
        if rising != kernels.NEITHER:
            return _band_rows(keys, codes, rising)
        rows = np.empty(len(keys), np.int32)
        sort_rows(np.zeros(len(keys), np.int32), codes[0], rows)
        new_rows = BandRows(rows, keys[rows], lines_of(codes, rows), 0)
        if kernels.rising_line(new_rows.codes) == 0:
            return new_rows
        # With floats, two rows may share one end of the band but not the other.
        rows = np.lexsort((~codes[1], codes[0])).astype(np.int32)
        return BandRows(rows, keys[rows], lines_of(codes, rows), 0)


class OrderedStore(RowStore[OrderedSegment]):
    """The stored rows of a side in the order of a band join."""

    def __init__(self, order: InOrder) -> None:
        super().__init__()
        self._order = order

    def _sorted(self, keys: Keys, codes: IntTable) -> BandRows:
        return self._order.sorted(keys, codes)

    def _segment(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> OrderedSegment:
        assert isinstance(new_rows, BandRows)
        return OrderedSegment(batch, new_rows, matched)


def _band_rows(keys: Keys, codes: IntTable, rising: int) -> BandRows:
    return BandRows(_places(0, len(keys)), keys, codes, rising)


def living_span(codes: IntTable, rising: int, limits: Limits) -> tuple[int, int] | None:
    """Return the range of ordered rows that can still match; None if they need not be consecutive."""
    if limits.ended:
        return 0, 0
    if limits.branches or (len(limits.least) > _MATCHING and (limits.least[_MATCHING:] != MIN_CODE).any()):
        return None
    span = np.empty(2, np.int64)
    kernels.living_span(codes, rising, limits.least, span)
    return int(span[0]), int(span[1])


def _places(first: int, end: int) -> Codes:
    return _FIRST_PLACES[first:end] if end <= len(_FIRST_PLACES) else np.arange(first, end, dtype=np.int32)


_FIRST_PLACES = np.arange(1 << 17, dtype=np.int32)
_FIRST_PLACES.flags.writeable = False
