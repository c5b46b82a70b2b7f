"""Where the rows of a join lie: the hash of a key, and a range of codes in the order of its values.

A row has the codes of the first and the last value that a match can have in common with it: a window, an interval, or a
single point. As for all placing, they only decide where a row goes: rows that match have equal hashes, and their ranges
meet; rows that do not may seem to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import Mask, plain
from juncture.errors import DataError
from juncture.kernels.array_types import Ints, Words
from juncture.spark.exchange.partition import Cuts
from juncture.spark.tasks.placement import Coding, one_chunk

__all__ = ["HIGHEST", "LOWEST", "IntervalPlacement", "KeyRanges", "Placement"]

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


class Placement(Protocol):
    """Tells where the rows of one side lie."""

    @property
    def decisive(self) -> tuple[str, ...]:
        """The columns that decide what a row matches: of the rows that agree in them, all match or none does."""
        ...

    def place(self, table: pa.Table) -> KeyRanges:
        """Return where some rows lie."""
        ...


@dataclass(frozen=True)
class IntervalPlacement:
    """Rows with intervals, or points where both ends are one column.

    Attributes
    ----------
    side
        What an error calls the table.
    by, start, end
        Columns that place a row; no start or end where the intervals are unbounded.
    coding
        Of the keys, and of all ends of both sides.
    """

    side: str
    by: tuple[str, ...]
    start: str | None
    end: str | None
    coding: Coding

    @property
    def decisive(self) -> tuple[str, ...]:
        """Key and interval."""
        return tuple(dict.fromkeys((*self.by, *(name for name in (self.start, self.end) if name is not None))))

    def place(self, table: pa.Table) -> KeyRanges:
        """Return where some rows lie.

        Raises
        ------
        DataError
            If an interval starts after its end.
        """
        hashes, valid = self.coding.keyed(table, self.by)
        first, has_first = self._codes(table, self.start, LOWEST)
        if self.start is not None and self.start == self.end:
            return KeyRanges(hashes, first, first, valid & has_first)
        last, has_last = self._codes(table, self.end, HIGHEST)
        if self.start is not None and self.end is not None:
            self._check(table)
        return KeyRanges(hashes, first, last, valid & has_first & has_last)

    def _codes(self, table: pa.Table, name: str | None, beyond: int) -> tuple[Ints, Mask]:
        """Return the codes of an end, and where there is one."""
        every = np.ones(table.num_rows, np.bool_)
        if name is None:
            return np.full(table.num_rows, beyond), every
        codes, present = self.coding.codes(one_chunk(table[name]))
        return np.maximum(codes, LOWEST), every if present is None else present

    def _check(self, table: pa.Table) -> None:
        assert self.start is not None
        assert self.end is not None
        start, end = (plain(one_chunk(table[name])) for name in (self.start, self.end))
        backward = pc.greater(start, end)
        if pat.is_floating(start.type) and pat.is_floating(end.type):
            backward = pc.and_(backward, pc.invert(pc.or_(pc.is_nan(start), pc.is_nan(end))))
        rows = np.flatnonzero(np.asarray(pc.fill_null(backward, False)))
        if len(rows):
            shown = " and ".join(f"{name}={table[name][int(rows[0])]}" for name in (self.start, self.end))
            raise DataError(
                f"A {self.side} interval starts after its end: {shown}. Swap the two columns of {self.side}_interval= "
                "if that is so throughout, or repair or drop such rows first."
            )
