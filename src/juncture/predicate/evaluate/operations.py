"""Arithmetic, casts, comparisons and functions on vectors, as in Spark.

A vector has the values of one type in the form of computation: integers, dates, timestamps and durations as 64-bit
steps, decimals as 128-bit decimals, and floats, booleans, strings and binary unchanged.

The result is null on overflow and for a zero divisor. Operations are vectorized; the few cases that Arrow cannot
compute exactly are repeated row by row.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, days, plain_column, validity
from juncture.columnar.types import DAY_MS, DAY_S
from juncture.predicate.language.functions import pattern_parts
from juncture.predicate.language.literals import UNIT_S
from juncture.predicate.language.nodes import Call, CompareOperator, Function
from juncture.predicate.language.types import (
    TIME_STEPS,
    ArithmeticOperator,
    Type,
    Value,
    arrow_type,
    as_decimal,
    half_up,
    scale_between,
    vector_type,
)

Vector: TypeAlias = "pa.Array | pa.Scalar"
"""The values of an expression: one for each row, or one for all."""


def from_column(column: pa.Array | pa.ChunkedArray, data_type: Type) -> pa.Array:
    """Return a column of any encoding as a vector; one of the null type may have any Arrow type."""
    if data_type.kind == "null":
        return pa.nulls(len(column))
    array = plain_column(column)
    if pat.is_date(array.type):
        return array_of(days(array), pa.int64(), validity(array))
    target = vector_type(data_type)
    if pat.is_null(target):
        # Engines represent it with some other type.
        return pa.nulls(len(array))
    return array if array.type == target else array.cast(target)


def to_column(vector: Vector, data_type: Type, rows: int) -> pa.Array:
    """Return a vector as a column of the type's Arrow type."""
    array = pa.repeat(vector, rows) if isinstance(vector, pa.Scalar) else vector
    target = arrow_type(data_type)
    if pat.is_date64(target):
        # The first day begins before the least number of milliseconds.
        first = pc.equal(array, int(data_type.least))
        return pc.if_else(first, -(1 << 63), pc.multiply(array, DAY_MS)).cast(target)
    if pat.is_date32(target):
        return array.cast(pa.int32()).cast(target)
    return array if array.type == target else array.cast(target)


def constant(value: Value, data_type: Type) -> pa.Scalar:
    """Return a literal's value as a scalar vector."""
    return pa.scalar(_stored(value, data_type), vector_type(data_type))


def row_by_row(function: Callable[..., Value], data_type: Type, *operands: Vector) -> Vector:
    """Apply an exact function to each row without nulls, at about a microsecond; None and misfits become null."""
    lists = [_values(operand) for operand in operands]
    rows = next((len(operand) for operand in operands if not isinstance(operand, pa.Scalar)), 1)
    spread = [
        values * rows if isinstance(operand, pa.Scalar) else values
        for values, operand in zip(lists, operands, strict=True)
    ]
    results = [
        None if any(value is None for value in row) else _storable(function(*row), data_type)
        for row in zip(*spread, strict=True)
    ]
    if all(isinstance(operand, pa.Scalar) for operand in operands):
        return pa.scalar(results[0], vector_type(data_type))
    return pa.array(results, vector_type(data_type))


def _values(vector: Vector) -> list[Any]:
    values = [vector.as_py()] if isinstance(vector, pa.Scalar) else vector.to_pylist()
    return [Fraction(value) if isinstance(value, Decimal) else value for value in values]


def _storable(value: Value, data_type: Type) -> Any:
    """Return a result in Arrow's form, or None if the type cannot represent it."""
    if value is None or isinstance(value, bool | float | str | bytes):
        return value
    return _stored(value, data_type) if data_type.least <= value <= data_type.greatest else None


def _stored(value: Value, data_type: Type) -> Any:
    if data_type.kind == "decimal" and isinstance(value, int | Fraction):
        return as_decimal(value, data_type)
    return value


