"""Arithmetic on intervals: all results of an operation, for any operands within their intervals.

Results follow the types: overflowing integers are null, never wrapped; decimals are rounded as in Spark; floats are
rounded outward, so that both the exact and the computed result are inside. Infinities and NaN are values of floats, and
division by zero is null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from typing import Literal as OneOf

from juncture.predicate.intervals import spans
from juncture.predicate.intervals.interval import (
    Interval,
    contains,
    interval,
    limited_span,
    nothing,
    truth,
    union,
    unlimited,
    with_flags,
    within,
)
from juncture.predicate.intervals.spans import Span
from juncture.predicate.language.types import (
    MAX_DIGITS,
    ArithmeticOperator,
    Real,
    Type,
    exact,
    float_above,
    float_below,
    half_up,
    next_float,
    scale_between,
)

_FINITE = Span(-(10**MAX_DIGITS), False, 10**MAX_DIGITS, False)
"""The range of integers and decimals, which as floats are neither infinite nor NaN."""


def arithmetic(operator: ArithmeticOperator, left: Interval, right: Interval, target: Type) -> Interval:
    """Return all sums, differences, products or quotients, in the target type."""
    null = left.may_be_null or right.may_be_null
    nan = target.kind == "float" and (
        (left.may_be_nan and right.may_be_value)
        or (right.may_be_nan and left.may_be_value)
        or makes_nan(operator, left, right)
    )
    if operator == "/":
        return _quotient(left, right, target, nan=nan, null=null)
    combine = {"+": spans.add, "-": spans.subtract, "*": spans.multiply}[operator]
    return computed(combine, (left, right), target, nan=nan, null=null)


def square(operand: Interval, target: Type) -> Interval:
    """Return all products of a value with itself, which are never negative."""
    # Infinity times itself is infinite, and zero times itself is zero: only NaN makes NaN.
    return computed(spans.square, (operand,), target, nan=operand.may_be_nan, null=operand.may_be_null)


def _quotient(left: Interval, right: Interval, target: Type, *, nan: bool, null: bool) -> Interval:
    divisor = right.span
    null = null or (divisor.holds(0) and not right.empty)
    result = nothing(target, nan=nan, null=null)
    if left.empty or right.empty:
        return result
    below = within(spans.intersection(divisor, Span(-math.inf, False, 0, True)), nothing(right.type))
    above = within(spans.intersection(divisor, Span(0, True, math.inf, False)), nothing(right.type))
    for part in (below, above):
        if not part.empty:
            # The divisor has one sign, so all quotients are one span.
            quotients = computed(lambda a, b: spans.divide(a, b)[0], (left, part), target, nan=nan, null=null)
            result = union(result, quotients)
    return result


def unary(operator: OneOf["-", "abs"], operand: Interval, target: Type) -> Interval:
    """Return all negations or absolute values."""
    change = spans.negate if operator == "-" else spans.absolute
    if target.kind == "float" and not operand.empty:
        return within(change(operand.span), replace(operand, type=target))
    return computed(change, (operand,), target, nan=operand.may_be_nan, null=operand.may_be_null)


def extreme(function: OneOf["least", "greatest"], operands: Sequence[Interval], target: Type) -> Interval:
    """Return the least or greatest of several operands, ignoring nulls; NaN is greater than any number."""
    result = reduce(lambda one, other: _extreme_of_two(function, one, other), operands)
    return replace(result, type=target, may_be_null=all(operand.may_be_null for operand in operands))


def _extreme_of_two(function: OneOf["least", "greatest"], one: Interval, other: Interval) -> Interval:
    """Return the union of the results of each pair of cases: a number, NaN or null on either side."""
    parts = [nothing(one.type)]
    if not (one.empty or other.empty):
        parts.append(_extreme_of_ranges(function, one, other))
    for this, that in ((one, other), (other, one)):
        alone = that.may_be_null or (that.may_be_nan and function == "least")
        if alone and not this.empty:
            parts.append(with_flags(this, nan=False, null=False))
    if function == "greatest":
        nan = one.may_be_nan or other.may_be_nan
    else:
        nan = (one.may_be_nan and (other.may_be_nan or other.may_be_null)) or (other.may_be_nan and one.may_be_null)
    hull = reduce(union, parts)
    return with_flags(hull, nan=nan, null=one.may_be_null and other.may_be_null)


def _extreme_of_ranges(function: OneOf["least", "greatest"], one: Interval, other: Interval) -> Interval:
    """Return the range of the least or greatest of two ordinary values."""
    both, common = spans.hull(one.span, other.span), spans.intersection(one.span, other.span)
    lower, upper = (both, common) if function == "least" else (common, both)
    return Interval(one.type, Span(lower.low, lower.low_open, upper.high, upper.high_open))


def convert(operand: Interval, target: Type) -> Interval:
    """Return all values of a cast: null where a value does not fit its new type."""
    source, null = operand.type, operand.may_be_null
    if not (source.has_arithmetic and target.has_arithmetic):
        span = unlimited(target) if operand.span == unlimited(source) else operand.span
        return replace(operand, type=target, span=span)
    if target.kind == "boolean":
        return _truth_of(operand)
    if target.kind == "float":
        if source.kind == "float" and source.bits <= target.bits:
            return within(operand.span, replace(operand, type=target))
        cut = _FINITE if source.is_discrete else spans.EVERYTHING
        return computed(partial(spans.intersection, cut), (operand,), target, nan=operand.may_be_nan, null=null)
    null = null or operand.may_be_nan or can_be_infinite(operand)
    # Spark parses the printed digits of a float: a number between the float's neighbors.
    printed = source.kind == "float" and target.kind == "decimal"
    change = partial(widened, data_type=source) if printed else lambda span: span
    return computed(change, (operand,), target, nan=False, null=null, rounding=rounding_of(target))


def _truth_of(operand: Interval) -> Interval:
    """Return whether a number is not zero."""
    span = operand.span
    return truth(
        true=operand.may_be_nan or not (span.is_empty or span.low == 0 == span.high),
        false=span.holds(0),
        null=operand.may_be_null,
    )


def rounding_of(target: Type) -> Callable[[Real], Real]:
    """Return the monotonic rounding of a cast onto the steps of a type."""
    if target.kind == "decimal":
        return lambda value: half_up(value, target.step)
    return math.trunc if target.kind == "integer" else math.floor


def computed(
    operation: Callable[..., Span],
    operands: Sequence[Interval],
    target: Type,
    *,
    nan: bool,
    null: bool,
    rounding: Callable[[Real], Real] | None = None,
) -> Interval:
    """Return the exact results of an operation as values of a type: rounded (by default as in Spark), null on overflow.

    ``operation`` maps the spans of the operands, in steps of the target, to the span of the results. ``nan`` and
    ``null`` are whether a result can be so besides.
    """
    if any(operand.empty for operand in operands):
        return nothing(target, nan=nan, null=null)
    factors = [scale_between(operand.type, target) for operand in operands]
    exact = operation(*map(spans.scaled, [operand.span for operand in operands], factors))
    if target.kind == "float":
        # A value inside an open end can be rounded onto it.
        return interval(target, exact.low, exact.high, nan=nan, null=null)
    if rounding is None and target.kind == "decimal":
        rounding = rounding_of(target)
    span = _rounded(exact, rounding)
    most = span
    if isinstance(span.low, float) or isinstance(span.high, float):
        # Where no limit is known, those of the operands' types determine what can overflow.
        most = _rounded(operation(*map(spans.scaled, map(limited_span, operands), factors)), rounding)
    null = null or most.low < target.least or most.high > target.greatest
    return interval(target, span.low, span.high, lower_open=span.low_open, upper_open=span.high_open, null=null)


def _rounded(span: Span, rounding: Callable[[Real], Real] | None) -> Span:
    if rounding is None:
        return span
    low, high = (end if isinstance(end, float) else rounding(end) for end in (span.low, span.high))
    return Span(low, False, high, False)


def widened(span: Span, data_type: Type) -> Span:
    """Return every number that rounds to a value in a span."""
    if span.is_empty:
        return span
    if data_type.kind == "float":
        low = next_float(float_below(span.low, data_type.bits), -1, data_type.bits)
        high = next_float(float_above(span.high, data_type.bits), 1, data_type.bits)
        return Span(exact(low), False, exact(high), False)
    half = Fraction(data_type.step) / 2
    return Span(span.low - half, False, span.high + half, False)


def can_be_infinite(one: Interval) -> bool:
    """Return whether an expression can be an infinite float."""
    return _can_be(one, math.inf) or _can_be(one, -math.inf)


def _can_be(one: Interval, value: float) -> bool:
    return one.type.kind == "float" and contains(one, value)


def makes_nan(operator: ArithmeticOperator, left: Interval, right: Interval) -> bool:
    """Return whether an operation on two numbers can result in NaN."""
    if operator in ("+", "-"):
        opposite = -math.inf if operator == "+" else math.inf
        return (_can_be(left, math.inf) and _can_be(right, opposite)) or (
            _can_be(left, -math.inf) and _can_be(right, -opposite)
        )
    if operator == "*":
        return (can_be_infinite(left) and _can_be(right, 0.0)) or (can_be_infinite(right) and _can_be(left, 0.0))
    return can_be_infinite(left) and can_be_infinite(right)
