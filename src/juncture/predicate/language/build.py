"""Typed nodes: type checks, and the implicit conversions that Spark would add."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from types import MappingProxyType
from typing import Any
from typing import Literal as OneOf

from juncture.errors import SchemaError
from juncture.predicate.language import nodes
from juncture.predicate.language.conversions import (
    TextReader,
    arithmetic_nulls,
    converted,
    fold,
    literal_bits,
    paired_nulls,
    read_text,
    same_numbers,
    text_beside,
    typed,
    whole_days,
)
from juncture.predicate.language.nodes import Arithmetic, Compare, CompareOperator, Literal, Node, Options
from juncture.predicate.language.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
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
    near_float,
)

Constants = Mapping[Type, Sequence[Value]]


def arithmetic(operator: ArithmeticOperator, left: Node, right: Node) -> Node:
    """Return a sum, difference, product or quotient; of two literals, their exact value as a literal."""
    left, right = arithmetic_nulls(operator, left, right)
    if left.type.is_number and right.type.is_number:
        left, right = same_numbers(left, right, divide=operator == "/")
    elif left.type.kind == "date":
        right = whole_days(right)
    elif right.type.kind == "date" and operator == "+":
        left = whole_days(left)
    result = arithmetic_type(operator, left.type, right.type)
    folded = fold(operator, left, right, result)
    return folded or Arithmetic(result, operator, left, right)


def negate(operand: Node) -> Node:
    """Return the operand with its sign changed."""
    operand = typed(operand, DOUBLE)
    data_type = _signed(operand, "-")
    if isinstance(operand, Literal) and isinstance(operand.value, int | Fraction | float):
        value = -operand.value
        if data_type.kind == "integer" and isinstance(value, int):
            data_type = Type("integer", bits=max(operand.type.bits, literal_bits(value)))
        if not data_type.is_discrete or value <= data_type.greatest:
            return Literal(data_type, value)
    return nodes.Call(data_type, "-", (operand,))


def absolute(operand: Node) -> Node:
    """Return the absolute value of the operand."""
    operand = typed(operand, DOUBLE)
    return nodes.Call(_signed(operand, "abs"), "abs", (operand,))


def _signed(operand: Node, operator: str) -> Type:
    if not (operand.type.is_number or operand.type.kind == "duration"):
        raise undefined(operator, operand.type, "a number or a duration")
    return BIGINT if operand.type.kind == "integer" else operand.type


def undefined(function: str, data_type: Type, expected: str) -> SchemaError:
    """Return the error for a function or an operator of an operand of another type than the expected one."""
    return SchemaError(f"{function} is not defined for {data_type}. Expected {expected}.", name="JN-OPERAND-TYPE")


def extreme(function: OneOf["least", "greatest"], operands: Sequence[Node]) -> Node:
    """Return the least or greatest of several operands, converted to one type."""
    if len(operands) < 2:
        raise SchemaError(
            f"{function} has {len(operands)} operands, but needs at least two.", name="JN-EXTREME-OPERANDS"
        )
    alike = in_common_type(operands, function)
    return nodes.Call(alike[0].type, function, tuple(alike))


def in_common_type(operands: Sequence[Node], function: str) -> list[Node]:
    """Return operands, converted to one type. ``function`` is for messages."""
    target = reduce(lambda one, other: common_type(one, other, function), [operand.type for operand in operands])
    return [converted(operand, DOUBLE if target == NULL else target) for operand in operands]


def common_type(one: Type, other: Type, function: str) -> Type:
    """Return the type that represents the values of two types. ``function`` is for messages."""
    if NULL in (one, other):
        return other if one == NULL else one
    if one.kind == other.kind:
        if one.kind in ("integer", "float", "date"):
            return max(one, other, key=lambda kind: kind.bits)
        if one.kind == "decimal":
            return common_decimal(one, other)
        if one.kind in ("timestamp", "duration") and one.zoned == other.zoned:
            return Type(one.kind, unit=finer(one, other), zoned=one.zoned)
        if one == other:
            return one
    elif one.is_number and other.is_number:
        if "float" in (one.kind, other.kind):
            return DOUBLE
        return common_decimal(_as_decimal_type(one), _as_decimal_type(other))
    raise SchemaError(
        f"{function} has operands of types {one} and {other}, which have no common type. Cast one of them to the type "
        "of the other.",
        name="JN-TYPE-MISMATCH",
    )


def _as_decimal_type(data_type: Type) -> Type:
    return integer_decimal(data_type.bits) if data_type.kind == "integer" else data_type


def compare(operator: CompareOperator, left: Node, right: Node, read: TextReader = read_text) -> Node:
    """Return a comparison. A text beside a date or timestamp is parsed with ``read``."""
    left, right = paired_nulls(left, right)
    left, right = text_beside(left, right.type, read), text_beside(right, left.type, read)
    one, other = left.type, right.type
    if one.is_number and other.is_number:
        if "float" in (one.kind, other.kind):
            left, right = (converted(side, DOUBLE) if side.type.kind != "float" else side for side in (left, right))
    elif {one.kind, other.kind} == {"date", "timestamp"} and not (one.zoned or other.zoned):
        clock = Type("timestamp", unit="s")
        left, right = (converted(side, clock) if side.type.kind == "date" else side for side in (left, right))
    elif one.kind != other.kind or one.zoned != other.zoned:
        raise SchemaError(
            f"{one} and {other} do not compare. {_compare_hint(one, other)}",
            name="JN-TIMEZONE-MISMATCH" if one.kind == other.kind else "JN-TYPE-MISMATCH",
        )
    return Compare(BOOLEAN, operator, left, right)


def _compare_hint(left: Type, right: Type) -> str:
    kinds = {left.kind, right.kind}
    if kinds == {"timestamp"} or kinds == {"date", "timestamp"}:
        return "Only one of them has a time zone. Add a time zone to the other, or drop it from both."
    if "duration" in kinds and kinds & {"integer", "float", "decimal"}:
        return "A number has no unit. Write an interval, such as INTERVAL 10 SECONDS."
    if "string" in kinds and kinds & {"integer", "float", "decimal"}:
        return "Write numbers without quotes, or cast the text first."
    return "Cast one of them to the type of the other first."


def is_in(
    operand: Node, options: Sequence[Node], read: TextReader = read_text, *, steps: Constants = MappingProxyType({})
) -> Node:
    """Return whether an operand equals one of several options.

    Constants are looked up together, by value, in the type in which the operand is compared; those that no value of
    that type equals are dropped. ``steps`` has further constants without nodes, by their type, in whole steps of it.
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
        for comparison, constant_steps in _compared(operand, data_type, values, read):
            if constant_steps is None:
                others.append(comparison)
            else:
                likes.setdefault(comparison.left, comparison.right)
                listed.setdefault(comparison.left, {}).update(dict.fromkeys(constant_steps))
    parts = [_member(one, likes[one], tuple(constant_steps)) for one, constant_steps in listed.items()]
    return disjunction([*parts, *others])


