"""Nodes made with their types checked, and with the conversions that Spark would add."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any
from typing import Literal as OneOf

from juncture.errors import SchemaError
from juncture.predicate.evaluate.options import Options
from juncture.predicate.intervals.rounding import near_float
from juncture.predicate.language import nodes
from juncture.predicate.language.literals import read_date, read_timestamp
from juncture.predicate.language.nodes import Arithmetic, Cast, Compare, CompareOperator, Literal, Node
from juncture.predicate.language.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    TIME_STEPS,
    ArithmeticOperator,
    Type,
    Value,
    arithmetic_type,
    common_decimal,
    finer,
    from_steps,
    in_steps,
    integer_decimal,
)

__all__ = ["absolute", "arithmetic", "cast", "common_type", "compare", "conjunction", "disjunction", "extreme", "is_in"]
__all__ += ["is_null", "negate", "negation", "read_text"]

TextReader = Callable[[str, Type], Literal]
Constants = Mapping[Type, Sequence[Value]]


def read_text(text: str, data_type: Type) -> Literal:
    """Return the literal that a text stands for where it meets a date or timestamp.

    Raises
    ------
    SpecError
        If the text cannot be read as one.
    """
    if data_type.kind == "date":
        return Literal(data_type, read_date(text))
    steps, unit = read_timestamp(text, zoned=data_type.zoned, zone=None)
    return Literal(Type("timestamp", unit=unit, zoned=data_type.zoned), steps)


def arithmetic(operator: ArithmeticOperator, left: Node, right: Node) -> Node:
    """Return a sum, difference, product or quotient; of two literals, the literal where it is exact.

    Raises
    ------
    SchemaError
        If the operation has no meaning for these types.
    """
    left, right = _arithmetic_nulls(operator, left, right)
    if left.type.is_number and right.type.is_number:
        left, right = _same_numbers(left, right, divide=operator == "/")
    elif left.type.kind == "date":
        right = _whole_days(right)
    elif right.type.kind == "date" and operator == "+":
        left = _whole_days(left)
    result = arithmetic_type(operator, left.type, right.type)
    folded = _fold(operator, left, right, result)
    return folded or Arithmetic(result, operator, left, right)


def negate(operand: Node) -> Node:
    """Return the operand with its sign changed.

    Raises
    ------
    SchemaError
        If it is not a number or a duration.
    """
    operand = _typed(operand, DOUBLE)
    data_type = _signed(operand, "-")
    if isinstance(operand, Literal) and isinstance(operand.value, int | Fraction | float):
        value = -operand.value
        if data_type.kind == "integer" and isinstance(value, int):
            data_type = Type("integer", bits=max(operand.type.bits, _bits(value)))
        if not data_type.is_discrete or value <= data_type.greatest:
            return Literal(data_type, value)
    return nodes.Sign(data_type, "-", operand)


def absolute(operand: Node) -> Node:
    """Return the absolute value of the operand.

    Raises
    ------
    SchemaError
        If it is not a number or a duration.
    """
    operand = _typed(operand, DOUBLE)
    return nodes.Sign(_signed(operand, "abs"), "abs", operand)


def _signed(operand: Node, operator: str) -> Type:
    if not (operand.type.is_number or operand.type.kind == "duration"):
        raise SchemaError(f"{operator} of {operand.type} has no meaning. Expected a number or a duration.")
    return BIGINT if operand.type.kind == "integer" else operand.type


def extreme(function: OneOf["least", "greatest"], operands: Sequence[Node]) -> Node:
    """Return the least or greatest of several operands, brought to one type.

    Raises
    ------
    SchemaError
        If there are fewer than two, or they do not compare.
    """
    if len(operands) < 2:
        raise SchemaError(f"{function} needs at least two operands, and has {len(operands)}.")
    target = operands[0].type
    for operand in operands[1:]:
        target = common_type(target, operand.type, function)
    target = DOUBLE if target == NULL else target
    return nodes.Extreme(target, function, tuple(_converted(operand, target) for operand in operands))


def common_type(one: Type, other: Type, function: str) -> Type:
    """Return the type that values of two types are brought to without losing any."""
    if NULL in (one, other):
        return other if one == NULL else one
    if one.kind == other.kind:
        if one.kind == "integer":
            return max(one, other, key=lambda kind: kind.bits)
        if one.kind == "decimal":
            return common_decimal(one, other)
        if one.kind == "float":
            return max(one, other, key=lambda kind: kind.bits)
        if one.kind in ("timestamp", "duration") and one.zoned == other.zoned:
            return Type(one.kind, unit=finer(one, other), zoned=one.zoned)
        if one == other:
            return one
    elif one.is_number and other.is_number:
        if "float" in (one.kind, other.kind):
            return DOUBLE
        return common_decimal(_as_decimal_type(one), _as_decimal_type(other))
    raise SchemaError(
        f"{function} of {one} and {other} has no meaning. Cast one of them to the type of the other first."
    )


def _as_decimal_type(data_type: Type) -> Type:
    return integer_decimal(data_type.bits) if data_type.kind == "integer" else data_type


def compare(operator: CompareOperator, left: Node, right: Node, read: TextReader = read_text) -> Node:
    """Return a comparison of two operands.

    Parameters
    ----------
    operator
        One of SQL's, or ``<=>``, which takes nulls as equal.
    left, right
        The operands. A text beside a date or timestamp is read as one.
    read
        Reads such a text.

    Raises
    ------
    SchemaError
        If the types do not compare.
    """
    left, right = _paired_nulls(left, right)
    left, right = _paired_texts(left, right, read)
    one, other = left.type, right.type
    if one.is_number and other.is_number:
        if "float" in (one.kind, other.kind):
            left, right = (_converted(side, DOUBLE) if side.type.kind != "float" else side for side in (left, right))
    elif {one.kind, other.kind} == {"date", "timestamp"} and not (one.zoned or other.zoned):
        clock = Type("timestamp", unit="s")
        left, right = (_converted(side, clock) if side.type.kind == "date" else side for side in (left, right))
    elif one.kind != other.kind or one.zoned != other.zoned:
        raise SchemaError(f"{one} and {other} do not compare. {_compare_hint(one, other)}")
    return Compare(BOOLEAN, operator, left, right)


def _compare_hint(left: Type, right: Type) -> str:
    kinds = {left.kind, right.kind}
    if kinds == {"timestamp"} or kinds == {"date", "timestamp"}:
        return "One has a time zone and the other has none: which instants are meant cannot be guessed. Cast one first."
    if "duration" in kinds and kinds & {"integer", "float", "decimal"}:
        return "A number has no unit: write INTERVAL … SECONDS."
    if "string" in kinds and kinds & {"integer", "float", "decimal"}:
        return "Write numbers without quotes, or cast the text first."
    return "Cast one of them to the type of the other first."


def is_in(
    operand: Node, options: Sequence[Node], read: TextReader = read_text, *, steps: Constants = MappingProxyType({})
) -> Node:
    """Return whether an operand equals one of several options.

    Constants are looked up together: by their value, in the type that the operand has where it is compared to them. A
    constant that no value of that type equals changes nothing, and is left out.

    Parameters
    ----------
    operand, read
        As for a comparison.
    options
        The options.
    steps
        More of them, without a node for each: values by their type, in whole steps of it.

    Raises
    ------
    SchemaError
        If the types do not compare.
    """
    constants = {data_type: list(values) for data_type, values in steps.items()}
    others: list[Node] = []
    for option in options:
        if isinstance(option, Literal):
            constants.setdefault(option.type, []).append(in_steps(option.value, option.type))
        else:
            others.append(compare("=", operand, option, read))
    listed: dict[Node, dict[Value, None]] = {}
    likes: dict[Node, Node] = {}
    for data_type, values in constants.items():
        for comparison, found in _compared(operand, data_type, values, read):
            if found is None:
                others.append(comparison)
            else:
                likes.setdefault(comparison.left, comparison.right)
                listed.setdefault(comparison.left, {}).update(dict.fromkeys(found))
    parts = [_member(one, likes[one], tuple(found)) for one, found in listed.items()]
    return disjunction([*parts, *others])


def _compared(
    operand: Node, data_type: Type, values: Sequence[Value], read: TextReader
) -> Iterator[tuple[Compare, Sequence[Value] | None]]:
    """Yield comparisons to constants of a type: each to one, or to all that are like it.

    With each comes what the constants are in steps of the type that they are compared to; None if they are no constants
    there.
    """
    for value in values:
        comparison = compare("=", operand, Literal(data_type, from_steps(value, data_type)), read)
        assert isinstance(comparison, Compare)
        one, other = comparison.left.type, comparison.right
        if not isinstance(other, Literal):
            yield comparison, None
            continue
        if data_type.kind == "string" and one.kind != "string":
            for source, steps in _read_steps(values, one, read).items():
                yield comparison, _held(steps, source, one)
        else:
            yield comparison, _held(values, data_type, one)
        return


def _read_steps(texts: Sequence[Value], like: Type, read: TextReader) -> dict[Type, list[Value]]:
    """Return the dates or timestamps that texts stand for beside a value of a type, by their own types."""
    found: dict[Type, list[Value]] = {}
    for text in texts:
        assert isinstance(text, str)
        literal = read(text, like)
        found.setdefault(literal.type, []).append(literal.value)
    return found


def _member(operand: Node, like: Node, values: tuple[Value, ...]) -> Node:
    """Return whether an operand is one of some values; of less than two, whether it equals what it is compared to."""
    if len(values) > 1:
        return nodes.In(BOOLEAN, operand, Options(operand.type, values))
    if values:
        like = Literal(operand.type, from_steps(values[0], operand.type))
    return Compare(BOOLEAN, "=", operand, like)


def _held(values: Sequence[Value], source: Type, target: Type) -> Sequence[Value]:
    """Return constants in steps of a type that they are compared to, without those that no value of it equals."""
    if None in values:
        return [*_held([value for value in values if value is not None], source, target), None]
    if not values or not source.has_arithmetic or target.kind == "boolean":
        return values
    numbers: list[Any] = list(values)
    if target.kind == "float":
        floats = [number / 10**source.scale for number in numbers]
        # Zero has one sign here, and NaN is one object, so that equal values are the same.
        return [
            math.nan if number != number else number + 0.0
            for number in floats
            if number != number or near_float(number, target.bits) == number
        ]
    factor = _steps_per_unit(target) / Fraction(_steps_per_unit(source))
    if factor.denominator == 1:
        numbers = [number * factor.numerator for number in numbers] if factor != 1 else numbers
    else:
        numbers = [number // factor.denominator for number in numbers if number % factor.denominator == 0]
    least, greatest = in_steps(target.least, target), in_steps(target.greatest, target)
    if numbers and least <= min(numbers) and max(numbers) <= greatest:
        return numbers
    return [number for number in numbers if least <= number <= greatest]


def _steps_per_unit(data_type: Type) -> int:
    return TIME_STEPS[data_type.unit] if data_type.unit else 10**data_type.scale


def is_null(operand: Node) -> Node:
    """Return whether an operand is null."""
    return nodes.IsNull(BOOLEAN, operand)


def conjunction(operands: Sequence[Node]) -> Node:
    """Return whether all operands are true.

    Raises
    ------
    SchemaError
        If one is not a truth value.
    """
    return _joined(nodes.And, operands, "AND", nodes.TRUE)


def disjunction(operands: Sequence[Node]) -> Node:
    """Return whether any operand is true.

    Raises
    ------
    SchemaError
        If one is not a truth value.
    """
    return _joined(nodes.Or, operands, "OR", nodes.FALSE)


def _joined(kind: type[nodes.And | nodes.Or], operands: Sequence[Node], name: str, empty: Node) -> Node:
    flat: list[Node] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, kind) else [_truth(operand, name)])
    unique = tuple(dict.fromkeys(flat))
    return kind(BOOLEAN, unique) if len(unique) > 1 else unique[0] if unique else empty


def negation(operand: Node) -> Node:
    """Return the opposite of a truth value.

    Raises
    ------
    SchemaError
        If the operand is none.
    """
    return nodes.Not(BOOLEAN, _truth(operand, "NOT"))


def _truth(operand: Node, name: str) -> Node:
    operand = _typed(operand, BOOLEAN)
    if operand.type.kind != "boolean":
        raise SchemaError(f"{name} takes truth values, and this is {operand.type}. Compare it to something.")
    return operand


_CASTS = {
    "integer": ("integer", "float", "decimal", "boolean"),
    "float": ("integer", "float", "decimal", "boolean"),
    "decimal": ("integer", "float", "decimal", "boolean"),
    "date": ("date", "timestamp"),
    "timestamp": ("date", "timestamp"),
    "boolean": ("integer", "float", "decimal", "boolean"),
    "string": ("string",),
    "duration": ("duration",),
}


def cast(operand: Node, target: Type, read: TextReader = read_text) -> Node:
    """Return a conversion that was asked for; of a literal, its value where that is exact.

    Raises
    ------
    SchemaError
        If Spark has no such conversion, or it depends on a session's settings.
    """
    source = operand.type
    if source == NULL:
        return Literal(target, None) if isinstance(operand, Literal) else Cast(target, operand)
    if isinstance(operand, Literal) and isinstance(operand.value, str) and target.kind in ("date", "timestamp"):
        return read(operand.value, target)
    if isinstance(operand, Literal) and isinstance(operand.value, str) and target.is_number:
        operand = _number_of(operand.value, target)
        source = operand.type
    if source.kind not in _CASTS.get(target.kind, ()):
        raise SchemaError(f"CAST from {source} to {target} is not known here. Convert the column before the join.")
    if "timestamp" in (source.kind, target.kind) and source.zoned != target.zoned:
        raise SchemaError(
            f"CAST from {source} to {target} depends on the session's time zone. Cast to TIMESTAMP_NTZ, or convert the "
            "column before the join."
        )
    converted = _literal_as(operand, target) if isinstance(operand, Literal) else None
    return converted or (operand if source == target else Cast(target, operand))


def _number_of(text: str, target: Type) -> Literal:
    """Return the number that a text in a cast stands for."""
    try:
        number = Decimal(text.strip())
    except ArithmeticError:
        raise SchemaError(f"{text!r} is not a number, so it cannot be cast to {target}.") from None
    if number.is_finite() and target.kind != "float":
        return decimal_literal(number)
    return Literal(target if target.kind == "float" else DOUBLE, near_float(float(number), target.bits or 64))


def decimal_literal(number: Decimal) -> Literal:
    """Return the literal of a decimal number, with the digits that it is written with.

    Raises
    ------
    SchemaError
        If it has more than 38.
    """
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise SchemaError(f"{number} has {precision} digits, and a decimal has at most 38.")
    return Literal(Type("decimal", precision=precision, scale=scale), Fraction(number))


def _typed(node: Node, target: Type) -> Node:
    """Return a node in a type, if it has none: a bare NULL, or a column of nothing but nulls."""
    if node.type.kind != "null":
        return node
    return Literal(target, None) if isinstance(node, Literal) else Cast(target, node, implicit=True)


def _paired_nulls(left: Node, right: Node) -> tuple[Node, Node]:
    """Give what has no type that of what it is paired with."""
    if left.type.kind != "null" and right.type.kind != "null":
        return left, right
    target = left.type if right.type == NULL else right.type
    target = BOOLEAN if target == NULL else target
    return _typed(left, target), _typed(right, target)


def _arithmetic_nulls(operator: ArithmeticOperator, left: Node, right: Node) -> tuple[Node, Node]:
    """Give what has no type the one that makes most sense beside the other operand."""
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
    return _typed(left, target), _typed(right, target)


def _paired_texts(left: Node, right: Node, read: TextReader) -> tuple[Node, Node]:
    """Read a text that is paired with a date or timestamp."""
    if isinstance(left, Literal) and isinstance(left.value, str) and right.type.kind in ("date", "timestamp"):
        return read(left.value, right.type), right
    if isinstance(right, Literal) and isinstance(right.value, str) and left.type.kind in ("date", "timestamp"):
        return left, read(right.value, left.type)
    return left, right


def _same_numbers(left: Node, right: Node, *, divide: bool) -> tuple[Node, Node]:
    """Bring two numbers to one kind: floats before decimals before integers; integers divide as floats."""
    kinds = {left.type.kind, right.type.kind}
    if kinds == {"float"} and left.type == right.type and not divide:
        return left, right
    if "float" in kinds or (divide and kinds == {"integer"}):
        return _converted(left, DOUBLE), _converted(right, DOUBLE)
    if kinds == {"integer"}:
        return left, right
    return tuple(_as_decimal(side) for side in (left, right))  # type: ignore[return-value]  # a pair in, a pair out


def _as_decimal(node: Node) -> Node:
    if node.type.kind == "decimal":
        return node
    if isinstance(node, Literal) and isinstance(node.value, int):
        return Literal(Type("decimal", precision=len(str(abs(node.value)))), Fraction(node.value))
    return _converted(node, integer_decimal(node.type.bits))


def _converted(node: Node, target: Type) -> Node:
    """Return the node in another type, as Spark would convert it unasked."""
    if node.type == target:
        return node
    if isinstance(node, Literal):
        converted = _literal_as(node, target)
        if converted:
            return converted
    return Cast(target, node, implicit=True)


def _literal_as(literal: Literal, target: Type) -> Literal | None:
    """Return a literal in another type, where that needs no rounding but a float's own."""
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


