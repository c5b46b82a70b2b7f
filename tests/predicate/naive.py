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
        case nodes.Call(function="-" | "abs" as sign, operands=(operand,)):
            value = evaluate(operand, row)
            if value is None:
                return None
            return fit(-value if sign == "-" else abs(value), node.type)
        case nodes.Call(function="least" | "greatest" as function, operands=operands):
            values = [value for value in (evaluate(each, row) for each in operands) if value is not None]
            pick = min if function == "least" else max
            return pick(values, key=rank) if values else None
        case nodes.Call(operands=operands):
            return call(node, [evaluate(each, row) for each in operands])
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


def call(node: nodes.Call, values: list[Value]) -> Value:
    if node.function == "coalesce":
        return next((value for value in values if value is not None), None)
    if node.function == "case":
        pairs = zip(values[:-1:2], values[1:-1:2], strict=True)
        return next((value for condition, value in pairs if condition), values[-1])
    if None in values:
        return None
    one = values[0]
    match node.function:
        case "%" | "div":
            return divided(node, one, values[1])
        case "floor" | "ceil":
            if not math.isfinite(one):
                return None
            return fit(math.floor(one) if node.function == "floor" else math.ceil(one), node.type)
        case "round":
            return rounded(one, node.detail, node.operands[0].type, node.type)
        case "like":
            return fnmatched(one, node.detail)
        case "startswith":
            return one[: len(values[1])] == values[1]
        case "upper":
            return one.upper()
        case "lower":
            return one.lower()
        case "||":
            return one + values[1]
    return truncated(one, node.detail, node.type)


def divided(node: nodes.Call, one: Value, other: Value) -> Value:
    if other == 0:
        return None
    if isinstance(one, float):
        with np.errstate(all="ignore"):
            return float(np.fmod(one, other))
    times = abs(Fraction(one) / Fraction(other)) // 1 * (1 if (one < 0) == (other < 0) else -1)
    return fit(times if node.function == "div" else one - other * times, node.type)


def rounded(value: Value, digits: int, source: Type, target: Type) -> Value:
    if target.kind == "decimal":
        return fit(half_up(value, target.scale), target)
    if not math.isfinite(value):
        return value
    near = half_up(Fraction(str(np.float32(value)) if source.bits == 32 else repr(value)), digits)
    return float(np.float32(float(near))) if source.bits == 32 else float(near)


def fnmatched(text: str, pattern: str) -> bool:
    """Whether a text is like a pattern, character by character."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(fnmatched(text[start:], pattern[1:]) for start in range(len(text) + 1))
    wanted, rest = (pattern[1], pattern[2:]) if pattern[0] == "\\" else (pattern[0], pattern[1:])
    is_any = pattern[0] == "_"
    return bool(text) and (is_any or text[0] == wanted) and fnmatched(text[1:], rest)


def truncated(steps: int, unit: str, data_type: Type) -> Value:
    in_one = TIME_STEPS[data_type.unit]
    lengths = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
    lengths |= {"millisecond": Fraction(1, 1_000), "microsecond": Fraction(1, 1_000_000)}
    if unit in lengths:
        length = lengths[unit] * in_one
        start = -259_200 * in_one if unit == "week" else 0
        return fit(int((Fraction(steps - start) / length) // 1 * length + start) if length >= 1 else steps, data_type)
    days = steps // (86_400 * in_one)
    # Days of the civil calendar, by eras of 400 years that start in March.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    year, month = era * 400 + year + (month >= 10), month + 3 if month < 10 else month - 9
    first = {"year": 1, "quarter": (month - 1) // 3 * 3 + 1, "month": month}[unit]
    shifted = year - (first <= 2)
    era, of_era = divmod(shifted, 400)
    since = (153 * (first + (-3 if first > 2 else 9)) + 2) // 5
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + since - 719_468
    return fit(days * 86_400 * in_one, data_type)


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
