"""All stored rows of one side of a stream, in segments that are merged as they grow and dropped when they are dead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import joined_batches
from juncture.kernels.array_types import Codes, IntTable, Mask, Positions
from juncture.matching.candidates import Keys, lines_of
from juncture.streams.frontier import Limits
from juncture.streams.state.segment import Arranged, Segment, StateBatch

SomeSegment = TypeVar("SomeSegment", bound=Segment)

_MERGED_MOST = 1 << 17  # larger segments are not merged, so that eviction frees memory soon
_OF_ONE_SIZE = 4
_DEAD_LEAST = 1 << 14  # up to this many evicted rows in a segment, their memory is not released


class RowStore(ABC, Generic[SomeSegment]):
    """The stored rows of a side, in few segments: four of about one size are merged, so copying is logarithmic."""

    def __init__(self) -> None:
        self.segments: list[SomeSegment] = []
        self.evicted = 0

    @abstractmethod
    def _sorted(self, keys: Keys, codes: IntTable) -> Arranged:
        """Return rows that all have a key, in the order of segments."""

    @abstractmethod
    def _segment(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> SomeSegment:
        """Return arranged rows of a batch as a segment."""

    @property
    def rows(self) -> int:
        """Number of stored rows."""
        return sum(segment.alive_rows for segment in self.segments)

    @property
    def nbytes(self) -> int:
        """Memory of the stored rows."""
        return sum(segment.nbytes for segment in self.segments)

    def add(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask, kept: Codes | None = None) -> None:
        """Store arranged rows of a batch; ``kept`` selects some of them, None all. ``matched`` is a mask of them."""
        if kept is not None and _are_few(len(kept), len(new_rows.rows)):
            new_rows, matched, kept = new_rows.some(kept), matched[kept], None
        if not len(new_rows.rows):
            return
        segment = self._segment(batch, new_rows, matched)
        if kept is not None and len(kept) < len(new_rows.rows):
            segment.keep(kept)
        self.segments.append(segment)
        while True:
            last = self.segments[-_OF_ONE_SIZE:]
            total = sum(segment.alive_rows for segment in last)
            most = _OF_ONE_SIZE * last[-1].alive_rows
            if len(last) < _OF_ONE_SIZE or total > _MERGED_MOST or any(each.alive_rows > most for each in last):
                return
            self.segments[-_OF_ONE_SIZE:] = [self._merged(last)]

    def expire(self, limits: Limits) -> Iterator[tuple[SomeSegment, Codes]]:
        """Evict rows that can no longer match, and yield their positions."""
        if not self.segments or limits.is_open:
            return
        kept = []
        for segment in self.segments:
            if limits.ended or limits.may_kill(segment.least):
                gone = segment.expire(limits)
                if len(gone):
                    self.evicted += len(gone)
                    yield segment, gone
            if segment.alive_rows:
                kept.append(self._compact(segment))
        self.segments = kept

    def remove(self, segment: SomeSegment, positions: Positions) -> None:
        """Evict rows that need no further match."""
        dead = np.zeros(len(segment.rows), np.bool_)
        dead[positions] = True
        self.evicted += len(segment.kill(dead))

    def sweep(self) -> None:
        """Drop and shrink segments after `remove`."""
        self.segments = [self._compact(segment) for segment in self.segments if segment.alive_rows]

    def _merged(self, segments: Sequence[SomeSegment]) -> SomeSegment:
        """Return the living rows of some segments, at least one, as one segment."""
        batches, keys, codes, matched = [], [], [], []
        for segment in segments:
            alive = np.flatnonzero(segment.alive)
            batches.append(segment.taken(alive))
            keys.append(segment.keys[alive])
            codes.append(lines_of(segment.codes, alive))
            matched.append(segment.matched[alive])
        rows = self._sorted(np.concatenate(keys), np.concatenate(codes, axis=1))
        return self._segment(joined_batches(batches), rows, np.concatenate(matched)[rows.rows])

    def _compact(self, segment: SomeSegment) -> SomeSegment:
        dead = len(segment.rows) - segment.alive_rows
        is_worth_it = dead > _DEAD_LEAST and _are_few(segment.alive_rows, len(segment.rows))
        return self._merged([segment]) if is_worth_it else segment

    def batches(self) -> Iterator[StateBatch]:
        """Yield the batches that the rows are in."""
        yield from (segment.state() for segment in self.segments if segment.alive_rows)


def _are_few(rows: int, of_rows: int) -> bool:
    return 2 * rows < of_rows
