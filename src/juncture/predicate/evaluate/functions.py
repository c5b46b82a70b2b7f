"""Functions on vectors, as in Spark, with null where a divisor is zero or a result does not fit its type."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from juncture.columnar.types import DAY_S
from juncture.predicate.evaluate.operations import Vector, compare, row_by_row
from juncture.predicate.language.functions import pattern_parts
from juncture.predicate.language.literals import UNIT_S
from juncture.predicate.language.nodes import Call, Function
from juncture.predicate.language.types import TIME_STEPS, half_up, vector_type

Array = npt.NDArray[Any]

_MONTHS = MappingProxyType({"month": 1, "quarter": 3, "year": 12})
_FIRST_MONDAY_S = -3 * DAY_S
"""Weeks start on Mondays, and 1970 on a Thursday."""


def call(node: Call, operands: Sequence[Vector]) -> Vector:
    """Return the values of a function, given those of its operands."""
    return _FUNCTIONS[node.function](node, operands)


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


def _whole(node: Call, operands: Sequence[Vector]) -> Vector:
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
            whole = np.trunc(values)
            away = whole + np.where(np.abs(values - whole) >= 0.5, np.copysign(1, values), 0)
        away = np.where(np.isfinite(values), away, values).astype(values.dtype)
        return pa.array(away, vector_type(node.type), mask=np.asarray(pc.is_null(operand)))
    return row_by_row(lambda value: rounded_float(value, digits, node.type.bits), node.type, operand)


def rounded_float(value: float, digits: int, bits: int) -> float:
    """Return a float, as it prints, rounded half away from zero.

    Examples
    --------
    >>> rounded_float(2.675, 2, 64)
    2.68
    """
    if not math.isfinite(value):
        return value
    printed = Fraction(str(np.float32(value)) if bits == 32 else repr(value))
    near = float(half_up(printed, Fraction(1, 10**digits)))
    return float(np.float32(near)) if bits == 32 else near


def _case(_: Call, operands: Sequence[Vector]) -> Vector:
    result = operands[-1]
    for place in range(len(operands) - 3, -1, -2):
        result = pc.if_else(pc.fill_null(operands[place], False), operands[place + 1], result)
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


_FUNCTIONS: dict[Function, Callable[[Call, Sequence[Vector]], Vector]] = {
    "-": _sign,
    "abs": _sign,
    "least": _extreme,
    "greatest": _extreme,
    "%": _remainder,
    "div": _quotient,
    "floor": _whole,
    "ceil": _whole,
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
