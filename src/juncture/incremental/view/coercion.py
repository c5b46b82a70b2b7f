"""The types in which values are compared and computed: as in DuckDB, except that integers have 64 bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.types as pat

from juncture.incremental.view.expressions import Constant, Expression, call

_MOST_DIGITS = 38
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def is_number(data_type: pa.DataType) -> bool:
    """Return whether a type is numeric."""
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type))


def is_text(data_type: pa.DataType) -> bool:
    """Return whether a type is text."""
    return bool(pat.is_string(data_type) or pat.is_large_string(data_type))


def cast(expression: Expression, data_type: pa.DataType) -> Expression:
    """Return an expression cast to a type; raises `pyarrow.ArrowException` if no cast exists."""
    if expression.type == data_type:
        return expression
    if isinstance(expression, Constant) and expression.value is None:
        return Constant(data_type, None)
    return call("cast", expression, option=data_type)


def _digits(expression: Expression) -> tuple[int, int]:
    """Return the maximum number of digits of an integer or decimal before and after the point."""
    if pat.is_decimal(expression.type):
        return expression.type.precision - expression.type.scale, expression.type.scale
    if isinstance(expression, Constant) and expression.value is not None and abs(expression.value) < 2**31:
        # DuckDB reads such constants as integers of 32 bits.
        return min(_INTEGER_DIGITS[expression.type.bit_width], _INTEGER_DIGITS[32]), 0
    return (20 if pat.is_uint64(expression.type) else _INTEGER_DIGITS[expression.type.bit_width]), 0


def _decimal(whole: int, scale: int) -> pa.DataType:
    """Return the decimal type with these digits before and after the point, capped at 38 in total."""
    return pa.decimal128(min(max(1, whole + scale), _MOST_DIGITS), scale)


def float_type(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """Return the widest float type among the types; None without floats."""
    floats = [each for each in types if pat.is_floating(each)]
    if not floats:
        return None
    return pa.float64() if pa.float64() in floats else pa.float32()


def numbers(one: Expression, other: Expression) -> tuple[Expression, Expression]:
    """Return two numbers in the type in which they are computed: int64, decimals, or floats."""
    types = (one.type, other.type)
    floating = float_type(types)
    if floating is not None:
        return cast(one, floating), cast(other, floating)
    if any(pat.is_decimal(each) for each in types):
        made = [each if pat.is_decimal(each.type) else cast(each, _decimal(*_digits(each))) for each in (one, other)]
        return made[0], made[1]
    return cast(one, pa.int64()), cast(other, pa.int64())


def common_type(expressions: Sequence[Expression], *, compared: bool = False) -> pa.DataType | None:
    """Return the type in which values are compared, or share a column; None if there is none.

    Decimals that need more than 38 digits lose some after the point in a column, but not in a comparison.

    Examples
    --------
    >>> common_type([Constant(pa.int32(), 1), Constant(pa.decimal128(5, 2), None)])
    Decimal128Type(decimal128(12, 2))
    """
    typed_values = [each for each in expressions if not pat.is_null(each.type)]
    types = {each.type for each in typed_values}
    if len(types) <= 1:
        return types.pop() if types else pa.null()
    if all(is_number(each) for each in types):
        return _common_number(typed_values, compared=compared)
    if all(is_text(each) for each in types):
        return pa.large_string()
    if all(pat.is_date(each) or pat.is_timestamp(each) for each in types):
        return _common_time(types)
    # A text constant takes the type of the other values.
    others = [each for each in typed_values if not (isinstance(each, Constant) and is_text(each.type))]
    return common_type(others, compared=compared) if 0 < len(others) < len(typed_values) else None


def _common_number(typed_values: Sequence[Expression], *, compared: bool) -> pa.DataType:
    types = {each.type for each in typed_values}
    floating = float_type(types)
    if floating is not None:
        return floating
    if any(pat.is_decimal(each) or pat.is_uint64(each) for each in types):
        digits = [_digits(each) for each in typed_values]
        scale = max(scale for _, scale in digits)
        if not compared:
            # Integers do not reduce the digits after the point.
            decimals = [each for each in typed_values if pat.is_decimal(each.type)]
            scale = min([scale, *(_MOST_DIGITS - _digits(each)[0] for each in decimals)])
        return _decimal(max(whole for whole, _ in digits), scale)
    return pa.int64()


def _common_time(types: set[pa.DataType]) -> pa.DataType | None:
    stamps = [each for each in types if pat.is_timestamp(each)]
    zones = {each.tz for each in stamps}
    if not stamps:
        return pa.date32()
    if len(zones) > 1 or (len(stamps) < len(types) and zones != {None}):
        return None
    return pa.timestamp(max((each.unit for each in stamps), key=("s", "ms", "us", "ns").index), zones.pop())


def in_common_type(expressions: Sequence[Expression], *, compared: bool = False) -> list[Expression] | None:
    """Return values cast to their common type; None if they have none."""
    data_type = common_type(expressions, compared=compared)
    return None if data_type is None else [cast(each, data_type) for each in expressions]
