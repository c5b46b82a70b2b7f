"""The SQL functions of views, in ``pyarrow.compute``. Each maps operands and an option to values.

NaN equals NaN and is the greatest number, as in ``ORDER BY``. Integer overflows raise errors. ``/`` divides floats.
Decimals are converted and rounded as in DuckDB, where Arrow's kernels differ or overflow silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, float_codes, raw_values, validity
from juncture.incremental.expressions.evaluation import DuckQuery, evaluated
from juncture.kernels.array_types import Mask

_MOST_WIDE_DIGITS = 76
_WORD = (1 << 64) - 1
_EXACT_UNITS, _EXACT_POWER = 1 << 53, 22  # all integers, and all powers of ten, up to these are exact floats


def decimal_array(units: Sequence[int], data_type: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """Return 128-bit decimals from integers in units of the last digit; null where not valid."""
    words = np.empty((len(units), 2), np.uint64)
    words[:, 0] = [unit & _WORD for unit in units]
    words[:, 1] = [(unit >> 64) & _WORD for unit in units]
    return array_of(words, data_type, valid)


def units_of(values: pa.Array) -> list[int]:
    """Return decimals as integers in units of the last digit. Values for nulls are arbitrary."""
    units: list[int] = raw_values(values, np.int64)[:, -1].tolist()
    for words in raw_values(values, np.uint64)[:, -2::-1].T.tolist():
        units = [(unit << 64) | word for unit, word in zip(units, words, strict=True)]
    return units


def narrower(values: pa.Array | pa.Scalar, precision: int) -> pa.Array | pa.Scalar:
    """Return decimals in a type with fewer digits, unchecked: all values must fit ``precision`` digits."""
    data_type = pa.decimal128(precision, values.type.scale)
    if isinstance(values, pa.Scalar):
        return values.cast(data_type)
    return pa.Array.from_buffers(data_type, len(values), values.buffers(), -1, values.offset)


def rounded(values: pa.Array | pa.Scalar, digits: int, rounding: str) -> pa.Array | pa.Scalar:
    """Return decimals rounded to ``digits`` after (or, if negative, before) the point, with room for a carry."""
    source = values.type
    # In the original precision, Arrow returns zero for values that carry into another digit, if there are nulls.
    wide = values.cast(pa.decimal256(_MOST_WIDE_DIGITS, source.scale))
    integer_digits = source.precision - source.scale
    return pc.round(wide, ndigits=min(max(digits, -integer_digits - 1), source.scale), round_mode=rounding)


def to_floats(values: pa.Array) -> pa.Array:
    """Return the nearest float of each decimal."""
    scale = values.type.scale
    low, *higher = raw_values(values, np.int64).T
    is_exact = scale <= _EXACT_POWER and all((word == low >> 63).all() for word in higher)
    if is_exact and (np.abs(low) <= _EXACT_UNITS).all():
        floats = low / float(10**scale)
    else:
        # Python divides integers with a single rounding.
        floats = np.array([unit / 10**scale for unit in units_of(values)], np.float64)
    return array_of(floats, pa.float64(), validity(values))


Operand = Any
"""An array, or a scalar for all rows."""

_WILDCARDS = {"%": ".*", "_": "."}
_INTEGERS = pa.decimal128(20, 0)  # a decimal type that represents all integers

Function = Callable[[Sequence[Operand], Any], Operand]

_MOST_DIGITS = 38
_NAN_CODE = int(float_codes(np.array([np.inf]))[0]) + 1
_HALF_AWAY = "half_towards_infinity"


def _is_float(operand: Operand) -> bool:
    return bool(pat.is_floating(operand.type))


def _may_be_nan(operand: Operand) -> bool:
    """Return whether a float operand may have NaN. Values under nulls count."""
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
        # Compare NaN as 1 and other numbers as 0.
        return pc.if_else(either, plain(left.cast(pa.int8()), right.cast(pa.int8())), plain(one, other))

    return compared


def _digits(name: str, one: pa.DataType, other: pa.DataType) -> int:
    """Return the digits that Arrow's rules require for the result of two decimals."""
    if name == "multiply":
        return int(one.precision + other.precision + 1)
    integer_digits = max(one.precision - one.scale, other.precision - other.scale)
    return int(integer_digits + max(one.scale, other.scale) + 1)


