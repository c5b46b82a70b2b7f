"""What functions of SQL are in ``pyarrow.compute``: each takes values and an option, and gives values.

NaN equals NaN and is the greatest number, as in ``ORDER BY``; integers overflow with an error; ``/`` is of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import raw_values

Operand = Any
"""An array, or a scalar for the same value in all rows."""

Function = Callable[[Sequence[Operand], Any], Operand]

_MOST_DIGITS = 38


def _is_float(operand: Operand) -> bool:
    return bool(pat.is_floating(operand.type))


def _may_be_nan(operand: Operand) -> bool:
    """Tell whether a float may be NaN; what stands in the place of nulls counts, too."""
    if isinstance(operand, pa.Scalar):
        return operand.as_py() is None or math.isnan(operand.as_py())
    if isinstance(operand, pa.ChunkedArray) or not (pat.is_float64(operand.type) or pat.is_float32(operand.type)):
        return True
    return bool(np.isnan(raw_values(operand, f"f{operand.type.bit_width // 8}")).any())


def _compare(name: str) -> Function:
    plain = getattr(pc, name)

    def compared(operands: Sequence[Operand], _option: Any) -> Operand:
        one, other = operands
        if not (_is_float(one) and _is_float(other)) or not (_may_be_nan(one) or _may_be_nan(other)):
            return plain(one, other)
        left, right = pc.is_nan(one), pc.is_nan(other)
        either = pc.or_(left, right)
        # As if NaN were 1 and every other number 0.
        return pc.if_else(either, plain(left.cast(pa.int8()), right.cast(pa.int8())), plain(one, other))

    return compared


def _digits(name: str, one: pa.DataType, other: pa.DataType) -> int:
    """Return how many digits the result of two decimals may need, by Arrow's rules."""
    if name == "multiply":
        return int(one.precision + other.precision + 1)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return int(whole + max(one.scale, other.scale) + 1)


def _arithmetic(name: str) -> Function:
    checked = getattr(pc, f"{name}_checked")

    def worked_out(operands: Sequence[Operand], _option: Any) -> Operand:
        one, other = operands
        if not (pat.is_decimal(one.type) and pat.is_decimal(other.type)):
            return checked(one, other)
        are_plain = pat.is_decimal128(one.type) and pat.is_decimal128(other.type)
        if are_plain and _digits(name, one.type, other.type) <= _MOST_DIGITS:
            return checked(one, other)
        # A result has as many digits as it may need; of more than 38, those that it has are counted.
        wide = checked(*(each.cast(pa.decimal256(each.type.precision, each.type.scale)) for each in (one, other)))
        digits = min(wide.type.precision, _MOST_DIGITS)
        return wide.cast(pa.decimal128(digits, wide.type.scale))

    return worked_out


def _divide(operands: Sequence[Operand], _option: Any) -> Operand:
    return pc.divide(*(each if pat.is_float64(each.type) else each.cast(pa.float64()) for each in operands))


def _remainder(operands: Sequence[Operand], _option: Any) -> Operand:
    one, other = operands
    return pc.subtract(one, pc.multiply(other, pc.divide_checked(one, other)))


def _cast(operands: Sequence[Operand], option: pa.DataType) -> Operand:
    (value,) = operands
    whole = pat.is_integer(option)
    if pat.is_integer(value.type) and pat.is_decimal(option):
        # By way of a decimal that holds all integers, since what counts is whether these fit.
        value = value.cast(pa.decimal128(20, 0))
    if pat.is_floating(value.type) and whole:
        value = pc.round(value, round_mode="half_to_even")
    if pat.is_decimal(value.type) and (whole or (pat.is_decimal(option) and option.scale < value.type.scale)):
        value = pc.round(value, ndigits=0 if whole else option.scale, round_mode="half_towards_infinity")
    if pat.is_floating(value.type) and pat.is_decimal(option):
        value = pc.round(value, ndigits=option.scale, round_mode="half_towards_infinity")
    return value.cast(option)


def _case(operands: Sequence[Operand], _option: Any) -> Operand:
    """Take conditions and values in turn, and what stands if no condition is true."""
    *pairs, other = operands
    conditions, values = pairs[::2], pairs[1::2]
    found = other
    for condition, value in reversed(list(zip(conditions, values, strict=True))):
        found = pc.if_else(pc.fill_null(condition, False), value, found)
    return found


