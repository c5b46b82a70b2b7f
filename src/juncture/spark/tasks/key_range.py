"""The key ranges of rows: the hash of a key, and a range of codes in the order of values.

A row's range covers the values that a match can share with it: a window, an interval, or a point. Matching rows have
equal hashes and overlapping ranges; the converse does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from juncture.kernels.array_types import Ints, Mask, Words
from juncture.spark.tasks.cuts import Cuts

# One above `BEFORE_ALL`.
LOWEST, HIGHEST = -(2**63) + 1, 2**63 - 1


@dataclass(frozen=True)
class KeyRanges:
    """The key ranges of some rows: hashes, and inclusive codes `first` to `last` (one array for points).

    Only rows in `valid` can match; the ranges of others are undefined.
    """

    hashes: Words
    first: Ints
    last: Ints
    valid: Mask

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
