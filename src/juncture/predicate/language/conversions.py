"""Conversions of nodes and literals to other types, as in Spark, folded where that is exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import tzinfo
from decimal import Decimal
from fractions import Fraction

from juncture.columnar.types import DAY_S
from juncture.errors import SchemaError
from juncture.predicate.language.literals import read_date, read_timestamp
from juncture.predicate.language.nodes import Cast, Literal, Node
from juncture.predicate.language.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    TIME_STEPS,
    ArithmeticOperator,
    Type,
    integer_decimal,
    near_float,
)

TextReader = Callable[[str, Type], Literal]


def read_text(text: str, data_type: Type, zone: tzinfo | None = None) -> Literal:
    """Return the date or timestamp that a text denotes; raise SpecError if it is none."""
    if data_type.kind == "date":
        return Literal(data_type, read_date(text))
    steps, unit = read_timestamp(text, zoned=data_type.zoned, zone=zone)
    return Literal(Type("timestamp", unit=unit, zoned=data_type.zoned), steps)


_CASTS = [{"integer", "float", "decimal", "boolean"}, {"date", "timestamp"}, {"string"}, {"duration"}]
"""Kinds of types whose values are cast to each other."""


def cast(operand: Node, target: Type, read: TextReader = read_text) -> Node:
    """Return an explicit conversion; of a literal, its value if that is exact."""
    source = operand.type
    if source == NULL:
        return Literal(target, None) if isinstance(operand, Literal) else Cast(target, operand)
    if isinstance(operand, Literal) and isinstance(operand.value, str) and target.kind in ("date", "timestamp"):
        return read(operand.value, target)
    if isinstance(operand, Literal) and isinstance(operand.value, str) and target.is_number:
        operand = _number_of(operand.value, target)
        source = operand.type
    if source != target and not any({source.kind, target.kind} <= kinds for kinds in _CASTS):
        raise SchemaError(
            f"CAST from {source} to {target} is not supported. Convert the column before the join.",
            name="JN-CAST-UNSUPPORTED",
        )
    if "timestamp" in (source.kind, target.kind) and source.zoned != target.zoned:
        raise SchemaError(
            f"CAST from {source} to {target} depends on the session's time zone. Cast to TIMESTAMP_NTZ, or convert "
            "the column before the join.",
            name="JN-CAST-UNSUPPORTED",
        )
    converted = _literal_as(operand, target) if isinstance(operand, Literal) else None
    return converted or (operand if source == target else Cast(target, operand))


def _number_of(text: str, target: Type) -> Literal:
    """Return the number that a text in a cast denotes."""
    try:
        number = Decimal(text.strip())
    except ArithmeticError:
        raise SchemaError(
            f"{text!r} is not a number, so it cannot be cast to {target}. Write a number.", name="JN-CAST-LITERAL"
        ) from None
    if number.is_finite() and target.kind != "float":
        return decimal_literal(number)
    return Literal(target if target.kind == "float" else DOUBLE, near_float(float(number), target.bits or 64))


def decimal_literal(number: Decimal) -> Literal:
    """Return a decimal literal with the digits with which it is written; raise SchemaError beyond 38."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise SchemaError(
            f"{number} has {precision} digits, but a decimal has at most 38. Write fewer digits, or a double such as "
            "1.5e40.",
            name="JN-LITERAL-DIGITS",
        )
    return Literal(Type("decimal", precision=precision, scale=scale), Fraction(number))


def typed(node: Node, target: Type) -> Node:
    """Return a node in a type if it has none: a bare NULL, or a column of nulls."""
    if node.type.kind != "null":
        return node
    return Literal(target, None) if isinstance(node, Literal) else Cast(target, node, implicit=True)


def paired_nulls(left: Node, right: Node) -> tuple[Node, Node]:
    """Return two nodes; an untyped one takes the type of the other."""
    if left.type.kind != "null" and right.type.kind != "null":
        return left, right
    target = left.type if right.type == NULL else right.type
    target = BOOLEAN if target == NULL else target
    return typed(left, target), typed(right, target)