_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_EXACT: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_RELATIONS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], bool]]] = {
    "=": (pc.equal, operator.eq),
    "<>": (pc.not_equal, operator.ne),
    "<": (pc.less, operator.lt),
    "<=": (pc.less_equal, operator.le),
    ">": (pc.greater, operator.gt),
    ">=": (pc.greater_equal, operator.ge),
}
_EXACT_DIGITS = 15
"""The digits up to which integers and powers of ten are exact floats, so that their quotient is rounded once."""


def arithmetic(sign: ArithmeticOperator, left: Vector, right: Vector, types: tuple[Type, Type], target: Type) -> Vector:
    """Return a sum, difference, product or quotient of operands of some types, in the target type."""
    if target.kind == "float":
        if sign == "/":
            zero = pa.scalar(None, right.type)
            return pc.divide(left, pc.if_else(pc.equal(right, pa.scalar(0, right.type)), zero, right))
        return _PLAIN[sign](left, right)
    if target.kind == "decimal":
        return _decimal(sign, left, right, target)
    factors = [int(scale_between(data_type, target)) for data_type in types]
    try:
        result = _CHECKED[sign](*_scaled(left, right, factors))
    except pa.ArrowInvalid:
        exact = _EXACT[sign]
        return row_by_row(lambda a, b: exact(a * factors[0], b * factors[1]), target, left, right)
    # Dates have fewer days than the integers in which they are computed.
    return _in_range(result, target) if target.kind == "date" else result


def _scaled(left: Vector, right: Vector, factors: Sequence[int]) -> list[Vector]:
    """Return two vectors of integers times a factor each; raise `pyarrow.ArrowInvalid` on overflow."""
    return [
        vector if factor == 1 else pc.multiply_checked(vector, pa.scalar(factor, pa.int64()))
        for vector, factor in zip((left, right), factors, strict=True)
    ]


def _decimal(sign: ArithmeticOperator, left: Vector, right: Vector, target: Type) -> Vector:
    if sign != "/":
        try:
            result = _PLAIN[sign](left, right)
        except pa.ArrowInvalid:
            result = None
        if result is not None and result.type == vector_type(target):
            return result
        exact = _EXACT[sign]
        return row_by_row(lambda a, b: half_up(exact(a, b), target.step), target, left, right)
    return row_by_row(lambda a, b: half_up(a / b, target.step) if b else None, target, left, right)


def _in_range(vector: Vector, target: Type) -> Vector:
    """Return integers, with null for those that a narrower type cannot represent."""
    least, greatest = pa.scalar(int(target.least), pa.int64()), pa.scalar(int(target.greatest), pa.int64())
    fits = pc.and_(pc.less_equal(least, vector), pc.less_equal(vector, greatest))
    return pc.if_else(fits, vector, pa.scalar(None, pa.int64()))


def convert(operand: Vector, source: Type, target: Type) -> Vector:
    """Return a cast: null where the value does not fit."""
    if source.kind == "null":
        return pc.cast(operand, vector_type(target))
    if target.kind == "boolean":
        return operand if source.kind == "boolean" else pc.not_equal(operand, pa.scalar(0, operand.type))
    if source.kind == "boolean":
        operand, source = pc.cast(operand, pa.int64()), Type("integer", bits=64)
    if target.kind == "float":
        return _to_float(operand, source, target)
    if target.kind == "integer":
        return _to_integer(operand, source, target)
    if target.kind == "decimal":
        return _to_decimal(operand, source, target)
    if target.kind in ("date", "timestamp", "duration"):
        return _to_time(operand, source, target)
    return operand


def _to_float(operand: Vector, source: Type, target: Type) -> Vector:
    if source.kind != "decimal":
        return pc.cast(operand, vector_type(target), safe=False)
    if source.precision > _EXACT_DIGITS or isinstance(operand, pa.Scalar):
        wide = row_by_row(float, Type("float", bits=64), operand)
    else:
        unscaled = np.frombuffer(operand.buffers()[1], np.int64)[::2][operand.offset : operand.offset + len(operand)]
        wide = pa.array(unscaled / 10.0**source.scale, mask=np.asarray(pc.is_null(operand)))
    return pc.cast(wide, vector_type(target), safe=False)