def _arithmetic(name: str) -> Function:
    checked = getattr(pc, f"{name}_checked")

    def worked_out(operands: Sequence[Operand], _option: Any) -> Operand:
        one, other = operands
        if not (pat.is_decimal(one.type) and pat.is_decimal(other.type)):
            return checked(one, other)
        are_plain = pat.is_decimal128(one.type) and pat.is_decimal128(other.type)
        if are_plain and _digits(name, one.type, other.type) <= _MOST_DIGITS:
            product_or_sum = checked(one, other)
            return (
                narrower(product_or_sum, one.type.precision + other.type.precision)
                if name == "multiply"
                else product_or_sum
            )
        if are_plain and name != "multiply":
            scale = max(one.type.scale, other.type.scale)
            one, other = (each.cast(pa.decimal128(_MOST_DIGITS, scale)) for each in (one, other))
        # The result type has all digits that it may need. Beyond 38, the cast checks the actual digits.
        wide = checked(*(each.cast(pa.decimal256(each.type.precision, each.type.scale)) for each in (one, other)))
        if wide.type.scale > _MOST_DIGITS:
            raise pa.ArrowInvalid(f"the product needs {wide.type.scale} digits after the point, at most {_MOST_DIGITS}")
        # Arrow's rules add one digit to a product, which needs only the sum of the digits of its factors.
        digits = min(wide.type.precision - (name == "multiply"), _MOST_DIGITS)
        return wide.cast(pa.decimal128(digits, wide.type.scale))

    return worked_out


def _remainder(operands: Sequence[Operand], _option: Any) -> Operand:
    one, other = operands
    return pc.subtract(one, pc.multiply(other, pc.divide_checked(one, other)))


def _cast(operands: Sequence[Operand], option: pa.DataType) -> Operand:
    (value,) = operands
    if isinstance(value, pa.Scalar):
        return _cast([pa.repeat(value, 1)], option)[0]
    if pat.is_floating(option):
        return _as_floats(value, option)
    if pat.is_floating(value.type) and pat.is_integer(option):
        return pc.round(value, round_mode="half_to_even").cast(option)
    if pat.is_decimal(value.type) and pat.is_integer(option):
        return rounded(value, 0, _HALF_AWAY).cast(option)
    if pat.is_decimal(value.type) and pat.is_decimal(option) and option.scale < value.type.scale:
        return rounded(value, option.scale, _HALF_AWAY).cast(option)
    if pat.is_integer(value.type) and pat.is_decimal(option):
        # The values must fit, even if their type is wider.
        return value.cast(_INTEGERS).cast(option)
    return value.cast(option)


def _as_floats(value: pa.Array, option: pa.DataType) -> pa.Array:
    if pat.is_decimal(value.type):
        return to_floats(value).cast(option)
    floats = value.cast(option, safe=False)
    if pat.is_float32(option) and pat.is_float64(value.type):
        beyond = pc.and_(pc.is_inf(floats), pc.invert(pc.is_inf(value)))
        if pc.any(beyond).as_py():
            raise pa.ArrowInvalid(f"{value[pc.index(beyond, True).as_py()]} does not fit FLOAT")
    return floats


def _case(operands: Sequence[Operand], _option: Any) -> Operand:
    """Return the value of the first true condition. Operands are conditions and values in turn, then the default."""
    *pairs, other = operands
    conditions, values = pairs[::2], pairs[1::2]
    result = other
    for condition, value in reversed(list(zip(conditions, values, strict=True))):
        result = pc.if_else(pc.fill_null(condition, False), value, result)
    return result


def _without_signs(value: Operand) -> Operand:
    """Return floats with signless zeros and NaN. Values that differ only in this sign are equal."""
    value = pc.add(value, pa.scalar(0.0, value.type))
    return pc.if_else(pc.is_nan(value), pa.scalar(math.nan, value.type), value) if _may_be_nan(value) else value


def _divide(operands: Sequence[Operand], _option: Any) -> Operand:
    one, other = operands
    # Rows with 0.0 and -0.0 are equal, so they must divide alike.
    return pc.divide(one, _without_signs(other))


