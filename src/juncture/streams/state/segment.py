"""Some held rows of a stream, arranged so that matches are found in them."""

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
from juncture.streams.state.held_batch import HeldBatch

Table = npt.NDArray[np.int64]
Keys = npt.NDArray[Any]
"""Codes of keys, or keys that are whole numbers."""


_ROOM_LEAST, _ROOM_FIRST, _ROOM_MOST = 1 << 10, 1 << 14, 1 << 20
"""Pairs to find at once: at first at the least and at the most, and ever."""


@dataclass(frozen=True)
class Arranged:
    """Rows that have a key, in the order in which they are held.

    Attributes
    ----------
    rows
        Which of a batch they are.
    keys
        Of these.
    codes
        A line for each relation, in the order of the rows.
    """

    rows: Codes
    keys: Keys
    codes: Table

    def some(self, places: Codes) -> Self:
        """Return some of the rows, in the same order."""
        taken = self.rows[places], self.keys[places], lines_of(self.codes, places)
        return replace(self, rows=taken[0], keys=taken[1], codes=taken[2])

    def living(self, limits: Limits) -> Codes:
        """Return the places of rows that can still match."""
        return limits.alive(self.codes)


class Segment(ABC):
    """Rows that are arranged together.

    Parameters
    ----------
    batch
        The rows, in any order.
    came
        Which of them are held, in the order in which they are.
    matched
        Which of these have had a match.

    Attributes
    ----------
    alive
        Which rows can still match.
    least
        A code for each line that no row that is alive is below.
    """

    def __init__(self, batch: pa.RecordBatch, came: Arranged, matched: Mask) -> None:
        self.batch = batch
        self.rows = came.rows
        self.keys = came.keys
        self.codes = came.codes
        self.matched = matched
        self.alive = np.ones(len(self.rows), np.bool_)
        self.alive_rows = len(self.rows)
        self.least: Ints = np.empty(len(self.codes), np.int64)

    @property
    def nbytes(self) -> int:
        """How much memory the rows take."""
        arrays = (self.rows, self.keys, self.codes, self.matched, self.alive)
        return int(self.batch.nbytes) + sum(array.nbytes for array in arrays)

    def keep(self, kept: Codes) -> None:
        """Hold some of the rows, in their order and at least one, and not the others."""
        self.alive[:] = False
        self.alive[kept] = True
        self.alive_rows = len(kept)

    @abstractmethod
    def find(self, came: Arranged) -> Iterator[tuple[Codes, Codes]]:
        """Yield the pairs of rows and positions that match, some at a time.

        Parameters
        ----------
        came
            Rows of the other side, arranged in the same way.
        """

    def expire(self, limits: Limits) -> Codes:
        """Let go of rows that match nothing any more, and return their positions."""
        if limits.ended or limits.branches:
            return self.kill(limits.dead(self.codes))
        gone = np.empty(len(self.rows), np.int32)
        count = kernels.expire_rows(self.codes, limits.least, self.alive.view(np.uint8), gone, self.least)
        self.alive_rows -= count
        return gone[:count]

    def kill(self, dead: Mask) -> Codes:
        """Let go of rows, and return the positions of those that were alive."""
        gone = np.flatnonzero(dead & self.alive).astype(np.int32)
        if len(gone):
            self.alive[gone] = False
            self.alive_rows -= len(gone)
        return gone

    def taken(self, positions: npt.NDArray[np.signedinteger]) -> pa.RecordBatch:
        """Return the rows at some positions."""
        return rows_at(self.batch, self.rows[positions])

    def held(self) -> HeldBatch:
        """Return the rows as they are in the batch."""
        alive, matched = np.zeros((2, self.batch.num_rows), np.bool_)
        alive[self.rows] = self.alive
        matched[self.rows] = self.matched
        return HeldBatch(self.batch, alive, matched)


SomeSegment = TypeVar("SomeSegment", bound=Segment)
MadeSegment = TypeVar("MadeSegment", bound=Segment, covariant=True)


class Arrangement(Protocol[MadeSegment]):
    """How the rows of a side are held."""

    def sorted(self, keys: Keys, codes: Table) -> Arranged:
        """Return rows, of which each has a key, in the order in which they are held."""

    def segment(self, batch: pa.RecordBatch, came: Arranged, matched: Mask) -> MadeSegment:
        """Return rows of a batch, in the order in which they are held, as a segment."""


def paged(count: int, resume: Ints, find: Callable[[Ints, Codes, Codes], int]) -> Iterator[tuple[Codes, Codes]]:
    """Yield the pairs of rows and positions that match, some at a time.

    Parameters
    ----------
    count
        How many rows there are.
    resume
        Where to begin, the row first.
    find
        Writes as many pairs as there is room for, says how many, and where to go on.
    """
    room = min(max(_ROOM_LEAST, 2 * count), _ROOM_FIRST)
    while resume[0] < count:
        rows, positions = np.empty(room, np.int32), np.empty(room, np.int32)
        written = find(resume, rows, positions)
        if written:
            yield rows[:written], positions[:written]
        room = min(2 * room, _ROOM_MOST)


def merged(segments: Sequence[SomeSegment], arrangement: Arrangement[SomeSegment]) -> SomeSegment:
    """Return the living rows of some segments, of which there is at least one, as one."""
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
