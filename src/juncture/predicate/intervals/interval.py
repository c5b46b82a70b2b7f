"""Intervals: the possible values of an expression, with open or closed ends, NaN and null tracked separately."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

from juncture.predicate.intervals.spans import EMPTY, EVERYTHING, Span, Top, hull, intersection, is_unlimited
from juncture.predicate.language.literals import date_text, duration_text, timestamp_text
from juncture.predicate.language.types import (
    BOOLEAN,
    TIME_STEPS,
    Type,
    as_decimal,
    exact,
    float_above,
    float_below,
    floor_to,
)

Bound = int | Fraction | float | str | bytes | None
"""An end of a range. None is unlimited."""


_TEXTS = {"string": "", "binary": b""}  # the least values of types that have an order but no arithmetic


@lru_cache(maxsize=64)
def unlimited(data_type: Type) -> Span:
    """Return the span without limits of a type."""
    return Span(_TEXTS[data_type.kind], False, Top.TOP, False) if data_type.kind in _TEXTS else EVERYTHING


@dataclass(frozen=True)
class Interval:
    """A superset of the values of an expression: a span of ordinary values, NaN and null.

    The ends of the span are exact, in steps of the type (decimals as fractions), and infinite if no limit is known. The
    range of the type is not a limit: see `limited_span`. Infinities of floats are ordinary values. Ends of types that
    count steps are always closed.
    """

    type: Type
    span: Span = EVERYTHING
    may_be_nan: bool = False
    may_be_null: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is no ordinary value, that is neither NaN nor null."""
        return self.span.is_empty

    @property
    def lower(self) -> Bound:
        """The lower end as a value of the type; None if there is no limit or no value."""
        low, low_open, *_ = self.span
        if self.empty or (low, low_open) == unlimited(self.type)[:2]:
            return None
        return float(low) if self.type.kind == "float" else low

    @property
    def upper(self) -> Bound:
        """The upper end as a value of the type; None if there is no limit or no value."""
        *_, high, high_open = self.span
        if self.empty or (high, high_open) == unlimited(self.type)[2:]:
            return None
        return float(high) if self.type.kind == "float" else high

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
        return bool(self.span.high != 0)

    @property
    def may_be_false(self) -> bool:
        """Whether a boolean can be false."""
        return bool(self.span.low != 1)

    @property
    def is_point(self) -> bool:
        """Whether there is exactly one value, and neither NaN nor null."""
        low, _, high, _ = self.span
        return low == high and not (self.may_be_nan or self.may_be_null or is_unlimited(low))

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
                low = "(-∞" if lower is None else f"{'(' if self.span.low_open else '['}{_text(lower, self.type)}"
                high = "∞)" if upper is None else f"{_text(upper, self.type)}{')' if self.span.high_open else ']'}"
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
    """Return an interval in canonical form: an end without effect is None; ends of steps are closed, on a step."""
    low, _, high, _ = unlimited(data_type)
    low, high = low if lower is None else _exact(lower), high if upper is None else _exact(upper)
    return within(Span(low, lower_open, high, upper_open), nothing(data_type, nan=nan, null=null))


def _exact(end: int | Fraction | float | str | bytes) -> Any:
    return end if isinstance(end, str | bytes) else exact(end)


def within(span: Span, like: Interval) -> Interval:
    """Return the values of a type in a span, with the NaN and null of another interval."""
    data_type = like.type
    if data_type.is_discrete:
        return Interval(data_type, _on_steps(span, data_type), may_be_null=like.may_be_null)
    if span.is_empty:
        return replace(like, span=EMPTY)
    if data_type.kind == "float":
        low, high = exact(float_below(span.low, data_type.bits)), exact(float_above(span.high, data_type.bits))
        span = Span(low, span.low_open and low == span.low, high, span.high_open and high == span.high)
    return replace(like, span=span)


def _on_steps(span: Span, data_type: Type) -> Span:
    """Return a span with closed ends on the steps of a type; an end that excludes nothing becomes infinite."""
    step, least, greatest = data_type.step, data_type.least, data_type.greatest
    span = intersection(span, Span(least, False, greatest, False))
    if span.is_empty:
        return EMPTY
    low, high = -floor_to(-span.low, step), floor_to(span.high, step)
    low += step if span.low_open and low == span.low else 0
    high -= step if span.high_open and high == span.high else 0
    if low > high:
        return EMPTY
    boolean = data_type.kind == "boolean"
    return Span(
        low if low > least or boolean else -math.inf, False, high if high < greatest or boolean else math.inf, False
    )


@lru_cache(maxsize=1024)
def everything(data_type: Type, *, null: bool = True) -> Interval:
    """Return all values of a type; of the null type, null only."""
    if data_type.kind == "null":
        return nothing(data_type, null=True)
    return interval(data_type, nan=data_type.kind == "float", null=null)


def nothing(data_type: Type, *, nan: bool = False, null: bool = False) -> Interval:
    """Return an interval without ordinary values."""
    return Interval(data_type, EMPTY, nan, null)


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
        return Interval(data_type, Span(value, False, value, False))
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
    # Without any value, these are the ends of the empty span.
    return Interval(BOOLEAN, Span(0 if false else 1, False, 1 if true else 0, False), may_be_null=null)


_TRUTHS = {values: _truth(*values) for values in product((False, True), repeat=3)}
TRUE = truth(true=True, false=False)
FALSE = truth(true=False, false=True)


def limited_span(one: Interval) -> Span:
    """Return the span of an interval, limited by the range of the type where no limit is known.

    It determines which results can overflow, and which comparisons can be true. It does not limit the growth of values.
    """
    span = one.span
    if not one.type.is_discrete:
        return span
    return Span(max(span.low, one.type.least), span.low_open, min(span.high, one.type.greatest), span.high_open)


def intersect(one: Interval, other: Interval) -> Interval:
    """Return the intersection of two intervals of one type."""
    if one is other:
        return one
    span = EMPTY if one.empty or other.empty else intersection(one.span, other.span)
    nan, null = one.may_be_nan and other.may_be_nan, one.may_be_null and other.may_be_null
    return Interval(one.type, EMPTY if span.is_empty else span, nan, null)


def union(one: Interval, other: Interval) -> Interval:
    """Return the smallest interval that contains two intervals of one type."""
    nan, null = one.may_be_nan or other.may_be_nan, one.may_be_null or other.may_be_null
    if one.empty or other.empty:
        return with_flags(other if one.empty else one, nan=nan, null=null)
    return Interval(one.type, hull(one.span, other.span), nan, null)


def contains(one: Interval, value: Bound) -> bool:
    """Return whether an interval contains a value; None is null."""
    if value is None:
        return one.may_be_null
    if isinstance(value, float) and math.isnan(value):
        return one.may_be_nan
    return not one.empty and one.span.holds(_exact(value))


def finer_factor(one: Type, other: Type) -> int:
    """Return the number of steps of the finer of two units in a step of the first; 1 without units."""
    if not (one.unit and other.unit):
        return 1
    return max(1, TIME_STEPS[other.unit] // TIME_STEPS[one.unit])
