"""Exact sums, which do not depend on the order of insertions and deletions.

A sum is a number in base 2^32. Its digits are lines of an array with one column per group. Integers and decimals need a
few lines. Floats need as many as lie between the smallest and the greatest value so far, so that additions are exact.
Only the returned sum is rounded, once, to the nearest float.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, raw_values
from juncture.errors import DataError
from juncture.incremental.expressions.functions import decimal_array
from juncture.kernels.array_types import Floats, Ints, IntTable, Mask
from juncture.kernels.exact_sums import add_floats, carry_digits, float_digits, nearest_floats

_BITS = 32
_MASK = (1 << _BITS) - 1
_LEAST_EXPONENT = -1074  # the exponent of the smallest float, which is position 0 of float sums
_MOST_COPIES = 1 << 28  # Additions between two carries. A digit has 33 bits, so with 28 more no line overflows.
_MOST_WEIGHT = 1 << 15
_DIGITS_OF_WORD = 19  # decimals of this precision can have any 64-bit integer


@dataclass
class Sums:
    """Sums of groups."""

    lines: IntTable  # the digits, the lowest first, and the sign in the last line
    base: int  # the position of the first line
    special: IntTable  # counts of infinity, minus infinity and NaN, one line each

    def some(self, groups: Ints) -> Sums:
        """Return a copy of the sums of some groups."""
        return Sums(np.take(self.lines, groups, axis=1), self.base, np.take(self.special, groups, axis=1))

    def widen(self, first: int, last: int) -> None:
        """Add lines for digits from position ``first`` to ``last`` and for their carry."""
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
            # The last line has the sign, so existing sums must carry into the new lines.
            self.carry()

    def carry(self) -> None:
        """Normalize all digits but the last."""
        carry_digits(self.lines)

    def integers(self) -> tuple[Ints, Mask]:
        """Return the sums of 64 bits as integers, in units of the first line, and which sums fit."""
        low = np.zeros((2, self.lines.shape[1]), np.int64)
        low[: min(2, len(self.lines))] = self.lines[:2]
        if len(self.lines) < 2:
            return low[0], np.ones(len(low[0]), np.bool_)
        totals = (low[1] << _BITS) + low[0]
        # The lines above have no digits of their own if they only repeat the sign.
        sign, carry = totals >> 63, low[1] >> _BITS
        if len(self.lines) == 2:
            return totals, sign == (low[1] >> (_BITS - 1))
        fits = (self.lines[-1] == sign) & (carry == 0)
        for line in self.lines[2:-1]:
            fits &= line == (sign & _MASK)
        return totals, fits

    def exact(self) -> list[int]:
        """Return the sums as integers, in units of the first line."""
        totals = [0] * self.lines.shape[1]
        for line in self.lines[::-1].tolist():
            totals = [(value << _BITS) + digit for value, digit in zip(totals, line, strict=True)]
        return totals


class ExactSums:
    """Adds values of type ``of`` to sums, and converts sums to values."""

    def __init__(self, of: pa.DataType) -> None:
        self._type = of
        self._is_float = bool(pat.is_floating(of))

    def none(self, groups: int) -> Sums:
        """Return empty sums."""
        return Sums(np.zeros((0, groups), np.int64), 0, np.zeros((3 if self._is_float else 0, groups), np.int64))

    def add(self, sums: Sums, rows: Ints, values: pa.Array, weights: Ints) -> None:
        """Add weighted non-null values. ``rows`` are columns of the sums."""
        most = int(np.abs(weights).max(initial=0))
        if most >= _MOST_WEIGHT:
            # Split heavy weights into a remainder and a multiple of _MOST_WEIGHT, so that no digit overflows.
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
        lines = np.empty(2, np.int64)
        float_digits(bits, lines)
        if lines[0] <= lines[1]:
            sums.widen(int(lines[0]), int(lines[1]))
        add_floats(bits, rows, weights, sums.base, sums.lines, sums.special)

    # Values

    def values(self, sums: Sums, valid: Mask, of: pa.DataType) -> pa.Array:
        """Return the sums, null where not valid; raises `DataError` if one does not fit its type."""
        if self._is_float:
            return self._floats(sums, valid, None)
        if pat.is_decimal(of):
            return self._decimals(sums, valid, of)
        totals, fits = sums.integers()
        if not fits.all():
            raise DataError(
                "A SUM of integers does not fit 64 bits. Cast the values to DECIMAL(38, 0).", name="JN-SUM-OVERFLOW"
            )
        return array_of(totals, pa.int64(), valid)

    def _decimals(self, sums: Sums, valid: Mask, of: pa.DataType) -> pa.Array:
        limit = 10**of.precision
        small, fits = sums.integers()
        if fits.all() and (of.precision >= _DIGITS_OF_WORD or (np.abs(small) < limit).all()):
            return array_of(np.stack([small, small >> 63], axis=1), of, valid)
        totals = sums.exact()
        if any(abs(total) >= limit for total in totals):
            raise DataError(
                f"A SUM does not fit {of.precision} digits. Cast the values to a decimal of fewer places.",
                name="JN-SUM-OVERFLOW",
            )
        return decimal_array(totals, of, valid)

    def averages(self, sums: Sums, counts: Ints) -> pa.Array:
        """Return the sums divided by counts as floats; null for a count of zero."""
        return self._floats(sums, counts > 0, counts)

    def variances(self, sums: Sums, squares: Sums, counts: Ints, divisors: Ints) -> Floats:
        """Return variances from sums of values and of their squares; zero for one value or less."""
        unit, unit_of_squares = self._scale(sums), self._scale(squares)
        variances = np.zeros(len(counts), np.float64)
        rows = np.flatnonzero(counts > 1)
        totals, square_totals = (each.some(rows).exact() for each in (sums, squares))
        every = zip(rows.tolist(), totals, square_totals, counts[rows].tolist(), divisors[rows].tolist(), strict=True)
        for row, total, of_squares, count, divisor in every:
            scaled = count * of_squares * unit_of_squares - (total * unit) ** 2
            variances[row] = _quotient(scaled.numerator, scaled.denominator * count * divisor)
        return variances

    def _floats(self, sums: Sums, valid: Mask, counts: Ints | None) -> pa.Array:
        if self._is_float and counts is None:
            floats = np.empty(len(valid), np.float64)
            nearest_floats(sums.lines, sums.base, floats.view(np.int64))
        else:
            floats = self._quotients(sums, valid, counts)
        if self._is_float and sums.special.any():
            plus, minus, nan = sums.special
            floats = np.where(plus > 0, np.inf, np.where(minus > 0, -np.inf, floats))
            floats = np.where((nan > 0) | ((plus > 0) & (minus > 0)), np.nan, floats)
        return array_of(floats, pa.float64(), valid)

    def _quotients(self, sums: Sums, valid: Mask, counts: Ints | None) -> Floats:
        scale = self._scale(sums)
        over, under = scale.numerator, scale.denominator
        divided = [1] * len(valid) if counts is None else np.where(valid, counts, 1).tolist()
        return np.array(
            [_quotient(total * over, under * each) for total, each in zip(sums.exact(), divided, strict=True)],
            np.float64,
        )

    def _scale(self, sums: Sums) -> Fraction:
        """Return the unit of the first line."""
        if self._is_float:
            return Fraction(2) ** (_LEAST_EXPONENT + _BITS * sums.base)
        return Fraction(10) ** -self._type.scale if pat.is_decimal(self._type) else Fraction(1)


def _quotient(one: int, other: int) -> float:
    try:
        return one / other
    except OverflowError:
        return float("inf") if one > 0 else float("-inf")


def _digits(values: pa.Array) -> list[Any]:
    """Return the digits of integers or decimals, the lowest first. The last digit has the sign."""
    if pat.is_decimal(values.type):
        words = raw_values(values, np.uint64)
        digits = []
        for word in range(words.shape[1]):
            last = word == words.shape[1] - 1
            low, high = (words[:, word] & np.uint64(_MASK)).astype(np.int64), words[:, word] >> np.uint64(_BITS)
            digits += [low, high.astype(np.int64) if not last else words[:, word].view(np.int64) >> _BITS]
        return digits
    if pat.is_uint64(values.type):
        wide = raw_values(values, np.uint64)
        return [(wide & np.uint64(_MASK)).astype(np.int64), (wide >> np.uint64(_BITS)).astype(np.int64)]
    plain = raw_values(values.cast(pa.int64()), np.int64)
    return [plain & _MASK, plain >> _BITS]
