"""Intervals: the possible values of an expression, with open or closed ends, NaN and null tracked separately."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

from juncture.predicate.intervals.spans import Span, meet
from juncture.predicate.language.literals import date_text, duration_text, timestamp_text
from juncture.predicate.language.rounding import exact, float_above, float_below, floor_to
from juncture.predicate.language.types import BOOLEAN, TIME_STEPS, Real, Type, as_decimal

Bound = int | Fraction | float | str | bytes | None
"""An end of a range. None is unlimited."""


@dataclass(frozen=True)
class Interval:
    """A superset of the values of an expression.

    The ends are in steps of the type (decimals as fractions); None if no limit is known. The range of the type is not a
    limit: see `limited_span`. Infinities of floats are ordinary values. Ends of types that count steps are always
    closed. ``empty`` is whether there is no ordinary value, that is neither NaN nor null.
    """

    type: Type
    lower: Bound = None
    upper: Bound = None
    lower_open: bool = False
    upper_open: bool = False
    empty: bool = False
    may_be_nan: bool = False
    may_be_null: bool = False

    @property
    def may_be_value(self) -> bool:
        """Whether the expression can be anything except null."""
        return not self.empty or self.may_be_nan

    @property
    def feasible(self) -> bool:
        """Whether the expression can have any value at all, including null."""
        return self.may_be_value or self.may_be_null

    @property
    def may_be_true(self) -> bool:
        """Whether a boolean can be true."""
        return not self.empty and self.upper != 0

    @property
    def may_be_false(self) -> bool:
        """Whether a boolean can be false."""
        return not self.empty and self.lower != 1

    @property
    def is_point(self) -> bool:
        """Whether there is exactly one value, and neither NaN nor null."""
        return not (self.may_be_nan or self.may_be_null or self.empty) and (
            self.lower is not None and self.lower == self.upper
        )

    @property
    def limits(self) -> tuple[Bound, Bound]:
        """The ends that exclude some value of the type; None for others."""
        if not self.type.is_discrete or self.type == BOOLEAN:
            return self.lower, self.upper
        lower = None if self.lower == self.type.least else self.lower
        return lower, None if self.upper == self.type.greatest else self.upper

    def __str__(self) -> str:
        parts = []
        if not self.empty:
            if self.type == BOOLEAN:
                words = (["false"] if self.may_be_false else []) + (["true"] if self.may_be_true else [])
                parts.append(f"{{{', '.join(words)}}}")
            else:
                lower, upper = self.limits
                low = "(-∞" if lower is None else f"{'(' if self.lower_open else '['}{_text(lower, self.type)}"
                high = "∞)" if upper is None else f"{_text(upper, self.type)}{')' if self.upper_open else ']'}"
                parts.append(f"{low}, {high}")
        parts.extend(["NaN"] if self.may_be_nan else [])
        parts.extend(["null"] if self.may_be_null else [])
        return " or ".join(parts) or "nothing"


def _text(value: Bound, data_type: Type) -> str:
    if isinstance(value, int):
        if data_type.kind == "date":
            return date_text(value)
        if data_type.kind == "timestamp":
            return timestamp_text(value, data_type)
        if data_type.kind == "duration":
            return duration_text(value, data_type.unit)
    if data_type.kind == "decimal" and isinstance(value, int | Fraction):
        return f"{as_decimal(value, data_type):f}"
    return repr(value)


def interval(
    data_type: Type,
    lower: Bound = None,
    upper: Bound = None,
    *,
    lower_open: bool = False,
    upper_open: bool = False,
    nan: bool = False,
    null: bool = False,
) -> Interval:
    """Return an interval in canonical form.

    Ends of types that count steps are closed and moved onto a step; an end that excludes nothing becomes None.

    Examples
    --------
    >>> print(interval(Type("integer", bits=32), 3, lower_open=True))
    [4, ∞)
    >>> print(interval(Type("float", bits=64), 0.5, math.inf, upper_open=True, nan=True))
    [0.5, inf) or NaN
    """
    if isinstance(lower, str | bytes) or isinstance(upper, str | bytes) or not data_type.has_arithmetic:
        return _ordered(data_type, lower, upper, lower_open, upper_open, null)
    low = -math.inf if lower is None else exact(lower)
    high = math.inf if upper is None else exact(upper)
    if data_type.is_discrete:
        return _discrete(data_type, Span(low, lower_open, high, upper_open), null)
    span = Span(low, lower_open, high, upper_open)
    if span.is_empty:
        return nothing(data_type, nan=nan, null=null)
    shown_low, shown_high = float_below(low, data_type.bits), float_above(high, data_type.bits)
    low_open = lower_open and exact(shown_low) == low
    high_open = upper_open and exact(shown_high) == high
    return Interval(
        data_type,
        None if shown_low == -math.inf and not low_open else shown_low,
        None if shown_high == math.inf and not high_open else shown_high,
        low_open,
        high_open,
        may_be_nan=nan,
        may_be_null=null,
    )


def _ordered(data_type: Type, lower: Bound, upper: Bound, lower_open: bool, upper_open: bool, null: bool) -> Interval:
    """Return a range of strings or binary values, which have an order but no arithmetic."""
    if _is_reversed(lower, lower_open, upper, upper_open):
        return nothing(data_type, null=null)
    return Interval(data_type, lower, upper, lower_open, upper_open, may_be_null=null)


def _is_reversed(lower: Bound, lower_open: bool, upper: Bound, upper_open: bool) -> bool:
    """Return whether there is no value between two ends."""
    if lower is None or upper is None:
        return False
    return is_less(upper, lower) or (lower == upper and (lower_open or upper_open))


def _discrete(data_type: Type, span: Span, null: bool) -> Interval:
    step, least, greatest = data_type.step, data_type.least, data_type.greatest
    span = meet(span, Span(least, False, greatest, False))
    if span.is_empty:
        return nothing(data_type, null=null)
    low, high = -floor_to(-span.low, step), floor_to(span.high, step)
    low += step if span.low_open and low == span.low else 0
    high -= step if span.high_open and high == span.high else 0
    if low > high:
        return nothing(data_type, null=null)
    boolean = data_type.kind == "boolean"
    return Interval(
        data_type,
        low if low > least or boolean else None,
        high if high < greatest or boolean else None,
        may_be_null=null,
    )


@lru_cache(maxsize=1024)
def everything(data_type: Type, *, null: bool = True) -> Interval:
    """Return all values of a type; of the null type, null only."""
    if data_type.kind == "null":
        return nothing(data_type, null=True)
    return interval(data_type, nan=data_type.kind == "float", null=null)


def nothing(data_type: Type, *, nan: bool = False, null: bool = False) -> Interval:
    """Return an interval without ordinary values."""
    return Interval(data_type, empty=True, may_be_nan=nan, may_be_null=null)


def null(data_type: Type) -> Interval:
    """Return the interval of an expression that is always null."""
    return nothing(data_type, null=True)


def point(data_type: Type, value: Bound) -> Interval:
    """Return the interval of one value. None is null; a float may be NaN."""
    if value is None:
        return null(data_type)
    if isinstance(value, float) and math.isnan(value):
        return nothing(data_type, nan=True)
    if data_type.kind == "integer" and isinstance(value, int) and data_type.least < value < data_type.greatest:
        # The most common case, already in canonical form.
        return Interval(data_type, value, value)
    return interval(data_type, value, value)


def with_flags(one: Interval, *, nan: bool | None = None, null: bool | None = None) -> Interval:
    """Return an interval with NaN and null set; the same object if nothing changes."""
    nan, null = one.may_be_nan if nan is None else nan, one.may_be_null if null is None else null
    if (nan, null) == (one.may_be_nan, one.may_be_null):
        # The usual case. Returning the same object makes comparisons of intervals fast.
        return one
    return replace(one, may_be_nan=nan, may_be_null=null)


def truth(*, true: bool, false: bool, null: bool = False) -> Interval:
    """Return a set of booleans."""
    return _TRUTHS[true, false, null]


def _truth(true: bool, false: bool, null: bool) -> Interval:
    if not (true or false):
        return Interval(BOOLEAN, empty=True, may_be_null=null)
    return Interval(BOOLEAN, 0 if false else 1, 1 if true else 0, may_be_null=null)


_TRUTHS = {values: _truth(*values) for values in product((False, True), repeat=3)}
TRUE = truth(true=True, false=False)
FALSE = truth(true=False, false=True)


def span_of(one: Interval) -> Span:
    """Return the range of the ordinary values of a type with arithmetic, with exact ends; an empty span if none."""
    if one.empty:
        return Span(1, False, 0, False)
    assert not isinstance(one.lower, str | bytes)
    assert not isinstance(one.upper, str | bytes)
    low = -math.inf if one.lower is None else exact(one.lower)
    high = math.inf if one.upper is None else exact(one.upper)
    return Span(low, one.lower_open, high, one.upper_open)


def limited_span(one: Interval) -> Span:
    """Return the same range, limited by the range of the type where no limit is known.

    It determines which results can overflow, and which comparisons can be true. It does not limit the growth of values.

    Examples
    --------
    >>> limited_span(interval(Type("integer", bits=8), 3))
    Span(low=3, low_open=False, high=127, high_open=False)
    """
    span = span_of(one)
    if not one.type.is_discrete:
        return span
    return Span(max(span.low, one.type.least), span.low_open, min(span.high, one.type.greatest), span.high_open)


def within(span: Span, like: Interval) -> Interval:
    """Return the values of a type in a span, with the NaN and null of another interval."""
    if span.is_empty:
        return nothing(like.type, nan=like.may_be_nan, null=like.may_be_null)
    return interval(
        like.type,
        span.low,
        span.high,
        lower_open=span.low_open,
        upper_open=span.high_open,
        nan=like.may_be_nan,
        null=like.may_be_null,
    )


def intersect(one: Interval, other: Interval) -> Interval:
    """Return the intersection of two intervals of one type."""
    if one is other:
        return one
    nan, null = one.may_be_nan and other.may_be_nan, one.may_be_null and other.may_be_null
    if one.empty or other.empty:
        return nothing(one.type, nan=nan, null=null)
    lower, lower_open = tighter_lower(one, other)
    upper, upper_open = tighter_upper(one, other)
    if _is_reversed(lower, lower_open, upper, upper_open):
        return nothing(one.type, nan=nan, null=null)
    # The ends are already in canonical form.
    return Interval(one.type, lower, upper, lower_open, upper_open, may_be_nan=nan, may_be_null=null)


def union(one: Interval, other: Interval) -> Interval:
    """Return the smallest interval that contains two intervals of one type."""
    nan, null = one.may_be_nan or other.may_be_nan, one.may_be_null or other.may_be_null
    if one.empty or other.empty:
        return with_flags(other if one.empty else one, nan=nan, null=null)
    lower, lower_open = _looser_lower(one, other)
    upper, upper_open = _looser_upper(one, other)
    return interval(one.type, lower, upper, lower_open=lower_open, upper_open=upper_open, nan=nan, null=null)


def tighter_lower(one: Interval, other: Interval) -> tuple[Bound, bool]:
    """Return the greater of two lower ends, and whether it is open."""
    ends: list[Any] = [(each.lower, each.lower_open) for each in (one, other) if each.lower is not None]
    return max(ends, default=(None, False))


def tighter_upper(one: Interval, other: Interval) -> tuple[Bound, bool]:
    """Return the lesser of two upper ends, and whether it is open."""
    ends: list[Any] = [(each.upper, not each.upper_open) for each in (one, other) if each.upper is not None]
    upper, closed = min(ends, default=(None, True))
    return upper, not closed


def _looser_lower(one: Interval, other: Interval) -> tuple[Bound, bool]:
    ends: list[Any] = [(each.lower, each.lower_open) for each in (one, other) if each.lower is not None]
    return min(ends) if len(ends) == 2 else (None, False)


def _looser_upper(one: Interval, other: Interval) -> tuple[Bound, bool]:
    ends: list[Any] = [(each.upper, not each.upper_open) for each in (one, other) if each.upper is not None]
    upper, closed = max(ends) if len(ends) == 2 else (None, True)
    return upper, not closed


def is_less(one: Bound, other: Bound) -> bool:
    """Return whether an end is less than another of one type; neither is None."""
    return one < other  # type: ignore[operator]  # mypy does not know that both are of one type


def contains(one: Interval, value: Bound) -> bool:
    """Return whether an interval contains a value; None is null."""
    if value is None:
        return one.may_be_null
    if isinstance(value, float) and math.isnan(value):
        return one.may_be_nan
    if one.empty:
        return False
    if one.lower is not None and (is_less(value, one.lower) or (value == one.lower and one.lower_open)):
        return False
    return one.upper is None or is_less(value, one.upper) or (value == one.upper and not one.upper_open)


def width(one: Interval) -> Real | None:
    """Return the distance between the ends, in steps of the type; None without a limit or arithmetic."""
    if one.empty:
        return 0
    if one.lower is None or one.upper is None or not one.type.has_arithmetic:
        return None
    span = span_of(one)
    distance = span.high - span.low
    return distance if isinstance(distance, int) else float(distance) if one.type.kind == "float" else distance


def finer_factor(one: Type, other: Type) -> int:
    """Return the number of steps of the finer of two units in a step of the first; 1 without units."""
    if not (one.unit and other.unit):
        return 1
    return max(1, TIME_STEPS[other.unit] // TIME_STEPS[one.unit])
