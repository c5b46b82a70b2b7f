"""Functions on intervals: their possible results, and the operands that a result allows.

Monotonic functions map intervals to intervals in both directions. Others can return anything, and allow all operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce

from juncture.columnar.types import DAY_S
from juncture.predicate.intervals.arithmetic import can_be_infinite, computed, extreme, unary, widened
from juncture.predicate.intervals.interval import (
    Interval,
    everything,
    intersect,
    interval,
    nothing,
    union,
    with_flags,
    within,
)
from juncture.predicate.intervals.spans import Span
from juncture.predicate.language.functions import pattern_parts
from juncture.predicate.language.literals import UNIT_S
from juncture.predicate.language.nodes import Call, Literal
from juncture.predicate.language.types import TIME_STEPS, Real, Value, half_up

Operands = tuple[Interval, ...]

_LONGEST_S = {**UNIT_S, "year": 366 * DAY_S, "quarter": 92 * DAY_S, "month": 31 * DAY_S}
"""The greatest length of each unit of time, in seconds."""
_LAST = chr(0x10FFFF)


def value(node: Call, operands: Operands) -> Interval:
    """Return all values that a function can return."""
    match node.function:
        case "-" | "abs" as sign:
            return unary(sign, operands[0], node.type)
        case "least" | "greatest" as function:
            return extreme(function, operands, node.type)
        case "floor" | "ceil":
            return _rounded(node, operands[0], math.floor if node.function == "floor" else math.ceil)
        case "round" if node.type.kind == "decimal":
            return _rounded(node, operands[0], lambda number: half_up(number, node.type.step))
        case "round":
            return _moved(node, operands[0], _step(node), _step(node))
        case "date_trunc":
            longest = _length(node)
            return _moved(node, with_flags(operands[0], null=True), longest, 0)
        case "div" if (divisor := _positive(node)) is not None:
            return _rounded(node, operands[0], partial(_quotient, divisor=divisor))
        case "%" if (divisor := _positive(node)) is not None and node.type.kind == "integer":
            return _remainder(node, operands[0], divisor)
        case "coalesce":
            return _first(operands)
        case "case":
            return reduce(union, [*operands[1:-1:2], operands[-1]])
        case "like" | "startswith" | "upper" | "lower" | "||":
            return everything(node.type, null=any(operand.may_be_null for operand in operands))
    return everything(node.type)


def _rounded(node: Call, operand: Interval, rounding: Callable[[Real], Real]) -> Interval:
    """Return the results of a monotonic function that rounds numbers onto steps."""
    lacks = operand.may_be_null or operand.may_be_nan or can_be_infinite(operand)
    return computed(lambda span: span, (operand,), node.type, nan=False, null=lacks, rounding=rounding)


def _moved(node: Call, operand: Interval, down: Real, up: Real) -> Interval:
    """Return the results of a function that moves a value at most ``down`` or ``up``."""
    if operand.empty:
        return replace(operand, type=node.type)
    span = operand.span
    wide = Span(span.low - down, False, span.high + up, False)
    if node.type.kind == "float":
        wide = widened(wide, node.type)
    return within(wide, replace(operand, type=node.type))


def _quotient(number: Real, divisor: int) -> Real:
    return math.trunc(number / Fraction(divisor))


def _remainder(node: Call, operand: Interval, divisor: int) -> Interval:
    if operand.empty:
        return nothing(node.type, null=operand.may_be_null)
    span = operand.span
    low, high = (0 if span.low >= 0 else 1 - divisor), (0 if span.high <= 0 else divisor - 1)
    return interval(node.type, max(low, min(span.low, 0)), min(high, max(span.high, 0)), null=operand.may_be_null)


def _first(operands: Operands) -> Interval:
    """Return the possible values of the first operand that is not null."""
    first = operands[0]
    for operand in operands[1:]:
        if not first.may_be_null:
            return first
        first = with_flags(union(with_flags(first, null=False), operand), null=operand.may_be_null)
    return first


def narrow(node: Call, result: Interval, operands: Operands) -> Operands:
    """Return the operands of a function, without values that cannot lead to its result."""
    if node.function == "coalesce":
        return _narrow_first(result, operands)
    if result.may_be_null or node.function == "case":
        return operands
    # All others return null for a null.
    operands = tuple(with_flags(operand, null=False) for operand in operands)
    first = operands[0]
    match node.function:
        case "floor":
            return (_back(first, result, 0, 1, upper_open=True),)
        case "ceil":
            return (_back(first, result, 1, 0, lower_open=True),)
        case "round":
            return (_back(first, result, _step(node), _step(node)),)
        case "date_trunc":
            return (_back(first, result, 0, _length(node)),)
        case "div" if (divisor := _positive(node)) is not None:
            return (_multiplied(first, result, divisor), operands[1])
        case "startswith" | "like" if result.may_be_true and not result.may_be_false:
            return (_with_prefix(first, _prefix(node, operands)), *operands[1:])
    return operands


def _back(
    operand: Interval, result: Interval, down: Real, up: Real, *, lower_open: bool = False, upper_open: bool = False
) -> Interval:
    """Return the values that a function moves into its result by at most ``down`` or ``up``."""
    operand = with_flags(operand, null=False, nan=operand.may_be_nan and result.may_be_nan)
    if result.empty:
        return nothing(operand.type, nan=operand.may_be_nan)
    span = result.span
    preimage = Span(span.low - down, lower_open, span.high + up, upper_open)
    if operand.type.kind == "float":
        preimage = widened(preimage, operand.type)
    return intersect(operand, within(preimage, operand))


def _multiplied(operand: Interval, result: Interval, divisor: int) -> Interval:
    operand = with_flags(operand, null=False)
    if result.empty:
        return nothing(operand.type)
    span = result.span
    low = span.low * divisor if span.low > 0 else (span.low - 1) * divisor + 1
    high = span.high * divisor if span.high < 0 else (span.high + 1) * divisor - 1
    return intersect(operand, within(Span(low, False, high, False), operand))


def _narrow_first(result: Interval, operands: Operands) -> Operands:
    """Narrow operands whose first non-null one is the result."""
    narrowed = list(operands)
    for index, operand in enumerate(operands):
        others = operands[index + 1 :]
        may_pass = operand.may_be_null and (any(intersect(each, result).may_be_value for each in others))
        if not operand.may_be_null or not result.may_be_null:
            # Its non-null value is the result.
            narrowed[index] = with_flags(
                intersect(with_flags(operand, null=False), with_flags(result, null=False)),
                null=may_pass or (operand.may_be_null and result.may_be_null),
            )
        if operand.may_be_value or not operand.may_be_null:
            break
    return tuple(narrowed)


def _prefix(node: Call, operands: Operands) -> str:
    """Return the prefix of all texts that match a pattern."""
    if node.function == "startswith":
        start = operands[1].lower
        return start if isinstance(start, str) and operands[1].is_point else ""
    prefix = ""
    for part in pattern_parts(str(node.detail)):
        if part in ("any", "one"):
            break
        prefix += part
    return prefix


def _with_prefix(operand: Interval, prefix: str) -> Interval:
    """Return the texts with a prefix: from the prefix to before the next text of its length."""
    operand = with_flags(operand, null=False)
    if not prefix:
        return operand
    stem = prefix.rstrip(_LAST)
    after = stem[:-1] + chr(_next(ord(stem[-1]))) if stem else None
    return intersect(operand, interval(operand.type, prefix, after, upper_open=after is not None))


def _next(code: int) -> int:
    """Return the next character, skipping surrogates."""
    return 0xE000 if code + 1 == 0xD800 else code + 1


def _positive(node: Call) -> int | None:
    """Return the divisor if it is a positive constant."""
    last = node.operands[-1]
    divisor: Value = last.value if isinstance(last, Literal) else None
    return divisor if isinstance(divisor, int) and not isinstance(divisor, bool) and divisor > 0 else None


def _step(node: Call) -> Fraction:
    """Return an upper bound of the distance between a value and its rounded value."""
    return Fraction(1, 10 ** int(node.detail or 0))


def _length(node: Call) -> Real:
    """Return the greatest length of a unit of time, in steps of the type."""
    return _LONGEST_S[str(node.detail)] * TIME_STEPS[node.type.unit]
