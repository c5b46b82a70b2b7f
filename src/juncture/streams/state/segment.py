"""Segments of stored rows. The rows of a segment are *arranged*: sorted in the order in which it is searched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import rows_at
from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Codes, Ints, IntTable, Mask, Positions
from juncture.matching.candidates import Keys, lines_of
from juncture.streams.frontier import Limits


@dataclass(frozen=True)
class StateBatch:
    """Stored rows. ``batch`` is the same object while they stay together.

    ``masks`` returns its rows that can still match, and those that have had a match. They are the same while
    ``version`` is, unless that is None.
    """

    batch: pa.RecordBatch
    masks: Callable[[], tuple[Mask, Mask]]
    version: int | None = None

    def living(self) -> tuple[pa.RecordBatch, Mask]:
        """Return the rows that can still match, and a mask of those that have had a match."""
        alive, matched = self.masks()
        return rows_at(self.batch, np.flatnonzero(alive)), matched[alive]


@dataclass(frozen=True)
class Arranged:
    """Rows of a batch that have a key, sorted in the order of their segment.

    ``rows`` are row numbers of the batch. ``codes`` is a matrix with a column for each of these rows. A *line* of the
    matrix has the codes of one value: first of the row's value in each relation (such as ``l.ts >= r.ts``, see
    `juncture.matching.condition`), then of other values that limit how long a row can match.
    """

    rows: Codes
    keys: Keys
    codes: IntTable

    def some(self, positions: Codes) -> Self:
        """Return the rows at some positions, in the same order."""
        codes = lines_of(self.codes, positions)
        return replace(self, rows=self.rows[positions], keys=self.keys[positions], codes=codes)

    def others(self, count: int) -> Ints:
        """Return the rows of the batch, with ``count`` rows, that are not here."""
        return np.delete(np.arange(count), self.rows)

    def living(self, limits: Limits) -> Codes:
        """Return the rows that can still match."""
        return limits.alive(self.codes)


class Segment(ABC):
    """Stored rows of a batch, arranged. A *position* is a place in this order, not a row number of the batch."""

    def __init__(self, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> None:
        self.batch = batch
        self.rows = new_rows.rows
        self.keys = new_rows.keys
        self.codes = new_rows.codes
        freeze(self.rows, self.keys, self.codes)
        self.matched = matched  # positions whose rows have had a match
        self.alive = np.ones(len(self.rows), np.bool_)  # positions whose rows can still match
        self.alive_rows = len(self.rows)
        self.least: Ints = np.empty(len(self.codes), np.int64)  # lower bounds of the codes of living rows by line

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        arrays = (self.rows, self.keys, self.codes, self.matched, self.alive)
        return int(self.batch.nbytes) + sum(array.nbytes for array in arrays)

    def keep(self, positions: Codes) -> None:
        """Keep the rows at some positions, at least one, and evict all others. Positions are ascending."""
        self.alive[:] = False
        self.alive[positions] = True
        self.alive_rows = len(positions)

    @abstractmethod
    def find(self, new_rows: Arranged) -> Iterator[tuple[Codes, Codes]]:
        """Yield matching pairs in blocks: positions in `new_rows`, which are arranged alike, and in this segment."""

    def expire(self, limits: Limits) -> Codes:
        """Evict rows that can no longer match, and return their positions."""
        # The kernel below supports one limit per line, but no alternatives (`branches`), and no limit that excludes all
        # rows (`ended`).
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

    def taken(self, positions: Positions) -> pa.RecordBatch:
        """Return the rows at some positions."""
        return rows_at(self.batch, self.rows[positions])

    def state(self) -> StateBatch:
        """Return the batch, with the masks in the order of its rows."""
        # Rows are only evicted, and marks only set.
        version = len(self.rows) - self.alive_rows + int(np.count_nonzero(self.matched))
        return StateBatch(self.batch, self._masks, version)

    def _masks(self) -> tuple[Mask, Mask]:
        alive, matched = np.zeros((2, self.batch.num_rows), np.bool_)
        alive[self.rows] = self.alive
        matched[self.rows] = self.matched
        return alive, matched


def freeze(*arrays: npt.NDArray[Any]) -> None:
    """Mark arrays as ones that never change, so that a copy of them on disk stays valid."""
    for array in arrays:
        array.flags.writeable = False
