"""What a group has of its rows: counts, sums and averages, over all values or over distinct ones."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, raw_values, rows_of
from juncture.columnar.key_table import KeyCodes
from juncture.incremental.view.operators.sums import ExactSums, Sums
from juncture.incremental.view.paging import HeldRows
from juncture.kernels.array_types import Codes, Ints

Floats = npt.NDArray[np.float64]


class Accumulator(ABC):
    """Something that all groups have one of.

    An epoch begins with the groups that it concerns, adds values to them, and is committed or not. In between, it can
    be asked for the values before and after.

    Attributes
    ----------
    held
        Rows that it holds, and that may go to disk.
    """

    held: tuple[HeldRows, ...] = ()

    @abstractmethod
    def grow(self, groups: int) -> None:
        """Make room for more groups."""

    @abstractmethod
    def begin(self, groups: Codes) -> None:
        """Take up some groups."""

    @abstractmethod
    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add values, none of which is null, to some of these groups, by their places, as often as they count."""

    @abstractmethod
    def before(self) -> pa.Array:
        """Return the values of these groups as they were."""

    @abstractmethod
    def after(self) -> pa.Array:
        """Return the values of these groups as they are."""

    @abstractmethod
    def commit(self) -> None:
        """Keep what was added."""

    def abandon(self) -> None:
        """Forget what was added."""
        return

    @property
    def nbytes(self) -> int:
        """How much memory the groups take, beside rows that may go to disk."""
        return 0


class CountAccumulator(Accumulator):
    """How many values there are, or rows."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)
        self._groups = np.zeros(0, np.int32)
        self.old = self.new = np.zeros(0, np.int64)

    def grow(self, groups: int) -> None:
        """Make room for more groups."""
        self._counts = np.pad(self._counts, (0, groups - len(self._counts)))

    def begin(self, groups: Codes) -> None:
        """Take up some groups."""
        self._groups = groups
        self.old = self._counts[groups]
        self.new = self.old.copy()

    def add(self, rows: Ints, _values: pa.Array | None, weights: Ints) -> None:
        """Add to the counts."""
        np.add.at(self.new, rows, weights)

    def before(self) -> pa.Array:
        """Return the counts as they were."""
        return array_of(self.old, pa.int64())

    def after(self) -> pa.Array:
        """Return the counts as they are."""
        return array_of(self.new, pa.int64())

    def commit(self) -> None:
        """Keep the counts."""
        self._counts[self._groups] = self.new

    @property
    def nbytes(self) -> int:
        """How much memory the counts take."""
        return int(self._counts.nbytes)


class SumAccumulator(Accumulator):
    """The sum of values, or their average; null where there is none.

    Parameters
    ----------
    of
        The type of the values.
    given
        The type of the sum.
    average
        Whether it is divided by how many there are.
    """

    def __init__(self, of: pa.DataType, given: pa.DataType, *, average: bool) -> None:
        self._exact = ExactSums(of)
        self._given = given
        self._average = average
        self._counts = CountAccumulator()
        self._sums = self._exact.none(0)
        self._old = self._new = self._sums
        self._groups = np.zeros(0, np.int32)
        # What is a float takes long to work out, so that of each group is held.
        self._held = np.zeros(0, np.float64) if average or pat.is_floating(of) else None
        self._fresh: Floats | None = None

    def grow(self, groups: int) -> None:
        """Make room for more groups."""
        self._counts.grow(groups)
        self._sums.grow(groups)
        if self._held is not None:
            self._held = np.pad(self._held, (0, groups - len(self._held)))

    def begin(self, groups: Codes) -> None:
        """Take up some groups."""
        self._groups, self._fresh = groups, None
        self._counts.begin(groups)
        self._old, self._new = (self._sums.copy_of(groups) for _ in range(2))

    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add to the sums."""
        assert values is not None
        self._counts.add(rows, values, weights)
        self._exact.add(self._new, rows, values, weights)

    def before(self) -> pa.Array:
        """Return the sums as they were."""
        if self._held is not None:
            return array_of(self._held[self._groups], pa.float64(), self._counts.old > 0)
        return self._values(self._old, self._counts.old)

    def after(self) -> pa.Array:
        """Return the sums as they are."""
        found = self._values(self._new, self._counts.new)
        if self._held is not None:
            self._fresh = raw_values(found, np.float64)
        return found

    def _values(self, sums: Sums, counts: Ints) -> pa.Array:
        if self._average:
            return self._exact.averages(sums, counts)
        return self._exact.values(sums, counts > 0, self._given)

    def commit(self) -> None:
        """Keep the sums."""
        self._counts.commit()
        self._sums.put(self._groups, self._new)
        if self._held is not None:
            self._held[self._groups] = raw_values(self.after(), np.float64) if self._fresh is None else self._fresh

    @property
    def nbytes(self) -> int:
        """How much memory the sums take."""
        return self._counts.nbytes + self._sums.nbytes + (0 if self._held is None else self._held.nbytes)


class DistinctValues(Accumulator):
    """An accumulator of distinct values: each comes when the first of it does, and goes with the last.

    Parameters
    ----------
    of
        The type of the values.
    inner
        What takes the distinct ones.
    """

    def __init__(self, of: pa.DataType, inner: Accumulator) -> None:
        types = [pa.int32(), of]
        self._codes = KeyCodes(types, types)
        self._counts = np.zeros(0, np.int64)
        self._inner = inner
        self._groups = np.zeros(0, np.int32)
        self._changed: list[tuple[Codes, Ints]] = []

    def grow(self, groups: int) -> None:
        """Make room for more groups."""
        self._inner.grow(groups)

    def begin(self, groups: Codes) -> None:
        """Take up some groups."""
        self._groups, self._changed = groups, []
        self._inner.begin(groups)

    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add values, once for all rows of an epoch."""
        assert values is not None
        assert not self._changed
        codes = np.empty(len(rows), np.int32)
        self._codes.add([array_of(self._groups[rows], pa.int32()), values], codes)
        if self._codes.count > len(self._counts):
            self._counts = np.pad(self._counts, (0, 2 * self._codes.count - len(self._counts)))
        used, first, index = np.unique(codes, return_index=True, return_inverse=True)
        before = self._counts[used]
        after = before.copy()
        np.add.at(after, index, weights)
        self._changed.append((used, after))
        turned = (after > 0).astype(np.int64) - (before > 0)
        some = np.flatnonzero(turned)
        if len(some):
            there = first[some]
            self._inner.add(rows[there], rows_of(values, array_of(there, pa.int64())), turned[some])

    def before(self) -> pa.Array:
        """Return the values as they were."""
        return self._inner.before()

    def after(self) -> pa.Array:
        """Return the values as they are."""
        return self._inner.after()

    def commit(self) -> None:
        """Keep what was added."""
        for used, after in self._changed:
            self._counts[used] = after
        self._changed = []
        self._inner.commit()

    def abandon(self) -> None:
        """Forget what was added."""
        self._changed = []
        self._inner.abandon()

    @property
    def nbytes(self) -> int:
        """How much memory the values take, or about as much."""
        return int(self._counts.nbytes) + 48 * self._codes.count + self._inner.nbytes
