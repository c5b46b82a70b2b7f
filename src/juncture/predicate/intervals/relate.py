"""Narrowing of operands by a comparison or an IN that must be true."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import replace
from fractions import Fraction
from typing import Any

from juncture.predicate.intervals.interval import (
    Interval,
    finer_factor,
    intersect,
    interval,
    nothing,
    span_of,
    tighter_lower,
    tighter_upper,
    truth,
    within,
)
from juncture.predicate.intervals.spans import Span, meet, scaled
from juncture.predicate.intervals.truth import flipped
from juncture.predicate.language.nodes import CompareOperator, Options
from juncture.predicate.language.types import from_steps, in_steps

Pair = tuple[Interval, Interval]


def narrow_comparison(operator: CompareOperator, left: Interval, right: Interval) -> Pair:
    """Return two non-null operands, without values for which a comparison cannot be true.

    NaN equals NaN and is greater than any other float: if the greater side may be NaN, it limits nothing.

    Examples
    --------
    >>> from juncture.predicate.language.types import BIGINT
    >>> for side in narrow_comparison("<", interval(BIGINT, 1), interval(BIGINT, 0, 9)):
    ...     print(side)
    [1, 8]
    [2, 9]
    """
    if operator in (">", ">="):
        right, left = narrow_comparison(flipped(operator), right, left)
        return left, right
    if operator == "=":
        return _equal(left, right)
    if operator == "<>":
        return _without(left, right), _without(right, left)
    return _ordered(left, right, strict=operator == "<")


def narrow_equal_or_null(left: Interval, right: Interval) -> Pair:
    """Return two operands that are equal or both null, without values for which they are neither."""
    null = left.may_be_null and right.may_be_null
    one, other = _equal(replace(left, may_be_null=False), replace(right, may_be_null=False))
    return replace(one, may_be_null=null), replace(other, may_be_null=null)


def _equal(left: Interval, right: Interval) -> Pair:
    nan = left.may_be_nan and right.may_be_nan
    left, right = replace(left, may_be_nan=nan), replace(right, may_be_nan=nan)
    if not left.type.has_arithmetic:
        return intersect(left, right), intersect(right, left)
    common = meet(_common_span(left, right), _common_span(right, left))
    return _own(common, left, right), _own(common, right, left)


def _ordered(left: Interval, right: Interval, *, strict: bool) -> Pair:
    """Narrow by ``left < right`` (strict) or ``left <= right``."""
    left = replace(left, may_be_nan=left.may_be_nan and right.may_be_nan and not strict)
    if not left.type.has_arithmetic:
        return _ordered_texts(left, right, strict=strict)
    one, other = _common_span(left, right), _common_span(right, left)
    new_left, new_right = left, right
    if not right.may_be_nan:
        below = Span(-math.inf, False, other.high, strict and not isinstance(other.high, float))
        new_left = _own(meet(one, below), left, right) if not right.empty else nothing(left.type)
    if left.empty:
        new_right = replace(nothing(right.type), may_be_nan=right.may_be_nan and left.may_be_nan)
    else:
        above = Span(one.low, strict and not isinstance(one.low, float), math.inf, False)
        new_right = _own(meet(other, above), right, left)
    return new_left, new_right


def _ordered_texts(left: Interval, right: Interval, *, strict: bool) -> Pair:
    if left.empty or right.empty:
        return nothing(left.type), nothing(right.type)
    cap = replace(right, lower=None, lower_open=False, upper_open=right.upper_open or strict)
    upper, upper_open = tighter_upper(left, cap)
    floor = replace(left, upper=None, upper_open=False, lower_open=left.lower_open or strict)
    lower, lower_open = tighter_lower(right, floor)
    return (
        interval(left.type, left.lower, upper, lower_open=left.lower_open, upper_open=upper_open),
        interval(right.type, lower, right.upper, lower_open=lower_open, upper_open=right.upper_open),
    )


def _without(one: Interval, other: Interval) -> Interval:
    """Return the values of one side, without the other side's value if it has only one."""
    if other.empty:
        # The other side can only be NaN.
        return replace(one, may_be_nan=False)
    if not other.is_point or one.empty or not one.type.has_arithmetic:
        return one
    span, value = _common_span(one, other), _common_span(other, one).low
    low_open, high_open = span.low_open or span.low == value, span.high_open or span.high == value
    return _own(Span(span.low, low_open, span.high, high_open), one, other)


def _common_span(one: Interval, other: Interval) -> Span:
    """Return the values of one side in steps of the finer unit of both."""
    return scaled(span_of(one), finer_factor(one.type, other.type))


def _own(span: Span, one: Interval, other: Interval) -> Interval:
    """Return a span in steps of the finer unit as values of one side."""
    return within(scaled(span, Fraction(1, finer_factor(one.type, other.type))), one)


def among(options: Options, operand: Interval) -> Interval:
    """Return whether an operand can be one of the values, and can be another value."""
    listed = _listed(options, operand)
    is_nan = operand.may_be_nan and options.has_nan
    is_point = operand.lower is not None and operand.lower == operand.upper
    is_other = (not operand.empty and not (listed and is_point)) or (operand.may_be_nan and not options.has_nan)
    null = operand.may_be_null or (is_other and options.has_null)
    return truth(true=bool(listed) or is_nan, false=is_other and not options.has_null, null=null)


def narrow_to(options: Options, operand: Interval) -> Interval:
    """Return the possible values of an operand that is one of the options."""
    listed, nan = _listed(options, operand), operand.may_be_nan and options.has_nan
    if not listed:
        return nothing(operand.type, nan=nan)
    return intersect(operand, interval(operand.type, *listed, nan=nan))


def _listed(options: Options, operand: Interval) -> list[Any]:
    """Return the first and the last value within an interval; empty if there are none."""
    if operand.empty:
        return []
    values, data_type = options.ordered, options.type
    below = bisect_right if operand.lower_open else bisect_left
    above = bisect_left if operand.upper_open else bisect_right
    first = 0 if operand.lower is None else below(values, in_steps(operand.lower, data_type))
    end = len(values) if operand.upper is None else above(values, in_steps(operand.upper, data_type))
    return [from_steps(value, data_type) for value in (values[first], values[end - 1])] if first < end else []
