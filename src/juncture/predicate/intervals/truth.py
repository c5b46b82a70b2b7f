"""Comparisons of intervals, and SQL's three-valued logic on what they can give.

Floats compare as in Spark: NaN equals NaN and is greater than any other number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from juncture.predicate.intervals.interval import (
    Bound,
    Interval,
    finer_factor,
    intersect,
    is_less,
    limited_span,
    nothing,
    truth,
)
from juncture.predicate.intervals.spans import meet, scaled
from juncture.predicate.language.nodes import CompareOperator

OPPOSITE: dict[CompareOperator, CompareOperator] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The negation of each comparison. It is exact, since NaN is ordered too."""

_FLIPPED: dict[CompareOperator, CompareOperator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def flipped(operator: CompareOperator) -> CompareOperator:
    """Return the comparison that is equivalent with swapped operands."""
    return _FLIPPED.get(operator, operator)


def compare(operator: CompareOperator, left: Interval, right: Interval) -> Interval:
    """Return what a comparison can be.

    Examples
    --------
    >>> from juncture.predicate.intervals.interval import interval
    >>> from juncture.predicate.language.types import BIGINT
    >>> print(compare(">", interval(BIGINT, 1), interval(BIGINT, 3, 6)))
    {false, true}
    >>> print(compare(">", interval(BIGINT, 7), interval(BIGINT, 3, 6)))
    {true}
    """
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
    if left.type.has_arithmetic and right.type.has_arithmetic:
        one = scaled(limited_span(left), finer_factor(left.type, right.type))
        other = scaled(limited_span(right), finer_factor(right.type, left.type))
        possible_orders = {"<"} if one.low < other.high else set()
        possible_orders |= {">"} if other.low < one.high else set()
        return possible_orders | (set() if meet(one, other).is_empty else {"="})
    possible_orders = {"<"} if _may_be_below(left.lower, right.upper) else set()
    possible_orders |= {">"} if _may_be_below(right.lower, left.upper) else set()
    return possible_orders | (set() if intersect(replace(left, may_be_null=False), right).empty else {"="})


def _may_be_below(low: Bound, high: Bound) -> bool:
    return low is None or high is None or is_less(low, high)


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
