"""Aggregates of groups: counts, sums and averages, over all or distinct values."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, raw_values, rows_of
from juncture.columnar.key_table import KeyCodes
from juncture.incremental.view.operators.sums import ExactSums, Sums
from juncture.incremental.view.paging import SpillableRows
from juncture.kernels.array_types import Codes, Ints

Floats = npt.NDArray[np.float64]


class Accumulator(ABC):
    """An aggregate of all groups.

    An epoch calls `begin` with the affected groups, `add` with values, and `commit` or `abandon`. In between, `before`
    and `after` return the values of these groups. ``spillable`` has rows that may spill.
    """

    spillable: tuple[SpillableRows, ...] = ()

    @abstractmethod
    def grow(self, groups: int) -> None:
        """Allocate room for more groups."""

    @abstractmethod
    def begin(self, groups: Codes) -> None:
        """Begin an epoch with the affected groups."""

    @abstractmethod
    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add non-null values with weights. ``rows`` are positions among the affected groups."""

    @abstractmethod
    def before(self) -> pa.Array:
        """Return the values of the affected groups before the epoch."""

    @abstractmethod
    def after(self) -> pa.Array:
        """Return the values of the affected groups after the epoch."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the epoch."""

    def abandon(self) -> None:
        """Discard the epoch."""
        return

    @property
    def nbytes(self) -> int:
        """Bytes of memory, without rows that may spill."""
        return 0


class CountAccumulator(Accumulator):
    """Counts of values or rows."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)
        self._groups = np.zeros(0, np.int32)
        self.old = self.new = np.zeros(0, np.int64)

    def grow(self, groups: int) -> None:
        """Allocate room for more groups."""
        self._counts = np.pad(self._counts, (0, groups - len(self._counts)))

    def begin(self, groups: Codes) -> None:
        """Begin an epoch with the affected groups."""
        self._groups = groups
        self.old = self._counts[groups]
        self.new = self.old.copy()

    def add(self, rows: Ints, _values: pa.Array | None, weights: Ints) -> None:
        """Add weights to the counts."""
        np.add.at(self.new, rows, weights)

    def before(self) -> pa.Array:
        """Return the counts before the epoch."""
        return array_of(self.old, pa.int64())

    def after(self) -> pa.Array:
        """Return the counts after the epoch."""
        return array_of(self.new, pa.int64())

    def commit(self) -> None:
        """Commit the counts."""
        self._counts[self._groups] = self.new

    @property
    def nbytes(self) -> int:
        """Bytes of the counts."""
        return int(self._counts.nbytes)


class SumAccumulator(Accumulator):
    """Sums or averages of values of type ``of``, returned in type ``result_type``; null without values."""

    def __init__(self, of: pa.DataType, result_type: pa.DataType, *, average: bool) -> None:
        self._exact = ExactSums(of)
        self._result_type = result_type
        self._average = average
        self._counts = CountAccumulator()
        self._sums = self._exact.none(0)
        self._old = self._new = self._sums
        self._groups = np.zeros(0, np.int32)
        # Float results are slow to compute, so the current one of each group is cached.
        self._cached_floats = np.zeros(0, np.float64) if average or pat.is_floating(of) else None
        self._fresh: Floats | None = None

    def grow(self, groups: int) -> None:
        """Allocate room for more groups."""
        self._counts.grow(groups)
        self._sums.grow(groups)
        if self._cached_floats is not None:
            self._cached_floats = np.pad(self._cached_floats, (0, groups - len(self._cached_floats)))

    def begin(self, groups: Codes) -> None:
        """Begin an epoch with the affected groups."""
        self._groups, self._fresh = groups, None
        self._counts.begin(groups)
        self._old, self._new = (self._sums.copy_of(groups) for _ in range(2))

    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add weighted values to the sums."""
        assert values is not None
        self._counts.add(rows, values, weights)
        self._exact.add(self._new, rows, values, weights)

    def before(self) -> pa.Array:
        """Return the sums before the epoch."""
        if self._cached_floats is not None:
            return array_of(self._cached_floats[self._groups], pa.float64(), self._counts.old > 0)
        return self._values(self._old, self._counts.old)

    def after(self) -> pa.Array:
        """Return the sums after the epoch."""
        sums = self._values(self._new, self._counts.new)
        if self._cached_floats is not None:
            self._fresh = raw_values(sums, np.float64)
        return sums

    def _values(self, sums: Sums, counts: Ints) -> pa.Array:
        if self._average:
            return self._exact.averages(sums, counts)
        return self._exact.values(sums, counts > 0, self._result_type)

    def commit(self) -> None:
        """Commit the sums."""
        self._counts.commit()
        self._sums.put(self._groups, self._new)
        if self._cached_floats is not None:
            self._cached_floats[self._groups] = (
                raw_values(self.after(), np.float64) if self._fresh is None else self._fresh
            )

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return (
            self._counts.nbytes + self._sums.nbytes + (0 if self._cached_floats is None else self._cached_floats.nbytes)
        )


class DistinctValues(Accumulator):
    """Feeds distinct values to another accumulator: each is added with its first row and removed with its last."""

    def __init__(self, of: pa.DataType, inner: Accumulator) -> None:
        types = [pa.int32(), of]
        self._codes = KeyCodes(types, types)
        self._counts = np.zeros(0, np.int64)
        self._inner = inner
        self._groups = np.zeros(0, np.int32)
        self._changed: list[tuple[Codes, Ints]] = []

    def grow(self, groups: int) -> None:
        """Allocate room for more groups."""
        self._inner.grow(groups)

    def begin(self, groups: Codes) -> None:
        """Begin an epoch with the affected groups."""
        self._groups, self._changed = groups, []
        self._inner.begin(groups)

    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add all values of an epoch. This can be called once per epoch."""
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
        appeared = (after > 0).astype(np.int64) - (before > 0)
        changed = np.flatnonzero(appeared)
        if len(changed):
            first_rows = first[changed]
            self._inner.add(rows[first_rows], rows_of(values, array_of(first_rows, pa.int64())), appeared[changed])

    def before(self) -> pa.Array:
        """Return the values before the epoch."""
        return self._inner.before()

    def after(self) -> pa.Array:
        """Return the values after the epoch."""
        return self._inner.after()

    def commit(self) -> None:
        """Commit the epoch."""
        for used, after in self._changed:
            self._counts[used] = after
        self._changed = []
        self._inner.commit()

    def abandon(self) -> None:
        """Discard the epoch."""
        self._changed = []
        self._inner.abandon()

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the values."""
        return int(self._counts.nbytes) + 48 * self._codes.count + self._inner.nbytes
