"""All held rows of one side of a stream, in segments that are merged as they grow and dropped when they are dead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.kernels.array_types import Codes, Mask
from juncture.streams.limits import Limits
from juncture.streams.state.held_batch import HeldBatch
from juncture.streams.state.segment import Arranged, Arrangement, SomeSegment, merged

_MERGED_MOST = 1 << 17
"""Rows of a segment beyond which it is not merged with others: what expires then frees memory soon."""
_OF_ONE_SIZE = 4
_DEAD_LEAST = 1 << 14
"""Rows of a segment that have been let go up to which their memory is not asked back."""


class RowStore(Generic[SomeSegment]):
    """The held rows of a side.

    Parameters
    ----------
    arrangement
        How they are held.

    Notes
    -----
    Segments of about one size are merged when there are four, so that there are few and each row is copied a number of
    times that grows with the logarithm of their size.
    """

    def __init__(self, arrangement: Arrangement[SomeSegment]) -> None:
        self.segments: list[SomeSegment] = []
        self.evicted = 0
        self._arrangement = arrangement

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return sum(segment.alive_rows for segment in self.segments)

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return sum(segment.nbytes for segment in self.segments)

    def add(self, batch: pa.RecordBatch, came: Arranged, matched: Mask, kept: Codes | None = None) -> None:
        """Hold rows of a batch, in the order of the arrangement.

        Parameters
        ----------
        batch
            The rows, in any order.
        came
            Those of them that have a key.
        matched
            Which of these have had a match.
        kept
            The places of those to hold; None for all.
        """
        if kept is not None and _are_few(len(kept), len(came.rows)):
            came, matched, kept = came.some(kept), matched[kept], None
        if not len(came.rows):
            return
        segment = self._arrangement.segment(batch, came, matched)
        if kept is not None and len(kept) < len(came.rows):
            segment.keep(kept)
        self.segments.append(segment)
        while True:
            last = self.segments[-_OF_ONE_SIZE:]
            total = sum(segment.alive_rows for segment in last)
            most = _OF_ONE_SIZE * last[-1].alive_rows
            if len(last) < _OF_ONE_SIZE or total > _MERGED_MOST or any(each.alive_rows > most for each in last):
                return
            self.segments[-_OF_ONE_SIZE:] = [merged(last, self._arrangement)]

    def expire(self, limits: Limits) -> Iterator[tuple[SomeSegment, Codes]]:
        """Let go of rows that match nothing any more, and yield their positions."""
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

    def remove(self, segment: SomeSegment, positions: npt.NDArray[np.signedinteger]) -> None:
        """Let go of rows of which nothing more is asked."""
        dead = np.zeros(len(segment.rows), np.bool_)
        dead[positions] = True
        self.evicted += len(segment.kill(dead))

    def sweep(self) -> None:
        """Drop and shrink segments after rows have been removed."""
        self.segments = [self._compact(segment) for segment in self.segments if segment.alive_rows]

    def _compact(self, segment: SomeSegment) -> SomeSegment:
        dead = len(segment.rows) - segment.alive_rows
        is_worth_it = dead > _DEAD_LEAST and _are_few(segment.alive_rows, len(segment.rows))
        return merged([segment], self._arrangement) if is_worth_it else segment

    def living(self) -> Iterator[tuple[pa.RecordBatch, Mask]]:
        """Yield the held rows, and which of them have had a match."""
        for segment in self.segments:
            alive = np.flatnonzero(segment.alive)
            yield segment.taken(alive), segment.matched[alive]

    def batches(self) -> Iterator[HeldBatch]:
        """Yield the batches that the rows are in."""
        yield from (segment.held() for segment in self.segments if segment.alive_rows)


def _are_few(rows: int, of_rows: int) -> bool:
    """Tell whether so few of some rows are alive that the others are not worth their memory."""
    return 2 * rows < of_rows