def _in(operands: Sequence[Operand], option: tuple[tuple[Any, ...], bool]) -> Operand:
    (value,) = operands
    choices, has_null = option
    if _is_float(value):
        # is_in compares floats by their bits.
        value, choices = _without_signs(value), tuple(each + 0.0 for each in choices)
    matches = pc.is_in(value, value_set=pa.array(choices, value.type))
    if has_null:
        matches = pc.if_else(matches, True, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_null(value), pa.scalar(None, pa.bool_()), matches)


def _like(operands: Sequence[Operand], option: tuple[str, bool]) -> Operand:
    pattern, ignore_case = option
    (text,) = operands
    if ignore_case:
        text, pattern = pc.utf8_lower(text), pc.utf8_lower(pa.scalar(pattern)).as_py()
    if "\\" not in pattern:
        return pc.match_like(text, pattern)
    # A backslash is a plain character in DuckDB, but an escape in Arrow's patterns.
    parts = (_WILDCARDS.get(each) or re.escape(each) for each in pattern)
    return pc.match_substring_regex(text, f"(?s)\\A{''.join(parts)}\\z")


def _substring(operands: Sequence[Operand], option: tuple[int, int | None]) -> Operand:
    start, length = option
    first = start - 1
    stop = None if length is None else first + length
    return pc.utf8_slice_codeunits(operands[0], max(first, 0), None if stop is None else max(stop, 0))


def _plain(name: str) -> Function:
    function = getattr(pc, name)
    return lambda operands, _option: function(*operands)


def _greatest(operands: Sequence[Operand], _option: Any) -> Operand:
    greatest = pc.max_element_wise(*operands, skip_nulls=True)
    for each in operands:
        if _is_float(each) and _may_be_nan(each):
            # Arrow skips NaN, which is the greatest number.
            greatest = pc.if_else(pc.fill_null(pc.is_nan(each), False), each, greatest)
    return greatest


def _distinct_from(operands: Sequence[Operand], _option: Any) -> Operand:
    one, other = operands
    differs = _compare("not_equal")(operands, None)
    if isinstance(differs, pa.Array) and not differs.null_count:
        return differs
    missing = pc.xor(pc.is_null(one), pc.is_null(other))
    return pc.or_(missing, pc.fill_null(differs, False))


def _order(operands: Sequence[Operand], _option: Any) -> Operand:
    """Return integers in the order of floats, NaN last. As-of joins skip NaN in floats."""
    (value,) = operands
    codes = float_codes(raw_values(value.cast(pa.float64()), np.float64))
    return array_of(np.minimum(codes, _NAN_CODE), pa.int64(), validity(value))


def _by_duckdb(operands: Sequence[Operand], query: DuckQuery) -> Operand:
    arrays = [each for each in operands if not isinstance(each, pa.Scalar)]
    values = evaluated(query, operands, len(arrays[0]) if arrays else 1)
    return values if arrays else values[0]


COMPARISONS = {
    "equal": "=", "not_equal": "<>", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
}  # fmt: skip
"""The SQL of functions that compare two values."""

FUNCTIONS: Mapping[str, Function] = {
    **{name: _compare(name) for name in COMPARISONS},
    **{name: _arithmetic(name) for name in ("add", "subtract", "multiply")},
    "divide": _divide,
    "int_divide": _plain("divide_checked"),
    "remainder": _remainder,
    "negate": _plain("negate_checked"),
    "and": _plain("and_kleene"),
    "or": _plain("or_kleene"),
    "not": _plain("invert"),
    "is_null": _plain("is_null"),
    "duckdb": _by_duckdb,
    "order": _order,
    "distinct_from": _distinct_from,
    "in": _in,
    "case": _case,
    "coalesce": _plain("coalesce"),
    "least": lambda operands, _: pc.min_element_wise(*operands, skip_nulls=True),
    "greatest": _greatest,
    "cast": _cast,
    "lower": _plain("utf8_lower"),
    "upper": _plain("utf8_upper"),
    "length": lambda operands, _: pc.utf8_length(operands[0]).cast(pa.int64()),
    "substring": _substring,
    "concat": lambda operands, _: pc.binary_join_element_wise(*operands, pa.scalar("", operands[0].type)),
    "like": _like,
}
