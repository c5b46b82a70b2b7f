"""Aggregates of groups: counts, sums and averages.

The state of a group is a column of numbers: first those that each aggregate has a fixed number of, then the digits of
its sums, which may become more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, raw_values, true_rows
from juncture.incremental.operators.sums import ExactSums, Sums
from juncture.incremental.operators.values import GroupValues
from juncture.kernels.array_types import Codes, Floats, Ints, IntTable, Mask


@dataclass(frozen=True)
class GroupLayout:
    """The lines of the state of groups."""

    fixed_lines: int  # these come first, then the digits of each sum
    digits: tuple[tuple[int, int], ...]  # the first line and the number of digits of each sum
    earlier: tuple[tuple[tuple[int, int], ...], ...] = ()  # the same before digits were added, to read states on disk

    @property
    def lines(self) -> int:
        """Number of lines."""
        return self.fixed_lines + sum(count for _, count in self.digits)

    def with_digits(self, digits: Sequence[tuple[int, int]]) -> GroupLayout:
        """Return this layout with more digits."""
        return GroupLayout(self.fixed_lines, tuple(digits), (*self.earlier, self.digits))

    def current(self, state: IntTable) -> IntTable:
        """Return states of this or an earlier layout, with the weight in the first line, in this layout."""
        if len(state) == 1 + self.lines:
            return state
        fixed = 1 + self.fixed_lines
        digits = next(each for each in self.earlier if fixed + sum(count for _, count in each) == len(state))
        parts, first = [state[:fixed]], fixed
        for (base, count), (new_base, new_count) in zip(digits, self.digits, strict=True):
            sums = Sums(state[first : first + count], base, state[:0])
            if new_count:
                sums.widen(new_base, new_base + new_count - 2)
            parts.append(sums.lines)
            first += count
        return np.concatenate(parts)


class Accumulator(ABC):
    """An aggregate of groups. An epoch calls `begin` with their state, `add` with values, and `end` for the new state.

    In between, `before` and `after` return the values of these groups.
    """

    fixed_lines = 0

    def sums(self, groups: int) -> Sequence[Sums]:
        """Return the sums of groups without rows; none for an aggregate without sums."""
        del groups
        return ()

    def begin(self, fixed: IntTable, sums: Sequence[Sums], groups: Codes) -> None:
        """Begin an epoch with the state of the affected groups, and their numbers."""
        del sums, groups
        self._old, self._new = fixed, fixed.copy()

    @abstractmethod
    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add non-null values with weights. ``rows`` are positions among the affected groups."""

    def before(self) -> pa.Array:
        """Return the values of the affected groups before the epoch."""
        return self._results(self._old)

    def after(self) -> pa.Array:
        """Return the values of the affected groups after the epoch."""
        return self._results(self._new)

    def _results(self, _fixed: IntTable) -> pa.Array:
        raise NotImplementedError

    def end(self) -> tuple[IntTable, Sequence[Sums]]:
        """Return the state after the epoch."""
        return self._new, ()


class CountAccumulator(Accumulator):
    """Counts of values or rows."""

    fixed_lines = 1

    def add(self, rows: Ints, _values: pa.Array | None, weights: Ints) -> None:
        """Add weights to the counts."""
        np.add.at(self._new[0], rows, weights)

    def _results(self, fixed: IntTable) -> pa.Array:
        return array_of(fixed[0], pa.int64())


class TruthAccumulator(Accumulator):
    """Whether all values, or any, are true; null without values. The state is the number of values and of true ones."""

    fixed_lines = 2

    def __init__(self, *, of_all: bool) -> None:
        self._of_all = of_all

    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add weights to the counts."""
        assert values is not None
        np.add.at(self._new[0], rows, weights)
        true = true_rows(values)
        np.add.at(self._new[1], rows[true], weights[true])

    def _results(self, fixed: IntTable) -> pa.Array:
        count, true = fixed
        result = true == count if self._of_all else true > 0
        return pa.array(result, pa.bool_(), mask=count == 0)


class SumAccumulator(Accumulator):
    """Sums or averages of values of type ``of``, returned in type ``result_type``; null without values.

    The fixed lines count values and special floats, and have the bits of the last result if it is a slow float.
    """

    def __init__(self, of: pa.DataType, result_type: pa.DataType, *, average: bool) -> None:
        self._exact = ExactSums(of)
        self._result_type = result_type
        self._average = average
        self._special = slice(1, 1 + len(self._exact.none(0).special))
        self._is_float = average or bool(pat.is_floating(of))
        self.fixed_lines = self._special.stop + self._is_float

    def sums(self, groups: int) -> Sequence[Sums]:
        """Return the sums of groups without rows."""
        return (self._exact.none(groups),)

    def begin(self, fixed: IntTable, sums: Sequence[Sums], groups: Codes) -> None:
        """Begin an epoch with the sums of the affected groups."""
        super().begin(fixed, sums, groups)
        (old_sums,) = sums
        self._new_result: pa.Array | None = None
        self._old_sums = Sums(old_sums.lines, old_sums.base, self._old[self._special])
        self._new_sums = Sums(old_sums.lines.copy(), old_sums.base, self._new[self._special])

    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add weighted values to the sums."""
        assert values is not None
        np.add.at(self._new[0], rows, weights)
        self._exact.add(self._new_sums, rows, values, weights)

    def before(self) -> pa.Array:
        """Return the sums before the epoch."""
        if self._is_float:
            return self._last_result(self._old[0] > 0)
        return self._totals(self._old_sums, self._old[0])

    def _last_result(self, valid: Mask) -> pa.Array:
        return array_of(np.ascontiguousarray(self._old[-1]).view(np.float64), pa.float64(), valid)

    def after(self) -> pa.Array:
        """Return the sums after the epoch."""
        if self._new_result is None:
            self._new_result = self._totals(self._new_sums, self._new[0])
        return self._new_result

    def _totals(self, sums: Sums, counts: Ints) -> pa.Array:
        if self._average:
            return self._exact.averages(sums, counts)
        return self._exact.values(sums, counts > 0, self._result_type)

    def end(self) -> tuple[IntTable, Sequence[Sums]]:
        """Return the sums."""
        if self._is_float:
            self._new[-1] = raw_values(self.after(), np.int64)
        return self._new, (self._new_sums,)


