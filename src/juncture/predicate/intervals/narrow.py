"""Narrowing of operands by a result: the inverse of each operation, on intervals.

For ``z = x + y`` an operand ``x`` lies in ``Z - Y``, and so on for the other operations. Each rule returns operands
that are narrower or unchanged, and never excludes a value that could have led to the result. Where an operation rounds,
the result is first widened to all numbers that round to it. Source of the rules: M. O. Kabak, Analog Circuit Start-Up
Behavior Analysis: An Interval Arithmetic Based Approach, chapter 4, 2015.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from juncture.predicate.intervals import functions, spans
from juncture.predicate.intervals import relate as logic
from juncture.predicate.intervals.arithmetic import can_be_infinite, makes_nan, widened
from juncture.predicate.intervals.interval import (
    FALSE,
    TRUE,
    Interval,
    intersect,
    nothing,
    truth,
    union,
    unlimited,
    with_flags,
    within,
)
from juncture.predicate.intervals.relate import narrow_comparison, narrow_equal_or_null, narrow_to
from juncture.predicate.intervals.spans import EVERYTHING, Span
from juncture.predicate.language import nodes
from juncture.predicate.language.nodes import Node
from juncture.predicate.language.types import Type, scale_between

Operands = tuple[Interval, ...]


def narrow(node: Node, result: Interval, operands: Operands) -> Operands:
    """Return the operands of a node, without values that cannot lead to its result."""
    match node:
        case nodes.Arithmetic():
            return _arithmetic(node, result, operands)
        case nodes.Call(function="-" | "abs"):
            return _sign(node, result, operands)
        case nodes.Call(function="least" | "greatest"):
            return _extreme(node, result, operands)
        case nodes.Call():
            return functions.narrow(node, result, operands)
        case nodes.Cast():
            return _cast(node, result, operands)
        case nodes.Compare():
            return _compare(node, result, operands)
        case nodes.In(options=options):
            is_sure = not (result.may_be_null or result.may_be_false)
            return (narrow_to(options, operands[0]),) if is_sure else operands
        case nodes.IsNull():
            return (_is_null(result, operands[0]),)
        case nodes.Not():
            return (intersect(operands[0], logic.negation(result)),)
        case nodes.And():
            return _joined(result, operands, neutral=TRUE)
        case nodes.Or():
            return _joined(result, operands, neutral=FALSE)
    return operands


def _arithmetic(node: nodes.Arithmetic, result: Interval, operands: Operands) -> Operands:
    if result.may_be_null:
        return operands
    x, y = (with_flags(operand, null=False) for operand in operands)
    if not result.may_be_nan:
        x, y = with_flags(x, nan=False), with_flags(y, nan=False)
    elif makes_nan(node.operator, x, y):
        return x, y
    z = widened(result.span, node.type) if rounds(node) else result.span
    if node.operator == "*" and node.left == node.right:
        root = spans.root(z)
        return (_within(x, () if root.is_empty else (spans.negate(root), root), 1),) * 2
    if node.operator in ("*", "/") and can_be_infinite(result) and (can_be_infinite(x) or can_be_infinite(y)):
        return x, y
    scale_x, scale_y = scale_between(x.type, node.type), scale_between(y.type, node.type)
    from_x, from_y = _inverse(node.operator, z, spans.scaled(x.span, scale_x), spans.scaled(y.span, scale_y))
    # If the other operand makes the result NaN, this one is not limited.
    new_x = x if result.may_be_nan and y.may_be_nan else _within(x, from_x, scale_x)
    new_y = y if result.may_be_nan and x.may_be_nan else _within(y, from_y, scale_y)
    return new_x, new_y


def rounds(node: nodes.Arithmetic) -> bool:
    """Return whether the result of an operation can differ from the exact one: floats, and decimals short of digits."""
    if node.type.kind != "decimal":
        return node.type.kind == "float"
    left, right = node.left.type, node.right.type
    if node.operator == "/":
        return True
    exact = left.scale + right.scale if node.operator == "*" else max(left.scale, right.scale)
    return node.type.scale < exact


def _inverse(operator: str, z: Span, x: Span, y: Span) -> tuple[Sequence[Span], Sequence[Span]]:
    """Return the spans of the operands, given the result and each other."""
    if z.is_empty or x.is_empty or y.is_empty:
        return (EVERYTHING,), (EVERYTHING,)
    if operator == "+":
        return (spans.add(z, spans.negate(y)),), (spans.add(z, spans.negate(x)),)
    if operator == "-":
        return (spans.add(z, y),), (spans.add(x, spans.negate(z)),)
    if operator == "*":
        return spans.divide(z, y), spans.divide(z, x)
    return (spans.multiply(z, y),), spans.divide(x, z)


def _within(operand: Interval, parts: Sequence[Span], factor: Fraction | int) -> Interval:
    """Return the values of an operand in one of several spans, whose steps are finer than its own by a factor."""
    operand_span = operand.span
    result = nothing(operand.type, nan=operand.may_be_nan, null=operand.may_be_null)
    for part in parts:
        span = part if factor == 1 else Span(part.low / factor, part.low_open, part.high / factor, part.high_open)
        common = spans.intersection(operand_span, span)
        if not common.is_empty:
            result = union(result, within(common, operand))
    return result


def _sign(node: nodes.Call, result: Interval, operands: Operands) -> Operands:
    if result.may_be_null:
        return operands
    x = with_flags(operands[0], null=False, nan=operands[0].may_be_nan and result.may_be_nan)
    z = result.span
    if node.function == "abs":
        z = spans.intersection(z, Span(0, False, math.inf, False))
        return (_within(x, (spans.negate(z), z), 1),)
    return (_within(x, (spans.negate(z),), 1),)


def _extreme(node: nodes.Call, result: Interval, operands: Operands) -> Operands:
    """Exclude from each operand what lies beyond the least or greatest of all; nulls are ignored."""
    low, low_open, high, high_open = unlimited(result.type)
    if node.function == "least":
        # NaN is greater than any number.
        span = result.span if result.empty else result.span._replace(high=high, high_open=high_open)
        beyond = replace(result, span=span, may_be_nan=True, may_be_null=True)
    elif result.may_be_nan:
        return operands
    else:
        span = result.span if result.empty else result.span._replace(low=low, low_open=low_open)
        beyond = replace(result, span=span, may_be_null=True)
    return tuple(intersect(operand, beyond) for operand in operands)


def _cast(node: nodes.Cast, result: Interval, operands: Operands) -> Operands:
    if result.may_be_null:
        return operands
    source, target = node.operand.type, node.type
    x = with_flags(operands[0], null=False)
    if not (source.has_arithmetic and target.has_arithmetic):
        return (x,)
    if target.kind == "boolean":
        return (x if result.may_be_true else _within(with_flags(x, nan=False), (Span(0, False, 0, False),), 1),)
    x = with_flags(x, nan=x.may_be_nan and result.may_be_nan)
    if result.empty:
        return (_within(x, (), 1),)
    return (_within(x, (_before_cast(result.span, source, target),), scale_between(source, target)),)


def _before_cast(z: Span, source: Type, target: Type) -> Span:
    """Return the numbers that a cast can convert to results, in the steps of its type."""
    if target.kind == "float":
        exact = source.kind == "float" and source.bits <= target.bits
        return z if exact else widened(z, target)
    if target.kind == "integer":
        low = Span(z.low, False, 0, False) if z.low > 0 else Span(z.low - 1, True, 0, False)
        high = Span(0, False, z.high, False) if z.high < 0 else Span(0, False, z.high + 1, True)
        return Span(low.low, low.low_open, high.high, high.high_open)
    if target.kind == "decimal":
        z = widened(z, target)
        return widened(z, source) if source.kind == "float" else z
    # Times are rounded down to a step of their new type.
    return Span(z.low, z.low_open, z.high + 1, True)


def _compare(node: nodes.Compare, result: Interval, operands: Operands) -> Operands:
    left, right = operands
    if node.operator == "<=>":
        return narrow_equal_or_null(left, right) if not result.may_be_false else operands
    if result.may_be_null:
        return operands
    left, right = with_flags(left, null=False), with_flags(right, null=False)
    if result.may_be_true and result.may_be_false:
        return left, right
    operator = node.operator if result.may_be_true else logic.OPPOSITE[node.operator]
    return narrow_comparison(operator, left, right)


def _is_null(result: Interval, operand: Interval) -> Interval:
    if not result.may_be_false:
        return nothing(operand.type, null=operand.may_be_null)
    return operand if result.may_be_true else with_flags(operand, null=False)


def _joined(result: Interval, operands: Operands, *, neutral: Interval) -> Operands:
    """Narrow the operands of AND, whose neutral value is true, or of OR, whose neutral value is false.

    If the whole is neutral, so is every operand. If it cannot be, and all operands but one surely are, the one is not.
    If a single operand can determine a whole that is determined, it does.
    """

    def is_neutral(one: Interval) -> bool:
        return one.is_point and one.lower == neutral.lower

    def can_be(one: Interval, value: Interval) -> bool:
        return one.may_be_true if value is TRUE else one.may_be_false

    if is_neutral(result):
        return tuple(intersect(operand, neutral) for operand in operands)
    if can_be(result, neutral):
        return operands
    allowed = truth(true=result.may_be_true, false=result.may_be_false, null=result.may_be_null)
    narrowed = [index for index, operand in enumerate(operands) if not is_neutral(operand)]
    if len(narrowed) != 1 and not result.may_be_null:
        allowed = FALSE if neutral is TRUE else TRUE
        narrowed = [index for index, operand in enumerate(operands) if can_be(operand, allowed)]
    if len(narrowed) != 1:
        return operands
    [index] = narrowed
    return (*operands[:index], intersect(operands[index], allowed), *operands[index + 1 :])
