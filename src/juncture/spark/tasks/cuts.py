"""Partitions as ranges of (key hash, code of ``on``) of even weight, and the key ranges of rows.

A cut between two keys costs nothing. A cut within a key, needed only for a hot key, splits it by ``on``. Every later
partition then needs the key's last rows before it, and every earlier one the first rows after it. A join by hash has
the same partitions with all cuts between keys.

A row's range covers the values that a match can share with it: a window, an interval, or a point. Matching rows have
equal hashes and overlapping ranges; the converse does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from juncture.kernels.array_types import Floats, Ints, Mask, Words

Partitions = npt.NDArray[np.int64]

BEFORE_ALL = -(2**63)
"""The code of a cut before all rows of its hash."""

_FEW = 16  # up to this number, cuts are compared one by one
_SLACK = 0.1  # largest move of a cut to a boundary between keys, as a share of a partition


@dataclass(frozen=True)
class Cuts:
    """The lower bounds (hash, code) of all partitions but the first, in order.

    A row belongs to the partition after the last cut that is not above it.
    """

    hashes: Words
    codes: Ints  # `BEFORE_ALL` cuts before the hash

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self.hashes) + 1

    @property
    def split_hashes(self) -> Words:
        """The hashes in more than one partition, in order."""
        return np.unique(self.hashes[self.codes > BEFORE_ALL])

    @property
    def described(self) -> str:
        """The number of partitions and of split keys, in words."""
        split = len(self.split_hashes)
        keys = {0: "no key", 1: "one key"}.get(split, f"{split} keys")
        return f"{self.partitions}; {keys} split"

    def partition_of(self, hashes: Words, codes: Ints) -> Partitions:
        """Return the partition of each row."""
        if len(self.hashes) == 0:
            return np.zeros(len(hashes), np.int64)
        if len(self.hashes) <= _FEW:
            # Comparing with all cuts is faster than a binary search.
            parts = np.zeros(len(hashes), np.int64)
            for cut in self.hashes:
                parts += hashes > cut
        else:
            parts = np.searchsorted(self.hashes, hashes, side="left")
        # Most rows are in hashes without a cut. Rows of split hashes are assigned by their code, one hash at a time.
        rows = np.flatnonzero(self.hashes[np.minimum(parts, len(self.hashes) - 1)] == hashes)
        rows = rows[np.argsort(parts[rows], kind="stable")]
        cut_ones, starts = np.unique(parts[rows], return_index=True)
        for first, inside in zip(cut_ones.tolist(), np.split(rows, starts[1:]), strict=False):
            last = np.searchsorted(self.hashes, self.hashes[first], side="right")
            parts[inside] += np.searchsorted(self.codes[first:last], codes[inside], side="right")
        return parts

    def span(self, hashed: int) -> tuple[int, int]:
        """Return the first and the last partition with rows of a hash."""
        cuts = self.hashes == np.uint64(hashed)
        first = int(np.searchsorted(self.hashes, np.uint64(hashed), side="left"))
        in_front = int(np.count_nonzero(cuts & (self.codes == BEFORE_ALL)))
        return first + in_front, first + int(np.count_nonzero(cuts))


@dataclass(frozen=True)
class Sample:
    """Rows of both sides with weights."""

    hashes: Words
    codes: Ints
    weights: Floats


def even_cuts(partitions: int) -> Cuts:
    """Return cuts that divide the hashes evenly, all between keys."""
    hashes = [number * 2**64 // partitions for number in range(1, partitions)]
    return Cuts(np.array(hashes, np.uint64), np.full(len(hashes), BEFORE_ALL, np.int64))


def balanced_cuts(sample: Sample, partitions: int, *, split_keys: bool = True) -> Cuts:
    """Return cuts that divide the weight of a sample evenly; within keys only if `split_keys`.

    A cut moves to a boundary between keys if no partition then exceeds the average by more than `_SLACK`. There are
    fewer partitions than requested if many rows share both key and ``on``.
    """
    if len(sample.hashes) == 0 or partitions == 1:
        return even_cuts(partitions)
    order = np.lexsort((sample.codes, sample.hashes))
    hashes, codes = sample.hashes[order], sample.codes[order]
    ends = np.cumsum(sample.weights[order])
    share = ends[-1] / partitions
    key_starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    before_keys = np.concatenate([[0.0], ends])[key_starts]
    cuts: list[tuple[int, int]] = []
    cut, position = (int(hashes[0]), BEFORE_ALL), 0.0
    for number in range(1, partitions):
        last, wanted = cut, number * share
        after = int(np.searchsorted(before_keys, wanted))
        near = [key for key in (after - 1, after) if 0 <= key < len(before_keys)]
        nearest = min(near, key=lambda key: abs(before_keys[key] - wanted))
        most = position + (1 + _SLACK) * share
        if not split_keys or (abs(before_keys[nearest] - wanted) <= _SLACK * share and before_keys[nearest] <= most):
            cut, position = (int(hashes[key_starts[nearest]]), BEFORE_ALL), float(before_keys[nearest])
        else:
            row = int(np.searchsorted(ends, wanted))
            cut, position = (int(hashes[row]), int(codes[row])), wanted
        if cut > last:
            cuts.append(cut)
    return Cuts(np.array([cut[0] for cut in cuts], np.uint64), np.array([cut[1] for cut in cuts], np.int64))


# One above `BEFORE_ALL`.
LOWEST, HIGHEST = -(2**63) + 1, 2**63 - 1


@dataclass(frozen=True)
class KeyRanges:
    """The key ranges of some rows: hashes, and inclusive codes `first` to `last` (one array for points)."""

    hashes: Words
    first: Ints
    last: Ints
    valid: Mask  # the rows that can match; the ranges of others are undefined

    @classmethod
    def concat(cls, parts: Sequence[KeyRanges]) -> KeyRanges:
        """Return the ranges of several parts."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def take(self, rows: Ints | Mask) -> KeyRanges:
        """Return the ranges of some rows."""
        return KeyRanges(self.hashes[rows], self.first[rows], self.last[rows], self.valid[rows])

    def partitions(self, cuts: Cuts) -> tuple[Ints, Ints]:
        """Return the first partition that each row touches, which owns it, and the last one."""
        first = cuts.partition_of(self.hashes, self.first)
        return first, first if self.last is self.first else cuts.partition_of(self.hashes, self.last)