class VarianceAccumulator(SumAccumulator):
    """Variances or standard deviations of floats, from exact sums of values and of their squares.

    With ``is_sample``, the divisor is one less than their number. One more line counts values with infinite squares.
    """

    def __init__(self, *, is_sample: bool, is_root: bool) -> None:
        super().__init__(pa.float64(), pa.float64(), average=True)
        self._is_sample = is_sample
        self._is_root = is_root
        self.fixed_lines += 1

    def sums(self, groups: int) -> Sequence[Sums]:
        """Return the sums of groups without rows: of values, and of squares."""
        return self._exact.none(groups), self._exact.none(groups)

    def begin(self, fixed: IntTable, sums: Sequence[Sums], groups: Codes) -> None:
        """Begin an epoch with the sums of the affected groups."""
        super().begin(fixed[1:], sums[:1], groups)
        self._large, squares = fixed[0].copy(), sums[1]
        self._squares = Sums(squares.lines.copy(), squares.base, np.zeros((3, len(groups)), np.int64))

    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add weighted values and their squares to the sums."""
        super().add(rows, values, weights)
        numbers = raw_values(values, np.float64)
        is_small = np.abs(numbers) < _MOST_SQUARED
        np.add.at(self._large, rows[~is_small], weights[~is_small])
        small = np.where(is_small, numbers, 0.0)
        for part in _square(small):
            self._exact.add(self._squares, rows, array_of(part, pa.float64()), weights)

    def before(self) -> pa.Array:
        """Return the variances before the epoch."""
        return self._last_result(self._old[0] > int(self._is_sample))

    def _totals(self, sums: Sums, counts: Ints) -> pa.Array:
        variances = self._exact.variances(sums, self._squares, counts, counts - self._is_sample)
        is_finite = (self._large == 0) | (counts <= 1)
        variances = np.where(is_finite, variances, np.where(sums.special.any(axis=0), np.nan, np.inf))
        variances = np.sqrt(variances) if self._is_root else variances
        return array_of(variances, pa.float64(), counts > int(self._is_sample))

    def end(self) -> tuple[IntTable, Sequence[Sums]]:
        """Return the sums."""
        lines, sums = super().end()
        return np.concatenate([self._large[None], lines]), (*sums, self._squares)


_MOST_SQUARED = 1e153  # the squares of smaller floats are finite, and so are the parts that `_square` computes

_HALF_BITS = float((1 << 27) + 1)


def _square(values: Floats) -> tuple[Floats, Floats]:
    """Return the squares of floats as sums of two floats, which are exact unless the second one is too small."""
    squares = values * values
    scaled = values * _HALF_BITS
    high = scaled - (scaled - values)
    low = values - high
    return squares, ((high * high - squares) + 2 * high * low) + low * low


class ExtremeAccumulator(Accumulator):
    """The least or greatest value, or the first in an order; null without values."""

    def __init__(self, values: GroupValues, *, greatest: bool) -> None:
        self._values = values
        self._greatest = greatest

    def begin(self, _fixed: IntTable, _sums: Sequence[Sums], groups: Codes) -> None:
        """Find the values before the epoch."""
        self._groups = groups
        self._before = self._values.extreme(groups, greatest=self._greatest)

    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add or remove values."""
        assert values is not None
        self._values.add(rows, values, weights)

    def before(self) -> pa.Array:
        """Return the values before the epoch."""
        return self._before

    def after(self) -> pa.Array:
        """Return the values after the epoch."""
        return self._values.extreme(self._groups, greatest=self._greatest)

    def end(self) -> tuple[IntTable, Sequence[Sums]]:
        """Return no state: the values are rows of their own."""
        return np.zeros((0, len(self._groups)), np.int64), ()
