"""Where the rows of a join lie: the hash of a key, and a range of codes in the order of its values.

A row has the codes of the first and the last value that a match can have in common with it: a window, an interval, or a
single point. As for all placing, they only decide where a row goes: rows that match have equal hashes, and their ranges
meet; rows that do not may seem to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from juncture.kernels.array_types import Ints, Mask, Words
from juncture.spark.exchange.partition import Cuts

# One above the code that stands for a cut in front of a hash.
LOWEST, HIGHEST = -(2**63) + 1, 2**63 - 1


@dataclass(frozen=True)
class KeyRanges:
    """Where some rows lie.

    Attributes
    ----------
    hashes
        Of their keys.
    first, last
        The codes between which they lie, both included; one array for rows that are points.
    valid
        Which rows can match at all: the ranges of others mean nothing.
    """

    hashes: Words
    first: Ints
    last: Ints
    valid: Mask

    @classmethod
    def concat(cls, parts: Sequence[KeyRanges]) -> KeyRanges:
        """Return where the rows of several parts lie."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def take(self, rows: Ints | Mask) -> KeyRanges:
        """Return where some of the rows lie."""
        return KeyRanges(self.hashes[rows], self.first[rows], self.last[rows], self.valid[rows])

    def partitions(self, cuts: Cuts) -> tuple[Ints, Ints]:
        """Return the first partition that each row touches, which owns it, and the last one."""
        first = cuts.partition_of(self.hashes, self.first)
        return first, first if self.last is self.first else cuts.partition_of(self.hashes, self.last)
