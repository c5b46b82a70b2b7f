"""A segment: stored rows that are arranged together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import joined_batches, rows_at
from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.streams.limits import Limits
from juncture.streams.state.state_batch import StateBatch

Table = npt.NDArray[np.int64]
Keys = npt.NDArray[Any]
"""Key codes, or keys that are integers."""


_ROOM_LEAST, _ROOM_FIRST, _ROOM_MOST = 1 << 10, 1 << 14, 1 << 20
"""Number of pairs to find at once: least and greatest at first, and greatest ever."""


@dataclass(frozen=True)
class Arranged:
    """Rows of a batch that have a key, in the order of the store. ``codes`` has one line for each relation."""

    rows: Codes
    keys: Keys
    codes: Table

    def some(self, places: Codes) -> Self:
        """Return some of the rows, in the same order."""
        taken = self.rows[places], self.keys[places], lines_of(self.codes, places)
        return replace(self, rows=taken[0], keys=taken[1], codes=taken[2])

    def living(self, limits: Limits) -> Codes:
        """Return the rows that can still match."""
        return limits.alive(self.codes)


class Segment(ABC):
    """Stored rows that are arranged together. ``matched`` is a mask of the arranged rows, not of the batch.

    Attributes
    ----------
    alive
        Mask of the rows that can still match.
    least
        For each line, a lower bound of the codes of living rows.
    """

    def __init__(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> None:
        self.batch = batch
        self.rows = new_rows.rows
        self.keys = new_rows.keys
        self.codes = new_rows.codes
        self.matched = matched
        self.alive = np.ones(len(self.rows), np.bool_)
        self.alive_rows = len(self.rows)
        self.least: Ints = np.empty(len(self.codes), np.int64)

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        arrays = (self.rows, self.keys, self.codes, self.matched, self.alive)
        return int(self.batch.nbytes) + sum(array.nbytes for array in arrays)

    def keep(self, kept: Codes) -> None:
        """Keep some of the rows, at least one, in their order."""
        self.alive[:] = False
        self.alive[kept] = True
        self.alive_rows = len(kept)

    @abstractmethod
    def find(self, new_rows: Arranged) -> Iterator[tuple[Codes, Codes]]:
        """Yield pairs of rows and positions that match, some at a time, for rows arranged in the same way."""

    def expire(self, limits: Limits) -> Codes:
        """Evict rows that can no longer match, and return their positions."""
        if limits.ended or limits.branches:
            return self.kill(limits.dead(self.codes))
        gone = np.empty(len(self.rows), np.int32)
        count = kernels.expire_rows(self.codes, limits.least, self.alive.view(np.uint8), gone, self.least)
        self.alive_rows -= count
        return gone[:count]

    def kill(self, dead: Mask) -> Codes:
        """Evict rows, and return the positions of those that were alive."""
        gone = np.flatnonzero(dead & self.alive).astype(np.int32)
        if len(gone):
            self.alive[gone] = False
            self.alive_rows -= len(gone)
        return gone

    def taken(self, positions: npt.NDArray[np.signedinteger]) -> pa.RecordBatch:
        """Return the rows at some positions."""
        return rows_at(self.batch, self.rows[positions])

    def held(self) -> StateBatch:
        """Return the rows as they are in the batch."""
        alive, matched = np.zeros((2, self.batch.num_rows), np.bool_)
        alive[self.rows] = self.alive
        matched[self.rows] = self.matched
        return StateBatch(self.batch, alive, matched)


SomeSegment = TypeVar("SomeSegment", bound=Segment)
MadeSegment = TypeVar("MadeSegment", bound=Segment, covariant=True)


class Arrangement(Protocol[MadeSegment]):
    """How the rows of a side are arranged."""

    def sorted(self, keys: Keys, codes: Table) -> Arranged:
        """Return rows that all have a key, arranged."""

    def segment(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> MadeSegment:
        """Return arranged rows of a batch as a segment."""


def paged(count: int, resume: Ints, find: Callable[[Ints, Codes, Codes], int]) -> Iterator[tuple[Codes, Codes]]:
    """Yield pairs of rows and positions that match, some at a time.

    ``find`` writes as many pairs as there is room for, returns how many, and updates ``resume``, whose first number is
    the row to continue from.
    """
    room = min(max(_ROOM_LEAST, 2 * count), _ROOM_FIRST)
    while resume[0] < count:
        rows, positions = np.empty(room, np.int32), np.empty(room, np.int32)
        written = find(resume, rows, positions)
        if written:
            yield rows[:written], positions[:written]
        room = min(2 * room, _ROOM_MOST)


def merged(segments: Sequence[SomeSegment], arrangement: Arrangement[SomeSegment]) -> SomeSegment:
    """Return the living rows of some segments, at least one, as one segment."""
    batches, keys, codes, matched = [], [], [], []
    for segment in segments:
        alive = np.flatnonzero(segment.alive)
        batches.append(segment.taken(alive))
        keys.append(segment.keys[alive])
        codes.append(lines_of(segment.codes, alive))
        matched.append(segment.matched[alive])
    held = arrangement.sorted(np.concatenate(keys), np.concatenate(codes, axis=1))
    return arrangement.segment(joined_batches(batches), held, np.concatenate(matched)[held.rows])


def first_codes(codes: Table) -> Ints:
    """Return the codes to sort by."""
    return np.ascontiguousarray(codes[0]) if len(codes) else np.zeros(codes.shape[1], np.int64)


def lines_of(codes: Table, rows: npt.NDArray[np.signedinteger]) -> Table:
    """Return the codes of some rows, line by line, which is several times as fast as all lines at once."""
    taken = np.empty((len(codes), len(rows)), np.int64)
    for line, out in zip(codes, taken, strict=True):
        np.take(line, rows, out=out, mode="clip")
    return taken