def _compared(
    operand: Node, data_type: Type, values: Sequence[Value], read: TextReader
) -> Iterator[tuple[Compare, Sequence[Value] | None]]:
    """Yield a comparison per constant, or one for all that compare alike, with their steps; None if not constant."""
    for value in values:
        comparison = compare("=", operand, Literal(data_type, from_steps(value, data_type)), read)
        assert isinstance(comparison, Compare)
        one, other = comparison.left.type, comparison.right
        if not isinstance(other, Literal):
            yield comparison, None
            continue
        if data_type.kind == "string" and one.kind != "string":
            for source, steps in _read_steps(values, one, read).items():
                yield comparison, _representable(steps, source, one)
        else:
            yield comparison, _representable(values, data_type, one)
        return


def _read_steps(texts: Sequence[Value], like: Type, read: TextReader) -> dict[Type, list[Value]]:
    """Return the dates or timestamps that texts denote beside a value of a type, by their own types."""
    by_type: dict[Type, list[Value]] = {}
    for text in texts:
        assert isinstance(text, str)
        literal = read(text, like)
        by_type.setdefault(literal.type, []).append(literal.value)
    return by_type


def _member(operand: Node, like: Node, values: tuple[Value, ...]) -> Node:
    """Return whether an operand is one of some values; of a single value, a comparison."""
    if len(values) > 1:
        return nodes.In(BOOLEAN, operand, Options(operand.type, values))
    if values:
        like = Literal(operand.type, from_steps(values[0], operand.type))
    return Compare(BOOLEAN, "=", operand, like)


def _representable(values: Sequence[Value], source: Type, target: Type) -> Sequence[Value]:
    """Return constants in steps of the compared type, without those that no value of it equals."""
    if None in values:
        return [*_representable([value for value in values if value is not None], source, target), None]
    if not values or not source.has_arithmetic or target.kind == "boolean":
        return values
    numbers: list[Any] = list(values)
    if target.kind == "float":
        floats = [number / 10**source.scale for number in numbers]
        # Zero has one sign, and NaN is one object, so that equal values compare equal.
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
    """Return whether all operands are true."""
    return _joined(nodes.And, operands, "AND", nodes.TRUE)


def disjunction(operands: Sequence[Node]) -> Node:
    """Return whether any operand is true."""
    return _joined(nodes.Or, operands, "OR", nodes.FALSE)


def _joined(kind: type[nodes.And | nodes.Or], operands: Sequence[Node], name: str, empty: Node) -> Node:
    flat: list[Node] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, kind) else [truth(operand, name)])
    unique = tuple(dict.fromkeys(flat))
    return kind(BOOLEAN, unique) if len(unique) > 1 else unique[0] if unique else empty


def negation(operand: Node) -> Node:
    """Return the opposite of a boolean."""
    return nodes.Not(BOOLEAN, truth(operand, "NOT"))


def truth(operand: Node, name: str, role: str = "operand") -> Node:
    """Return an operand that is a boolean; raise SchemaError for others."""
    operand = typed(operand, BOOLEAN)
    if operand.type.kind != "boolean":
        raise SchemaError(
            f"{name} needs a boolean, but its {role} is {operand.type}. Compare it with a value.",
            name="JN-PREDICATE-BOOLEAN",
        )
    return operand
