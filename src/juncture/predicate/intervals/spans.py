"""Ranges of real numbers with exact ends, and the four operations on them.

Ends are integers, fractions or infinities; each is open or closed. Nothing is rounded here, but in the conversion to a
type. An infinite end means unbounded values, so zero times it is zero, and a number divided by it is zero. Source of
the rules: R. E. Moore, Interval Analysis, 1966.
"""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple

from juncture.predicate.language.types import Real

_INFINITY = math.inf


class Top(Enum):
    """The upper end of unbounded texts, since there is no greatest text."""

    TOP = 0

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return self is other

    def __gt__(self, other: object) -> bool:
        return self is not other

    def __ge__(self, other: object) -> bool:
        return True


class Span(NamedTuple):
    """All values between two ends: real numbers, or texts, which have an order but no arithmetic."""

    low: Any
    low_open: bool
    high: Any
    high_open: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is no value between the ends."""
        return bool(self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)))

    def holds(self, value: Any) -> bool:
        """Return whether a value is inside."""
        above = self.low < value or (self.low == value and not self.low_open)
        return bool(above and (value < self.high or (value == self.high and not self.high_open)))


EVERYTHING = Span(-_INFINITY, False, _INFINITY, False)
EMPTY = Span(1, False, 0, False)


def intersection(one: Span, other: Span) -> Span:
    """Return the values in both spans."""
    low, low_open = max((one.low, one.low_open), (other.low, other.low_open))
    high, closed = min((one.high, not one.high_open), (other.high, not other.high_open))
    return Span(low, low_open, high, not closed)


def hull(one: Span, other: Span) -> Span:
    """Return the least span that holds two spans, neither of them empty."""
    low, low_open = min((one.low, one.low_open), (other.low, other.low_open))
    high, closed = max((one.high, not one.high_open), (other.high, not other.high_open))
    return Span(low, low_open, high, not closed)


def negate(span: Span) -> Span:
    """Return the numbers with their signs changed."""
    return Span(-span.high, span.high_open, -span.low, span.low_open)


def scaled(span: Span, factor: Real) -> Span:
    """Return the numbers times a factor that is greater than zero."""
    return span if factor == 1 else Span(span.low * factor, span.low_open, span.high * factor, span.high_open)


def absolute(span: Span) -> Span:
    """Return the absolute values."""
    if span.low >= 0:
        return span
    if span.high <= 0:
        return negate(span)
    high, closed = max((-span.low, not span.low_open), (span.high, not span.high_open))
    return Span(0, False, high, not closed)


def add(one: Span, other: Span) -> Span:
    """Return all sums. Infinities of opposite signs add up to anything."""
    low = _sum(one.low, other.low, -_INFINITY)
    high = _sum(one.high, other.high, _INFINITY)
    # An infinite sum is reached regardless of the other end.
    low_open = (one.low_open or other.low_open) and not _is_infinite(low)
    high_open = (one.high_open or other.high_open) and not _is_infinite(high)
    return Span(low, low_open, high, high_open)


def _sum(one: Real, other: Real, undecided: float) -> Real:
    if _is_infinite(one):
        return undecided if _is_infinite(other) and one != other else one
    return other if _is_infinite(other) else one + other


def subtract(one: Span, other: Span) -> Span:
    """Return all differences."""
    return add(one, negate(other))


def square(span: Span) -> Span:
    """Return all products of a number with itself."""
    magnitude = absolute(span)
    return multiply(magnitude, magnitude)


def multiply(one: Span, other: Span) -> Span:
    """Return all products."""
    corners = [
        _corner_product(a, b)
        for a in ((one.low, one.low_open), (one.high, one.high_open))
        for b in ((other.low, other.low_open), (other.high, other.high_open))
    ]
    return _around(corners)


def _corner_product(one: tuple[Real, bool], other: tuple[Real, bool]) -> tuple[Real, bool]:
    """Return the product of two ends. A closed zero is reached regardless of the other end."""
    (a, a_open), (b, b_open) = one, other
    if a == 0 or b == 0:
        closed = (a == 0 and not a_open) or (b == 0 and not b_open)
        return 0, not closed
    product = _product(a, b)
    return product, (a_open or b_open) and not _is_infinite(product)


def _product(a: Real, b: Real) -> Real:
    if _is_infinite(a) or _is_infinite(b):
        return _INFINITY if (a > 0) == (b > 0) else -_INFINITY
    return a * b


def divide(dividend: Span, divisor: Span) -> tuple[Span, ...]:
    """Return all quotients as at most two spans, one for each sign of the divisor.

    Where both spans hold zero, anything is a quotient: ``x`` is a quotient of ``z`` and ``y`` if ``x * y = z``.
    """
    if divisor.holds(0) and dividend.holds(0):
        return (EVERYTHING,)
    negative = intersection(divisor, Span(-_INFINITY, False, 0, True))
    positive = intersection(divisor, Span(0, True, _INFINITY, False))
    return tuple(_divide_signed(dividend, part) for part in (negative, positive) if not part.is_empty)


def _divide_signed(dividend: Span, divisor: Span) -> Span:
    corners = [
        _corner_quotient(a, b, toward=1 if divisor.high > 0 else -1)
        for a in ((dividend.low, dividend.low_open), (dividend.high, dividend.high_open))
        for b in ((divisor.low, divisor.low_open), (divisor.high, divisor.high_open))
    ]
    return _around(corners)


def _corner_quotient(one: tuple[Real, bool], other: tuple[Real, bool], *, toward: int) -> tuple[Real, bool]:
    """Return the quotient of two ends, where the divisor has one sign and a zero end stands for its limit."""
    (a, a_open), (b, b_open) = one, other
    if a == 0:
        return 0, a_open
    if _is_infinite(b):
        return 0, False
    if b == 0:
        return (_INFINITY if (a > 0) == (toward > 0) else -_INFINITY), False
    if _is_infinite(a):
        return _product(a, b), False
    return Fraction(a) / Fraction(b), a_open or b_open


def _around(corners: list[tuple[Real, bool]]) -> Span:
    low, low_open = min(corners)
    high, closed = max((value, not is_open) for value, is_open in corners)
    return Span(low, low_open, high, not closed)


def root(span: Span) -> Span:
    """Return the non-negative numbers whose square is in a span; the ends are rounded outward."""
    if span.high < 0 or span.is_empty:
        return EMPTY
    low = _root(max(span.low, 0), up=False)
    return Span(low, False, _root(span.high, up=True), False)


def _root(value: Real, *, up: bool) -> Real:
    """Return a square root: exact where it is rational, else to 64 binary digits or more."""
    if _is_infinite(value):
        return value
    fraction = Fraction(value)
    shift = max(0, 140 - fraction.numerator.bit_length() + fraction.denominator.bit_length()) // 2 * 2
    scaled = (fraction.numerator << shift) * fraction.denominator
    floor = math.isqrt(scaled)
    exact = floor * floor == scaled
    return Fraction(floor + (1 if up and not exact else 0), fraction.denominator << (shift // 2))


def _is_infinite(value: Real) -> bool:
    return isinstance(value, float)


def is_unlimited(end: Any) -> bool:
    """Return whether an end is infinite, or beyond all texts."""
    return isinstance(end, float | Top)