def arithmetic_nulls(operator: ArithmeticOperator, left: Node, right: Node) -> tuple[Node, Node]:
    """Return two operands; an untyped one takes the most useful type beside the other."""
    if left.type.kind != "null" and right.type.kind != "null":
        return left, right
    target = left.type if right.type == NULL else right.type
    if target == NULL:
        target = DOUBLE
    elif target.kind == "duration" and operator in ("*", "/"):
        target = BIGINT
    elif target.kind == "date" and (operator == "+" or right.type == NULL):
        target = INT
    elif target.kind == "timestamp" and operator == "+":
        target = Type("duration", unit=target.unit)
    return typed(left, target), typed(right, target)


def text_beside(node: Node, other: Type, read: TextReader) -> Node:
    """Return an operand; a text beside a value of a date or timestamp type is parsed."""
    if isinstance(node, Literal) and isinstance(node.value, str) and other.kind in ("date", "timestamp"):
        return read(node.value, other)
    return node


def same_numbers(left: Node, right: Node, *, divide: bool) -> tuple[Node, Node]:
    """Return two numbers of one kind: floats before decimals before integers. Integers divide as floats."""
    kinds = {left.type.kind, right.type.kind}
    if kinds == {"float"} and left.type == right.type and not divide:
        return left, right
    if "float" in kinds or (divide and kinds == {"integer"}):
        return converted(left, DOUBLE), converted(right, DOUBLE)
    if kinds == {"integer"}:
        return left, right
    return _as_decimal(left), _as_decimal(right)


def _as_decimal(node: Node) -> Node:
    if node.type.kind == "decimal":
        return node
    if isinstance(node, Literal) and isinstance(node.value, int):
        return Literal(Type("decimal", precision=len(str(abs(node.value)))), Fraction(node.value))
    return converted(node, integer_decimal(node.type.bits))


def converted(node: Node, target: Type) -> Node:
    """Return a node in another type, as Spark converts it implicitly."""
    if node.type == target:
        return node
    if isinstance(node, Literal):
        converted = _literal_as(node, target)
        if converted:
            return converted
    return Cast(target, node, implicit=True)


def _literal_as(literal: Literal, target: Type) -> Literal | None:
    """Return a literal in another type if that needs no rounding except a float's own; else None."""
    value = literal.value
    if value is None or literal.type == target:
        return Literal(target, value)
    if isinstance(value, bool) or not isinstance(value, int | Fraction | float):
        return None
    if target.kind == "float" and target.bits == 64 and literal.type.is_number:
        return Literal(target, float(value))
    exact = isinstance(value, int) or (isinstance(value, Fraction) or math.isfinite(value))
    if not exact or not literal.type.is_number or target.kind not in ("integer", "decimal"):
        return None
    fraction = Fraction(value)
    if (fraction / target.step).denominator != 1 or not target.least <= fraction <= target.greatest:
        return None
    return Literal(target, int(fraction) if target.kind == "integer" else fraction)


def whole_days(node: Node) -> Node:
    """Return an interval of whole days as their number, since dates move by days."""
    if isinstance(node, Literal) and node.type.kind == "duration" and isinstance(node.value, int):
        days = Fraction(node.value, DAY_S * TIME_STEPS[node.type.unit])
        if days.denominator == 1:
            return Literal(INT, int(days))
    return node


def fold(operator: ArithmeticOperator, left: Node, right: Node, result: Type) -> Node | None:
    """Return the value of an operation on two integers or durations if it is exact and fits; else None."""
    if not (isinstance(left, Literal) and isinstance(right, Literal)) or operator == "/":
        return None
    if left.type.unit != right.type.unit and operator != "*":
        return None
    if not (isinstance(left.value, int) and isinstance(right.value, int)) or result.kind not in ("integer", "duration"):
        return None
    value = {"+": left.value + right.value, "-": left.value - right.value, "*": left.value * right.value}[operator]
    if not result.least <= value <= result.greatest or "date" in (left.type.kind, right.type.kind):
        return None
    return Literal(Type("integer", bits=literal_bits(value)) if result.kind == "integer" else result, value)


def literal_bits(value: int) -> int:
    """Return the width of the type that Spark assigns to an integer literal."""
    return 32 if -(2**31) <= value < 2**31 else 64


def integer_literal(value: int) -> Literal:
    """Return an integer literal: INT, BIGINT, or a decimal beyond it."""
    if -(2**63) <= value < 2**63:
        return Literal(INT if literal_bits(value) == 32 else BIGINT, value)
    return decimal_literal(Decimal(value))