def _to_integer(operand: Vector, source: Type, target: Type) -> Vector:
    if source.kind == "integer":
        return operand if source.bits <= target.bits else _in_range(operand, target)
    if source.kind == "decimal" or isinstance(operand, pa.Scalar):
        return row_by_row(lambda value: math.trunc(value) if math.isfinite(value) else None, target, operand)
    floats = np.trunc(np.asarray(operand.cast(pa.float64()).fill_null(math.nan)))
    limit = 2.0 ** (target.bits - 1)
    fits = (floats >= -limit) & (floats < limit)
    return pa.array(np.where(fits, floats, 0).astype(np.int64), mask=~fits)


def _to_decimal(operand: Vector, source: Type, target: Type) -> Vector:
    if source.kind == "float":
        return row_by_row(lambda value: _printed(value, source, target), target, operand)
    try:
        wide = operand if source.kind == "decimal" else pc.cast(operand, pa.decimal128(19, 0))
        return pc.cast(wide, vector_type(target))
    except pa.ArrowInvalid:
        return row_by_row(lambda value: half_up(value, target.step), target, operand)


def _printed(value: float, source: Type, target: Type) -> Value:
    """Return the decimal that a float prints as, rounded."""
    if not math.isfinite(value):
        return None
    text = str(np.float32(value)) if source.bits == 32 else repr(value)
    with localcontext(prec=2_000):
        return Fraction(half_up(Fraction(Decimal(text)), target.step))


