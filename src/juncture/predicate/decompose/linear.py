"""Comparisons of two tables, rearranged: a right expression against a left one plus a constant.

Terms are moved across a comparison only where that changes no result: with integers, unrounded decimals, dates,
timestamps and durations. Only overflow can differ, since it makes a result null. It is ruled out by the bounds of the
columns, or guarded by a filter on one table; otherwise the comparison is marked for a recheck.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from juncture.columnar.types import DAY_S
from juncture.errors import SchemaError
from juncture.predicate.intervals.graph import possible
from juncture.predicate.intervals.interval import Interval, everything
from juncture.predicate.intervals.narrow import rounds
from juncture.predicate.intervals.relate import flipped
from juncture.predicate.language import build, conversions, nodes
from juncture.predicate.language.nodes import Column, Compare, CompareOperator, Node, columns, sides
from juncture.predicate.language.types import TIME_STEPS, Type

Number = int | Fraction
ColumnBounds = Mapping[Column, Interval]


@dataclass(frozen=True, slots=True)
class LinearComparison:
    """A comparison of the form ``right OPERATOR left + offset``, where each expression reads one table."""

    left: Node
    right: Node
    operator: CompareOperator
    offset: Number = 0  # in seconds for times; zero for types without exact arithmetic
    guards: tuple[Node, ...] = ()  # expressions of one table that must not be null, since they could overflow
    exact: bool = True  # otherwise the comparison implies this one, and needs a recheck


def may_overflow(node: Node, bounds: ColumnBounds) -> bool:
    """Return whether an expression can be null where none of its columns is."""
    if isinstance(node, Column):
        return False
    intervals = {}
    for column in columns(node):
        one = bounds.get(column) or everything(column.type, null=False)
        intervals[column] = replace(one, may_be_null=False) if one.may_be_null else one
    return possible(node, intervals).may_be_null


def separate(node: Compare, bounds: ColumnBounds) -> LinearComparison | None:
    """Return a comparison of two tables with each table on its own side, or None. ``bounds`` rule out overflows."""
    both_sides = [sides(node.left), sides(node.right)]
    if both_sides == [{"left"}, {"right"}]:
        return _peeled(node.left, node.right, flipped(node.operator), bounds)
    if both_sides == [{"right"}, {"left"}]:
        return _peeled(node.right, node.left, node.operator, bounds)
    if node.operator in ("<=>", "<>"):
        return None
    if "float" in (node.left.type.kind, node.right.type.kind):
        return _float_difference(node)
    return _rearranged(node, bounds)


def _peeled(left: Node, right: Node, operator: CompareOperator, bounds: ColumnBounds) -> LinearComparison:
    """Return a comparison of separate tables; of an inequality, with all constants in the offset."""
    if operator in ("=", "<=>", "<>"):
        return LinearComparison(left, right, operator)
    (bare_left, add_left), (bare_right, add_right) = _peel(left), _peel(right)
    pairs = ((left, bare_left), (right, bare_right))
    guards = tuple(full for full, bare in pairs if full != bare and may_overflow(full, bounds))
    return LinearComparison(bare_left, bare_right, operator, add_left - add_right, guards)


def _peel(node: Node) -> tuple[Node, Number]:
    """Return an expression without its added constants, and their sum."""
    added: Number = 0
    while isinstance(node, nodes.Arithmetic) and node.operator in ("+", "-") and _is_exact(node):
        left, right = _constant(node.left, node.type), _constant(node.right, node.type)
        if right is not None:
            added, node = added + (right if node.operator == "+" else -right), node.left
        elif left is not None and node.operator == "+":
            added, node = added + left, node.right
        else:
            break
    return node, added


def _is_exact(node: nodes.Arithmetic) -> bool:
    """Return whether an operation never rounds."""
    return node.type.is_discrete and not rounds(node)


def _constant(node: Node, result: Type) -> Number | None:
    """Return the value of a constant expression; in seconds beside dates and times."""
    if sides(node):
        return None
    value = possible(node, {})
    if not (value.is_point and value.type.is_discrete):
        return None
    number: Number | float = value.span.low
    assert not isinstance(number, float)
    return number * _seconds_per_step(value.type, result)


def _seconds_per_step(data_type: Type, result: Type) -> Number:
    """Return the natural size of a step: one for numbers, but whole days where a number moves a date."""
    if data_type.unit:
        return Fraction(1, TIME_STEPS[data_type.unit])
    return DAY_S if data_type.kind == "date" or result.kind == "date" else 1


_Factored = tuple[Number, Node]  # an expression and its factor in a sum


def _difference(left: Node, right: Node) -> tuple[list[_Factored], Number] | None:
    """Return a difference as a sum of expressions of one table each, and a constant; None if it is none."""
    terms: list[_Factored] = []
    constant: Number = 0
    parts: list[_Factored] = [(-1, right), (1, left)]
    while parts:
        factor, part = parts.pop()
        if len(sides(part)) == 1:
            bare, added = _peel(part)
            terms.append((factor, bare))
        elif not sides(part):
            value = _constant(part, part.type)
            if value is None:
                return None
            added = value
        else:
            summands = _summands(part)
            if summands is None:
                return None
            operands, added = summands
            parts.extend((factor * times, summand) for times, summand in reversed(operands))
        constant += factor * added
    return terms, constant


def _summands(node: Node) -> tuple[list[_Factored], Number] | None:
    """Return the summands of an operation and a constant, or None."""
    if isinstance(node, nodes.Call) and node.function == "-":
        return [(-1, node.operands[0])], 0
    if isinstance(node, nodes.Cast) and node.type.kind == "decimal" and node.operand.type.kind == "integer":
        return ([(1, node.operand)], 0) if node.implicit else None
    if not (isinstance(node, nodes.Arithmetic) and _is_exact(node)):
        return None
    if node.operator == "*":
        left, right = _constant(node.left, node.left.type), _constant(node.right, node.right.type)
        factor = left if left is not None else right
        return None if factor is None else ([(factor, node.right if left is not None else node.left)], 0)
    sign = 1 if node.operator == "+" else -1
    if "date" in (node.left.type.kind, node.right.type.kind) and node.type.kind == "date":
        days = _constant(node.right, node.type)
        return None if days is None else ([(1, node.left)], sign * days)
    return [(1, node.left), (sign, node.right)], 0


def _rearranged(node: Compare, bounds: ColumnBounds) -> LinearComparison | None:
    """Return a comparison with its terms moved so that each table is on its own side."""
    difference = _difference(node.left, node.right)
    if difference is None:
        return None
    terms, constant = difference
    lefts = [(-factor, part) for factor, part in terms if sides(part) == {"left"}]
    rights = [(factor, part) for factor, part in terms if sides(part) == {"right"}]
    constant, operator = -constant, node.operator
    if sum(factor > 0 for factor, _ in rights) * 2 < len(rights):
        lefts = [(-factor, part) for factor, part in lefts]
        rights = [(-factor, part) for factor, part in rights]
        constant, operator = -constant, flipped(operator)
    left, right = _sum(lefts), _sum(rights)
    if left is None or right is None or sides(left) != {"left"} or sides(right) != {"right"}:
        return None
    built = [part for part in (left, right) if part not in {term for _, term in terms}]
    if any(may_overflow(part, bounds) for part in built):
        # A null would lose matching rows.
        return None
    exact = not (may_overflow(node.left, bounds) or may_overflow(node.right, bounds))
    return LinearComparison(left, right, operator, constant, (), exact)


def _sum(terms: list[_Factored]) -> Node | None:
    """Return the expression of a sum, a positive term first."""
    result: Node | None = None
    try:
        for factor, part in sorted(terms, key=lambda term: term[0] <= 0):
            if Fraction(factor).denominator != 1:
                return None
            times = abs(int(factor))
            scaled = part if times == 1 else build.arithmetic("*", part, conversions.integer_literal(times))
            if result is None:
                result = scaled if factor > 0 else build.negate(scaled)
            else:
                result = build.arithmetic("+" if factor > 0 else "-", result, scaled)
    except SchemaError:
        return None
    if isinstance(result, nodes.Arithmetic) and not _is_exact(result):
        return None
    return result


def _float_difference(node: Compare) -> LinearComparison | None:
    """Return the bound implied by a float difference below a constant, widened by the rounding of the difference.

    Only if the difference must be less, since NaN, which is greater than any number, then never matches.
    """
    difference, limit, operator = node.left, node.right, node.operator
    if not isinstance(limit, nodes.Literal):
        difference, limit, operator = node.right, node.left, flipped(operator)
    if not (isinstance(difference, nodes.Arithmetic) and difference.operator == "-"):
        return None
    if difference.type.bits != 64 or operator not in ("<", "<=") or not isinstance(limit, nodes.Literal):
        return None
    operand_sides, value = (sides(difference.left), sides(difference.right)), limit.value
    if (
        not isinstance(value, float)
        or not math.isfinite(value)
        or len(operand_sides[0]) != 1
        or len(operand_sides[1]) != 1
    ):
        return None
    widest = Fraction(math.nextafter(value, math.inf)) if value < 1e308 else None
    if widest is None or operand_sides[0] == operand_sides[1]:
        return None
    if operand_sides[0] == {"left"}:
        return LinearComparison(difference.left, difference.right, ">=", -widest, (), exact=False)
    return LinearComparison(difference.right, difference.left, "<=", widest, (), exact=False)
