"""Some held rows of a stream, sorted so that matches are found in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.row_order import sort_rows
from juncture.streams.limits import Limits
from juncture.streams.state.held_batch import HeldBatch

Table = npt.NDArray[np.int64]

_GREATEST = 2**63 - 1
_ROOM_LEAST, _ROOM_FIRST, _ROOM_MOST = 1 << 10, 1 << 14, 1 << 20
"""Pairs to find at once: at first at the least and at the most, and ever."""


class Segment:
    """Rows in the order of key and first code.

    Parameters
    ----------
    batch
        The rows, in any order.
    rows
        Which of them are held, in the order of keys and codes.
    keys, codes
        Of these: key codes, and a line of codes for each relation.
    matched
        Which of these have had a match.
    matching
        How many lines of codes are of use to find matches.

    Attributes
    ----------
    alive
        Which rows can still match.
    least
        A code for each line that no row that is alive is below.
    """

    def __init__(
        self, batch: pa.RecordBatch, rows: Codes, keys: Codes, codes: Table, matched: Mask, matching: int
    ) -> None:
        self.batch = batch
        self.rows = rows
        self.keys = keys
        self.codes = codes
        self.matched = matched
        self.alive = np.ones(len(rows), np.bool_)
        self.alive_rows = len(rows)
        self.least = np.empty(len(codes), np.int64)
        self.groups, self.starts = grouped(keys, codes, self.least)
        self._matching = matching
        self._greatest = codes[0].max(initial=-_GREATEST - 1) if matching else _GREATEST
        self._reach = kernels.reach_of(codes) if matching > 1 else kernels.UNLIMITED

    @property
    def nbytes(self) -> int:
        """How much memory the rows take."""
        arrays = (self.rows, self.keys, self.codes, self.matched, self.alive, self.starts, self.groups)
        return int(self.batch.nbytes) + sum(array.nbytes for array in arrays)

    def find(self, keys: Codes, codes: Table) -> Iterator[tuple[Codes, Codes]]:
        """Yield the pairs of rows and positions that match, some at a time.

        Parameters
        ----------
        keys, codes
            Rows of the other side, by key and first code.
        """
        if self._matching and len(keys) and self._greatest < ~codes[0].max():
            return
        yield from matches(keys, codes, self._matching, self.groups, self.starts, self.codes, self._reach)

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
        return rows_of(self.batch, array_of(self.rows[positions], pa.int32()))

    def held(self) -> HeldBatch:
        """Return the rows as they are in the batch."""
        alive, matched = np.zeros((2, self.batch.num_rows), np.bool_)
        alive[self.rows] = self.alive
        matched[self.rows] = self.matched
        return HeldBatch(self.batch, alive, matched)

    def rekeyed(self, mapping: Codes) -> None:
        """Take other codes for keys, in the same order; those of keys that only dead rows have are gone."""
        kept = mapping[self.groups] >= 0
        if not kept.all():
            raise AssertionError("a segment is compacted before its keys are forgotten")
        self.keys, self.groups = mapping[self.keys], mapping[self.groups]


def grouped(keys: Codes, codes: Table, least: Ints | None = None) -> tuple[Codes, Ints]:
    """Return the distinct keys of sorted rows, where the rows of each start, and the end; and write the least codes."""
    starts, groups = np.empty(len(keys) + 1, np.int64), np.empty(len(keys), np.int32)
    count = kernels.index_rows(keys, codes, starts, groups, np.empty(len(codes), np.int64) if least is None else least)
    return groups[:count], starts[: count + 1]


def matches(
    keys: Codes, codes: Table, matching: int, groups: Codes, starts: Ints, held: Table, reach: int
) -> Iterator[tuple[Codes, Codes]]:
    """Yield the pairs of rows and positions that match, some at a time, as `find_matches` writes them."""
    resume = np.array([0, -1], np.int64)
    room = min(max(_ROOM_LEAST, 2 * len(keys)), _ROOM_FIRST)
    while resume[0] < len(keys):
        rows, positions = np.empty(room, np.int32), np.empty(room, np.int32)
        count = kernels.find_matches(keys, codes, matching, groups, starts, held, reach, resume, rows, positions)
        if count:
            yield rows[:count], positions[:count]
        room = min(2 * room, _ROOM_MOST)


def merged(segments: Sequence[Segment], matching: int) -> Segment:
    """Return the living rows of some segments, of which there is at least one, as one."""
    batches, keys, codes, matched = [], [], [], []
    for segment in segments:
        alive = np.flatnonzero(segment.alive)
        batches.append(segment.taken(alive))
        keys.append(segment.keys[alive])
        codes.append(lines_of(segment.codes, alive))
        matched.append(segment.matched[alive])
    all_keys, all_codes = np.concatenate(keys), np.concatenate(codes, axis=1)
    order = np.empty(len(all_keys), np.int32)
    sort_rows(all_keys, first_codes(all_codes), order)
    return Segment(
        joined_batches(batches),
        order,
        all_keys[order],
        lines_of(all_codes, order),
        np.concatenate(matched)[order],
        matching,
    )


def first_codes(codes: Table) -> Ints:
    """Return the codes to sort by."""
    return np.ascontiguousarray(codes[0]) if len(codes) else np.zeros(codes.shape[1], np.int64)


def lines_of(codes: Table, rows: npt.NDArray[np.signedinteger]) -> Table:
    """Return the codes of some rows, line by line, which is several times as fast as all lines at once."""
    taken = np.empty((len(codes), len(rows)), np.int64)
    for line, out in zip(codes, taken, strict=True):
        np.take(line, rows, out=out, mode="clip")
    return taken
