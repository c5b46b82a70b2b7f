"""Predicates evaluated row by row in plain Python: slow, short, obviously right."""

from __future__ import annotations

import math
from decimal import localcontext
from fractions import Fraction

import numpy as np

from juncture.predicate.language import nodes
from juncture.predicate.language.nodes import Node
from juncture.predicate.language.types import TIME_STEPS, Type, Value, from_steps

Row = dict[nodes.Column, Value]


def evaluate(node: Node, row: Row) -> Value:
    match node:
        case nodes.Column():
            return row[node]
        case nodes.Literal(value=value):
            return value
        case nodes.Arithmetic():
            return arithmetic(node, evaluate(node.left, row), evaluate(node.right, row))
        case nodes.Sign(operator=operator, operand=operand):
            value = evaluate(operand, row)
            if value is None:
                return None
            return fit(-value if operator == "-" else abs(value), node.type)
        case nodes.Extreme(function=function, operands=operands):
            values = [value for value in (evaluate(each, row) for each in operands) if value is not None]
            pick = min if function == "least" else max
            return pick(values, key=rank) if values else None
        case nodes.Cast(operand=operand):
            return cast(evaluate(operand, row), operand.type, node.type)
        case nodes.Compare():
            return compare(node, evaluate(node.left, row), evaluate(node.right, row))
        case nodes.In(operand=operand, options=options):
            value = evaluate(operand, row)
            found = [
                compare_values("=", value, operand.type, from_steps(option, operand.type), operand.type)
                for option in options.values
            ]
            return True if True in found else None if None in found else False
        case nodes.IsNull(operand=operand):
            return evaluate(operand, row) is None
        case nodes.Not(operand=operand):
            value = evaluate(operand, row)
            return None if value is None else not value
        case nodes.And(operands=operands):
            values = [evaluate(each, row) for each in operands]
            return False if False in values else None if None in values else True
        case nodes.Or(operands=operands):
            values = [evaluate(each, row) for each in operands]
            return True if True in values else None if None in values else False
    raise AssertionError(node)


def rank(value: Value) -> tuple[bool, Value]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0.0 if is_nan else value)


def fit(value: Value, data_type: Type) -> Value:
    """A whole number or decimal that its type cannot hold is null."""
    if data_type.is_discrete and not data_type.least <= value <= data_type.greatest:
        return None
    return value


def half_up(value: Fraction, scale: int) -> Fraction:
    with localcontext(prec=2_000, Emax=10_000, Emin=-10_000):
        scaled = abs(value) * 10**scale
        whole, rest = divmod(scaled, 1)
        rounded = int(whole) + (rest >= Fraction(1, 2))
    return Fraction(rounded if value >= 0 else -rounded, 10**scale)


def steps(value: int, source: Type, target: Type) -> int | Fraction:
    if source.kind not in ("date", "timestamp", "duration") or target.kind not in ("date", "timestamp", "duration"):
        return value
    sizes = [1 if kind.kind == "date" else 86_400 * TIME_STEPS[kind.unit] for kind in (source, target)]
    return Fraction(value * sizes[1], sizes[0])


def arithmetic(node: nodes.Arithmetic, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    if node.operator == "/" and right == 0:
        return None
    if node.type.kind == "float":
        width = np.float32 if node.type.bits == 32 else np.float64
        a, b = width(left), width(right)
        with np.errstate(all="ignore"):
            return float({"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else width(0)}[node.operator])
    a = steps(left, node.left.type, node.type)
    b = steps(right, node.right.type, node.type)
    exact = Fraction(a) / b if node.operator == "/" else {"+": a + b, "-": a - b, "*": a * b}[node.operator]
    if node.type.kind == "decimal":
        return fit(half_up(Fraction(exact), node.type.scale), node.type)
    assert exact == int(exact)
    return fit(int(exact), node.type)


def cast(value: Value, source: Type, target: Type) -> Value:
    if value is None or source == target:
        return value
    if target.kind == "boolean":
        return value != 0
    if target.kind == "float":
        try:
            wide = float(value)
        except OverflowError:
            wide = math.inf if value > 0 else -math.inf
        if target.bits == 64:
            return wide
        with np.errstate(over="ignore"):
            return float(np.float32(np.int64(value) if source.kind == "integer" else wide))
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if target.kind == "decimal":
        if isinstance(value, float):
            value = Fraction(str(np.float32(value)) if source.bits == 32 else repr(value))
        return fit(half_up(Fraction(value), target.scale), target)
    if target.kind == "integer":
        return fit(math.trunc(value), target)
    return fit(math.floor(steps(value, source, target)), target)


def compare(node: nodes.Compare, left: Value, right: Value) -> Value:
    if node.operator == "<=>":
        if left is None or right is None:
            return left is None and right is None
        return compare_values("=", left, node.left.type, right, node.right.type)
    return compare_values(node.operator, left, node.left.type, right, node.right.type)


def compare_values(operator: str, left: Value, left_type: Type, right: Value, right_type: Type) -> Value:
    if left is None or right is None:
        return None
    if left_type.unit:
        left = Fraction(left, TIME_STEPS[left_type.unit])
        right = Fraction(right, TIME_STEPS[right_type.unit])
    one, other = rank(left), rank(right)
    return {
        "=": one == other,
        "<>": one != other,
        "<": one < other,
        "<=": one <= other,
        ">": one > other,
        ">=": one >= other,
    }[operator]
