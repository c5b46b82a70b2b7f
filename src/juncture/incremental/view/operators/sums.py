"""Sums that come back after a retraction: exact, whatever comes and goes, and in whatever order.

A sum is a number of base 2^32, whose digits are lines of an array with a column for each group. Integers and decimals
have a few lines. Floats have as many as lie between the smallest and the greatest that has come, so that each is added
without rounding; the sum is rounded once, when it is asked for, to the nearest float. So it is that of all orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, raw_values
from juncture.errors import DataError
from juncture.incremental.view.decimals import decimal_array
from juncture.kernels.array_types import Codes, Floats, Ints, Mask
from juncture.kernels.exact_sums import add_floats, carry_digits, float_places, nearest_floats

Lines = npt.NDArray[np.int64]

_BITS = 32
_MASK = (1 << _BITS) - 1
_LEAST_EXPONENT = -1074
"""Of the smallest float: digits of sums of floats count from there."""
_MOST_COPIES = 1 << 28
"""Added between two times of carrying, so that no digit overflows: it has 33 bits, and these have 28."""
_MOST_WEIGHT = 1 << 15


@dataclass
class Sums:
    """Sums of some groups.

    Attributes
    ----------
    lines
        Digits, the lowest first; the last line has the sign.
    base
        The place of the first line.
    special
        How often plus infinity, minus infinity and NaN have come.
    """

    lines: Lines
    base: int
    special: Lines

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return int(self.lines.nbytes + self.special.nbytes)

    def copy_of(self, groups: Codes) -> Sums:
        """Return the sums of some groups, by themselves."""
        return Sums(np.take(self.lines, groups, axis=1), self.base, np.take(self.special, groups, axis=1))

    def widen(self, first: int, last: int) -> None:
        """Make room for digits at the places from ``first`` to ``last``, and for what they carry."""
        count, groups = self.lines.shape
        below = max(0, self.base - first) if count else 0
        if not count:
            self.base = first
        above = max(0, last + 2 - (self.base + count)) if count else last + 2 - first
        if below or above:
            zeros = [np.zeros((more, groups), np.int64) for more in (below, above)]
            self.lines = np.concatenate([zeros[0], self.lines, zeros[1]])
            self.base -= below
        if above and count:
            # The last line has the sign, of sums too to which nothing is added now.
            self.carry()

    def put(self, groups: Codes, other: Sums) -> None:
        """Take the sums of some groups."""
        if len(other.lines):
            self.widen(other.base, other.base + len(other.lines) - 2)
            first = other.base - self.base
            self.lines[first : first + len(other.lines), groups] = other.lines
        self.special[:, groups] = other.special

    def grow(self, groups: int) -> None:
        """Make room for more groups."""
        more = groups - self.lines.shape[1]
        self.lines = np.pad(self.lines, ((0, 0), (0, more)))
        self.special = np.pad(self.special, ((0, 0), (0, more)))

    def carry(self) -> None:
        """Bring all digits but the last into their range."""
        carry_digits(self.lines)

    def exact(self) -> list[int]:
        """Return the sums as integers, in units of the first line."""
        found = [0] * self.lines.shape[1]
        for line in self.lines[::-1].tolist():
            found = [(value << _BITS) + digit for value, digit in zip(found, line, strict=True)]
        return found


class ExactSums:
    """Adds values of one type to sums, and gives these as values.

    Parameters
    ----------
    of
        The type of the values.
    """

    def __init__(self, of: pa.DataType) -> None:
        self._type = of
        self._is_float = bool(pat.is_floating(of))

    def none(self, groups: int) -> Sums:
        """Return sums of nothing."""
        return Sums(np.zeros((0, groups), np.int64), 0, np.zeros((3 if self._is_float else 0, groups), np.int64))

    def add(self, sums: Sums, rows: Ints, values: pa.Array, weights: Ints) -> None:
        """Add values, none of which is null, to the sums in some columns, as often as they count."""
        most = int(np.abs(weights).max(initial=0))
        if most >= _MOST_WEIGHT:
            # In parts that do not overflow: those of less than so much, and how often it is in the rest.
            low = weights % _MOST_WEIGHT
            self.add(sums, rows, values, low)
            other = self.none(sums.lines.shape[1])
            self.add(other, rows, values, weights // _MOST_WEIGHT)
            self._add_multiple(sums, other)
            return
        step = _MOST_COPIES // max(1, most)
        for first in range(0, len(weights), step):
            piece = slice(first, first + step)
            self._add(sums, rows[piece], values.slice(first, step), weights[piece])
            sums.carry()

    def _add_multiple(self, sums: Sums, other: Sums) -> None:
        """Add other sums, as often as one counts that is just too heavy to be added at once."""
        if not len(other.lines):
            return
        sums.widen(other.base, other.base + len(other.lines) + 1)
        for line, digits in enumerate(other.lines):
            sums.lines[other.base - sums.base + line] += digits * _MOST_WEIGHT
        sums.special += other.special * _MOST_WEIGHT
        sums.carry()

    def _add(self, sums: Sums, rows: Ints, values: pa.Array, weights: Ints) -> None:
        if self._is_float:
            self._add_floats(sums, rows, values, weights)
            return
        digits = _digits(values)
        sums.widen(0, len(digits) - 1)
        for line, digit in enumerate(digits):
            np.add.at(sums.lines[line - sums.base], rows, digit * weights)

    def _add_floats(self, sums: Sums, rows: Ints, values: pa.Array, weights: Ints) -> None:
        bits = raw_values(values.cast(pa.float64()), np.int64)
        places = np.empty(2, np.int64)
        float_places(bits, places)
        if places[0] <= places[1]:
            sums.widen(int(places[0]), int(places[1]))
        add_floats(bits, rows, weights, sums.base, sums.lines, sums.special)

    # What they are

    def values(self, sums: Sums, valid: Mask, of: pa.DataType) -> pa.Array:
        """Return the sums; null where they are not valid.

        Raises
        ------
        DataError
            If one does not fit its type.
        """
        if self._is_float:
            return self._floats(sums, valid, None)
        if pat.is_decimal(of):
            return self._decimals(sums, valid, of)
        totals = sums.exact()
        if any(not -(2**63) <= total < 2**63 for total in totals):
            raise DataError(
                "A SUM of integers does not fit 64 bits. Cast the values to DECIMAL(38, 0).", name="JN-SUM-OVERFLOW"
            )
        return array_of(np.array(totals, np.int64), pa.int64(), valid)

    def _decimals(self, sums: Sums, valid: Mask, of: pa.DataType) -> pa.Array:
        limit = 10**of.precision
        totals = sums.exact()
        if any(abs(total) >= limit for total in totals):
            raise DataError(
                f"A SUM does not fit {of.precision} digits. Cast the values to a decimal of fewer places.",
                name="JN-SUM-OVERFLOW",
            )
        return decimal_array(totals, of, valid)

    def averages(self, sums: Sums, counts: Ints) -> pa.Array:
        """Return the sums divided by how many values they are of, as floats; null of none."""
        return self._floats(sums, counts > 0, counts)

    def _floats(self, sums: Sums, valid: Mask, counts: Ints | None) -> pa.Array:
        if self._is_float and counts is None:
            found = np.empty(len(valid), np.float64)
            nearest_floats(sums.lines, sums.base, found.view(np.int64))
        else:
            found = self._quotients(sums, valid, counts)
        if self._is_float and sums.special.any():
            plus, minus, nan = sums.special
            found = np.where(plus > 0, np.inf, np.where(minus > 0, -np.inf, found))
            found = np.where((nan > 0) | ((plus > 0) & (minus > 0)), np.nan, found)
        return array_of(found, pa.float64(), valid)

    def _quotients(self, sums: Sums, valid: Mask, counts: Ints | None) -> Floats:
        """Return the sums divided by how many values they are of, or by one."""
        scale = self._scale(sums)
        over, under = scale.numerator, scale.denominator
        divided = [1] * len(valid) if counts is None else np.where(valid, counts, 1).tolist()
        return np.array(
            [_quotient(total * over, under * each) for total, each in zip(sums.exact(), divided, strict=True)],
            np.float64,
        )

    def _scale(self, sums: Sums) -> Fraction:
        """Return what the first line counts."""
        if self._is_float:
            return Fraction(2) ** (_LEAST_EXPONENT + _BITS * sums.base)
        return Fraction(10) ** -self._type.scale if pat.is_decimal(self._type) else Fraction(1)


def _quotient(one: int, other: int) -> float:
    """Return the nearest float."""
    try:
        return one / other
    except OverflowError:
        return float("inf") if one > 0 else float("-inf")


def _digits(values: pa.Array) -> list[Any]:
    """Return the digits of integers or decimals, the lowest first; the last has the sign."""
    if pat.is_decimal(values.type):
        words = raw_values(values, np.uint64)
        found = []
        for word in range(words.shape[1]):
            last = word == words.shape[1] - 1
            low, high = (words[:, word] & np.uint64(_MASK)).astype(np.int64), words[:, word] >> np.uint64(_BITS)
            found += [low, high.astype(np.int64) if not last else words[:, word].view(np.int64) >> _BITS]
        return found
    if pat.is_uint64(values.type):
        wide = raw_values(values, np.uint64)
        return [(wide & np.uint64(_MASK)).astype(np.int64), (wide >> np.uint64(_BITS)).astype(np.int64)]
    plain = raw_values(values.cast(pa.int64()), np.int64)
    return [plain & _MASK, plain >> _BITS]