def _whole_days(node: Node) -> Node:
    """Return an interval that counts whole days as their number, since dates move by days."""
    if isinstance(node, Literal) and node.type.kind == "duration" and isinstance(node.value, int):
        steps = 86_400 * Type("duration", unit=node.type.unit).step
        days = Fraction(node.value, {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[node.type.unit]) / steps
        if days.denominator == 1:
            return Literal(INT, int(days))
    return node


def _fold(operator: ArithmeticOperator, left: Node, right: Node, result: Type) -> Node | None:
    """Return the value of an operation on two whole numbers or lengths of time, where it is exact and fits."""
    if not (isinstance(left, Literal) and isinstance(right, Literal)) or operator == "/":
        return None
    if left.type.unit != right.type.unit and operator != "*":
        return None
    if not (isinstance(left.value, int) and isinstance(right.value, int)) or result.kind not in ("integer", "duration"):
        return None
    value = {"+": left.value + right.value, "-": left.value - right.value, "*": left.value * right.value}[operator]
    if not result.least <= value <= result.greatest or "date" in (left.type.kind, right.type.kind):
        return None
    return Literal(Type("integer", bits=_bits(value)) if result.kind == "integer" else result, value)


def _bits(value: int) -> int:
    """Return the width of the type that Spark gives to an integer literal."""
    return 32 if -(2**31) <= value < 2**31 else 64


def integer_literal(value: int) -> Literal:
    """Return the literal of a whole number: an INT, a BIGINT, or a decimal beyond it."""
    if -(2**63) <= value < 2**63:
        return Literal(INT if _bits(value) == 32 else BIGINT, value)
    return decimal_literal(Decimal(value))