def _to_time(operand: Vector, source: Type, target: Type) -> Vector:
    factor = scale_between(source, target)
    if factor == 1:
        return operand if source.bits <= target.bits else _in_range(operand, target)
    if factor > 1:
        try:
            return pc.multiply_checked(operand, pa.scalar(int(factor), pa.int64()))
        except pa.ArrowInvalid:
            return row_by_row(lambda value: int(value * factor), target, operand)
    steps = int(1 / Fraction(factor))
    if isinstance(operand, pa.Scalar):
        return row_by_row(lambda value: value // steps, target, operand)
    time_steps = np.asarray(operand.fill_null(0)) // steps
    return _in_range(pa.array(time_steps, mask=np.asarray(pc.is_null(operand))), target)


def compare(sign: CompareOperator, left: Vector, right: Vector, types: tuple[Type, Type]) -> Vector:
    """Return a comparison of numbers of any kinds, or times in any units; null where an operand is, except ``<=>``."""
    if sign == "<=>":
        equal = compare("=", left, right, types)
        both = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(pc.fill_null(equal, False), both)
    vectorised, exact = _RELATIONS[sign]
    if types[0].kind == "float":
        return _compare_floats(sign, left, right)
    if types[0].unit != types[1].unit:
        steps = [TIME_STEPS[data_type.unit] for data_type in types]
        factors = [max(steps) // step for step in steps]
        try:
            return vectorised(*_scaled(left, right, factors))
        except pa.ArrowInvalid:
            return row_by_row(lambda a, b: exact(a * factors[0], b * factors[1]), Type("boolean"), left, right)
    if types[0].kind != types[1].kind:
        left, right = (
            pc.cast(vector, pa.decimal128(19, 0)) if data_type.kind == "integer" else vector
            for vector, data_type in zip((left, right), types, strict=True)
        )
    if types[0].is_number and left.type != right.type:
        scale = max(left.type.scale, right.type.scale)
        left, right = (pc.cast(vector, pa.decimal256(76, scale)) for vector in (left, right))
    return vectorised(left, right)


def _compare_floats(sign: CompareOperator, left: Vector, right: Vector) -> Vector:
    """Compare floats in Spark's order, in which NaN equals NaN and is above all others."""
    plain = _RELATIONS[sign][0](left, right)
    one, other = pc.is_nan(left), pc.is_nan(right)
    if not (_any(one) or _any(other)):
        return plain
    by_rank = {
        "=": pc.and_(one, other),
        "<>": pc.xor(one, other),
        "<": pc.and_not(other, one),
        "<=": other,
        ">": pc.and_not(one, other),
        ">=": one,
    }
    # A comparison with null stays null, since the masks and the chosen values are null there too.
    return pc.if_else(pc.or_(one, other), by_rank[sign], plain)


def _any(mask: Vector) -> bool:
    return bool(mask.as_py() if isinstance(mask, pa.Scalar) else pc.any(mask).as_py())


Array = npt.NDArray[Any]

_MONTHS = MappingProxyType({"month": 1, "quarter": 3, "year": 12})
_FIRST_MONDAY_S = -3 * DAY_S  # weeks start on Mondays, and 1970 on a Thursday


def _sign(node: Call, operands: Sequence[Vector]) -> Vector:
    checked, exact = (pc.negate_checked, operator.neg) if node.function == "-" else (pc.abs_checked, abs)
    try:
        return checked(*operands)
    except pa.ArrowInvalid:
        return row_by_row(exact, node.type, *operands)


def _extreme(node: Call, operands: Sequence[Vector]) -> Vector:
    def extreme_of_two(left: Vector, right: Vector) -> Vector:
        first = compare("<=" if node.function == "least" else ">=", left, right, (node.type, node.type))
        return pc.if_else(pc.or_(pc.is_null(right), pc.fill_null(first, False)), left, right)

    return reduce(extreme_of_two, operands)


def _numbers(operands: Sequence[Vector]) -> tuple[list[Array], Array]:
    """Return vectors of numbers as arrays, and a mask of rows with a null."""
    rows = next(len(each) for each in operands if not isinstance(each, pa.Scalar))
    spread = [pa.repeat(each, rows) if isinstance(each, pa.Scalar) else each for each in operands]
    lacking = np.logical_or.reduce([np.asarray(pc.is_null(each)) for each in spread])
    return [np.asarray(each.fill_null(0)) for each in spread], lacking


def _remainder(node: Call, operands: Sequence[Vector]) -> Vector:
    if node.type.kind == "decimal":
        return row_by_row(lambda a, b: a - b * math.trunc(a / b) if b else None, node.type, *operands)
    (one, other), lacking = _numbers(operands)
    zero = other == 0
    # The remainder by -1 is 0, but computing it overflows for the least integer.
    divisor = np.where(zero | (other == -1), one.dtype.type(1), other)
    with np.errstate(invalid="ignore"):
        left = np.fmod(one, np.where(zero, one.dtype.type(1), other) if node.type.kind == "float" else divisor)
    return pa.array(left, vector_type(node.type), mask=lacking | zero)


def _quotient(_: Call, operands: Sequence[Vector]) -> Vector:
    (one, other), lacking = _numbers(operands)
    wrong = (other == 0) | ((other == -1) & (one == np.int64(-(2**63))))
    divisor = np.where(wrong, 1, other)
    return pa.array((one - np.fmod(one, divisor)) // divisor, pa.int64(), mask=lacking | wrong)


def _floor_or_ceil(node: Call, operands: Sequence[Vector]) -> Vector:
    [operand], is_floor = operands, node.function == "floor"
    if node.type.kind == "decimal":
        return row_by_row(math.floor if is_floor else math.ceil, node.type, operand)
    rounded = (np.floor if is_floor else np.ceil)(np.asarray(operand.cast(pa.float64()).fill_null(math.nan)))
    fits = (rounded >= -(2.0**63)) & (rounded < 2.0**63)
    return pa.array(np.where(fits, rounded, 0).astype(np.int64), mask=~fits)


def _round(node: Call, operands: Sequence[Vector]) -> Vector:
    [operand], digits = operands, int(node.detail or 0)
    if node.type.kind == "decimal":
        return row_by_row(lambda value: half_up(value, node.type.step), node.type, operand)
    if digits == 0:
        values = np.asarray(operand.fill_null(0))
        with np.errstate(invalid="ignore"):
            truncated = np.trunc(values)
            away = truncated + np.where(np.abs(values - truncated) >= 0.5, np.copysign(1, values), 0)
        away = np.where(np.isfinite(values), away, values).astype(values.dtype)
        return pa.array(away, vector_type(node.type), mask=np.asarray(pc.is_null(operand)))
    return row_by_row(lambda value: rounded_float(value, digits, node.type.bits), node.type, operand)


def rounded_float(value: float, digits: int, bits: int) -> float:
    """Return a float rounded half away from zero, as it prints: 2.675 becomes 2.68."""
    if not math.isfinite(value):
        return value
    printed = Fraction(str(np.float32(value)) if bits == 32 else repr(value))
    near = float(half_up(printed, Fraction(1, 10**digits)))
    return float(np.float32(near)) if bits == 32 else near


def _case(_: Call, operands: Sequence[Vector]) -> Vector:
    result = operands[-1]
    for index in range(len(operands) - 3, -1, -2):
        result = pc.if_else(pc.fill_null(operands[index], False), operands[index + 1], result)
    return result


def _like(node: Call, operands: Sequence[Vector]) -> Vector:
    words = {"any": ".*", "one": "."}
    pattern = "".join(words.get(part) or re.escape(part) for part in pattern_parts(str(node.detail)))
    return pc.match_substring_regex(operands[0], pattern=rf"(?s)\A{pattern}\z")


def _startswith(node: Call, operands: Sequence[Vector]) -> Vector:
    text, prefix = operands
    if isinstance(prefix, pa.Scalar) and prefix.is_valid:
        return pc.starts_with(text, pattern=prefix.as_py())
    return row_by_row(str.startswith, node.type, text, prefix)


def _cased(node: Call, operands: Sequence[Vector]) -> Vector:
    [text], is_upper = operands, node.function == "upper"
    plain = pc.string_is_ascii(text)
    # `string_is_ascii` may be false for an empty text.
    if pc.all(pc.or_(plain, pc.equal(text, "")), min_count=0).as_py():
        return (pc.ascii_upper if is_upper else pc.ascii_lower)(text)
    return row_by_row(str.upper if is_upper else str.lower, node.type, text)


def _date_trunc(node: Call, operands: Sequence[Vector]) -> Vector:
    """Return times truncated to a unit; null if that is before the least time."""
    [times], unit, data_type = operands, str(node.detail), node.type
    steps, lacking = np.asarray(times.fill_null(0)), np.asarray(pc.is_null(times))
    if unit in _MONTHS:
        times64 = steps.astype(f"datetime64[{data_type.unit}]")
        months = times64.astype("datetime64[M]").astype(np.int64) // _MONTHS[unit] * _MONTHS[unit]
        cut = months.astype("datetime64[M]").astype(times64.dtype).astype(np.int64)
    else:
        length = UNIT_S[unit] * TIME_STEPS[data_type.unit]
        if length <= 1:
            return times
        offset = _FIRST_MONDAY_S * TIME_STEPS[data_type.unit] if unit == "week" else 0
        cut = steps - np.mod(np.mod(steps, int(length)) - offset % int(length), int(length))
    return pa.array(cut, pa.int64(), mask=lacking | (cut > steps))


FUNCTIONS: dict[Function, Callable[[Call, Sequence[Vector]], Vector]] = {
    "-": _sign,
    "abs": _sign,
    "least": _extreme,
    "greatest": _extreme,
    "%": _remainder,
    "div": _quotient,
    "floor": _floor_or_ceil,
    "ceil": _floor_or_ceil,
    "round": _round,
    "case": _case,
    "coalesce": lambda _, operands: reduce(pc.coalesce, operands),
    "like": _like,
    "startswith": _startswith,
    "upper": _cased,
    "lower": _cased,
    "||": lambda _, operands: pc.binary_join_element_wise(*operands, ""),
    "date_trunc": _date_trunc,
}
"""The values of each function, given those of its operands."""
