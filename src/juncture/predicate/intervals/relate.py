"""Comparisons of intervals and SQL's three-valued logic, and the operands that a comparison or an IN allows.

Floats compare as in Spark: NaN equals NaN and is greater than any other number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

from juncture.predicate.intervals.interval import (
    Interval,
    finer_factor,
    intersect,
    interval,
    limited_span,
    nothing,
    truth,
    within,
)
from juncture.predicate.intervals.spans import Span, intersection, is_unlimited, scaled
from juncture.predicate.language.nodes import CompareOperator, Options
from juncture.predicate.language.types import from_steps, in_steps

OPPOSITE: dict[CompareOperator, CompareOperator] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The negation of each comparison. It is exact, since NaN is ordered too."""

_FLIPPED: dict[CompareOperator, CompareOperator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def flipped(operator: CompareOperator) -> CompareOperator:
    """Return the comparison that is equivalent with swapped operands."""
    return _FLIPPED.get(operator, operator)


def compare(operator: CompareOperator, left: Interval, right: Interval) -> Interval:
    """Return what a comparison can be."""
    possible = orders(left, right)
    wanted = "=" if operator == "<=>" else operator
    true = any(order in wanted for order in possible)
    false = any(order not in wanted for order in possible)
    if operator != "<=>":
        return truth(true=true, false=false, null=left.may_be_null or right.may_be_null)
    one_null = (left.may_be_null and right.may_be_value) or (right.may_be_null and left.may_be_value)
    return truth(true=true or (left.may_be_null and right.may_be_null), false=false or one_null)


def orders(left: Interval, right: Interval) -> set[str]:
    """Return which of ``<``, ``=`` and ``>`` two values can stand in, nulls aside."""
    possible_orders = set()
    if not (left.empty or right.empty):
        possible_orders |= _orders_of_ranges(left, right)
    if right.may_be_nan and not left.empty:
        possible_orders.add("<")
    if left.may_be_nan and not right.empty:
        possible_orders.add(">")
    if left.may_be_nan and right.may_be_nan:
        possible_orders.add("=")
    return possible_orders


def _orders_of_ranges(left: Interval, right: Interval) -> set[str]:
    one = scaled(limited_span(left), finer_factor(left.type, right.type))
    other = scaled(limited_span(right), finer_factor(right.type, left.type))
    possible_orders = {"<"} if one.low < other.high else set()
    possible_orders |= {">"} if other.low < one.high else set()
    return possible_orders | (set() if intersection(one, other).is_empty else {"="})


def is_null(operand: Interval) -> Interval:
    """Return whether an operand can be null, and can be something else."""
    return truth(true=operand.may_be_null, false=operand.may_be_value)


def negation(operand: Interval) -> Interval:
    """Return the opposite of a boolean; null stays null."""
    return truth(true=operand.may_be_false, false=operand.may_be_true, null=operand.may_be_null)


def conjunction(operands: Sequence[Interval]) -> Interval:
    """Return whether several booleans can be true together."""
    return reduce(_both, operands)


def disjunction(operands: Sequence[Interval]) -> Interval:
    """Return whether any of several booleans can be true."""
    return negation(reduce(_both, [negation(operand) for operand in operands]))


def _both(one: Interval, other: Interval) -> Interval:
    if not (one.feasible and other.feasible):
        return nothing(one.type)
    return truth(
        true=one.may_be_true and other.may_be_true,
        false=one.may_be_false or other.may_be_false,
        null=(one.may_be_null and (other.may_be_null or other.may_be_true)) or (other.may_be_null and one.may_be_true),
    )


Pair = tuple[Interval, Interval]


def narrow_comparison(operator: CompareOperator, left: Interval, right: Interval) -> Pair:
    """Return two non-null operands, without values for which a comparison cannot be true.

    NaN equals NaN and is greater than any other float: if the greater side may be NaN, it limits nothing.
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
    if left.empty or right.empty:
        return nothing(left.type, nan=nan, null=left.may_be_null), nothing(right.type, nan=nan, null=right.may_be_null)
    common = intersection(_common_span(left, right), _common_span(right, left))
    return _values_of(common, left, right), _values_of(common, right, left)


def _ordered(left: Interval, right: Interval, *, strict: bool) -> Pair:
    """Narrow by ``left < right`` (strict) or ``left <= right``."""
    left = replace(left, may_be_nan=left.may_be_nan and right.may_be_nan and not strict)
    one, other = _common_span(left, right), _common_span(right, left)
    new_left, new_right = left, right
    if right.empty and not right.may_be_nan:
        new_left = nothing(left.type)
    elif not (left.empty or right.may_be_nan):
        below = Span(one.low, one.low_open, other.high, strict and not is_unlimited(other.high))
        new_left = _values_of(intersection(one, below), left, right)
    if left.empty:
        new_right = nothing(right.type, nan=right.may_be_nan and left.may_be_nan)
    elif not right.empty:
        above = Span(one.low, strict and not is_unlimited(one.low), other.high, other.high_open)
        new_right = _values_of(intersection(other, above), right, left)
    return new_left, new_right


def _without(one: Interval, other: Interval) -> Interval:
    """Return the values of one side, without the other side's value if it has only one."""
    if other.empty:
        # The other side can only be NaN.
        return replace(one, may_be_nan=False)
    if not other.is_point or one.empty or not one.type.has_arithmetic:
        return one
    span, value = _common_span(one, other), _common_span(other, one).low
    low_open, high_open = span.low_open or span.low == value, span.high_open or span.high == value
    return _values_of(Span(span.low, low_open, span.high, high_open), one, other)


def _common_span(one: Interval, other: Interval) -> Span:
    """Return the values of one side in steps of the finer unit of both."""
    return scaled(one.span, finer_factor(one.type, other.type))


def _values_of(span: Span, one: Interval, other: Interval) -> Interval:
    """Return a span in steps of the finer unit as values of one side."""
    return within(scaled(span, Fraction(1, finer_factor(one.type, other.type))), one)


def among(options: Options, operand: Interval) -> Interval:
    """Return whether an operand can be one of the values, and can be another value."""
    listed = _listed(options, operand)
    is_nan = operand.may_be_nan and options.has_nan
    is_point = operand.span.low == operand.span.high
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
    below = bisect_right if operand.span.low_open else bisect_left
    above = bisect_left if operand.span.high_open else bisect_right
    first = 0 if operand.lower is None else below(values, in_steps(operand.lower, data_type))
    end = len(values) if operand.upper is None else above(values, in_steps(operand.upper, data_type))
    return [from_steps(value, data_type) for value in (values[first], values[end - 1])] if first < end else []