def _coalesce(operands: Sequence[Operand], _option: Any) -> Operand:
    return pc.coalesce(*operands)


def _in(operands: Sequence[Operand], option: tuple[tuple[Any, ...], bool]) -> Operand:
    (value,) = operands
    known, has_null = option
    found = pc.is_in(value, value_set=pa.array(known, value.type))
    if has_null:
        found = pc.if_else(found, True, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_null(value), pa.scalar(None, pa.bool_()), found)


def _like(operands: Sequence[Operand], option: tuple[str, bool]) -> Operand:
    return pc.match_like(operands[0], option[0], ignore_case=option[1])


def _substring(operands: Sequence[Operand], option: tuple[int, int | None]) -> Operand:
    start, length = option
    first = start - 1
    stop = None if length is None else first + length
    return pc.utf8_slice_codeunits(operands[0], max(first, 0), None if stop is None else max(stop, 0))


def _concat(operands: Sequence[Operand], option: bool) -> Operand:
    separator = pa.scalar("", operands[0].type)
    handling = "skip" if option else "emit_null"
    return pc.binary_join_element_wise(*operands, separator, null_handling=handling)


def _round(operands: Sequence[Operand], option: int) -> Operand:
    return pc.round(operands[0], ndigits=option, round_mode="half_towards_infinity")


def _plain(name: str) -> Function:
    function = getattr(pc, name)

    def called(operands: Sequence[Operand], _option: Any) -> Operand:
        return function(*operands)

    return called


def _extreme(name: str) -> Function:
    function = getattr(pc, name)

    def called(operands: Sequence[Operand], _option: Any) -> Operand:
        return function(*operands, skip_nulls=True)

    return called


def _floor_temporal(operands: Sequence[Operand], option: str) -> Operand:
    return pc.floor_temporal(operands[0], unit=option)


def _part(name: str) -> Function:
    function = getattr(pc, name)

    def called(operands: Sequence[Operand], _option: Any) -> Operand:
        return function(operands[0]).cast(pa.int64())

    return called


def _later(operands: Sequence[Operand], _option: Any) -> Operand:
    """Return dates so many days later."""
    days, more = operands
    return pc.add_checked(days.cast(pa.int32()).cast(pa.int64()), more).cast(pa.int32()).cast(pa.date32())


def _days_between(operands: Sequence[Operand], _option: Any) -> Operand:
    return pc.subtract(*(operand.cast(pa.int32()).cast(pa.int64()) for operand in operands))


def _distinct_from(operands: Sequence[Operand], _option: Any) -> Operand:
    one, other = operands
    differs = _compare("not_equal")(operands, None)
    if isinstance(differs, pa.Array) and not differs.null_count:
        return differs
    missing = pc.xor(pc.is_null(one), pc.is_null(other))
    return pc.or_(missing, pc.fill_null(differs, False))


_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_PARTS = ("year", "quarter", "month", "day", "hour", "minute", "second", "day_of_year", "iso_week")

FUNCTIONS: Mapping[str, Function] = {
    **{name: _compare(name) for name in _COMPARISONS},
    **{name: _arithmetic(name) for name in ("add", "subtract", "multiply")},
    **{name: _part(name) for name in _PARTS},
    "divide": _divide,
    "int_divide": _plain("divide_checked"),
    "remainder": _remainder,
    "negate": _plain("negate_checked"),
    "abs": _plain("abs_checked"),
    "floor": _plain("floor"),
    "ceil": _plain("ceil"),
    "sqrt": _plain("sqrt"),
    "round": _round,
    "and": _plain("and_kleene"),
    "or": _plain("or_kleene"),
    "not": _plain("invert"),
    "is_null": _plain("is_null"),
    "distinct_from": _distinct_from,
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "least": _extreme("min_element_wise"),
    "greatest": _extreme("max_element_wise"),
    "cast": _cast,
    "lower": _plain("utf8_lower"),
    "upper": _plain("utf8_upper"),
    "trim": _plain("utf8_trim_whitespace"),
    "length": _part("utf8_length"),
    "substring": _substring,
    "concat": _concat,
    "like": _like,
    "date_trunc": _floor_temporal,
    "add_days": _later,
    "days_between": _days_between,
}
