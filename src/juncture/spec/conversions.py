"""Conversion of two columns of different numeric types, so that they compare by value.

Integers and decimals compare as decimals, and integers of up to 32 bits and floats as floats: both represent all
values. Decimals beside floats compare as the nearest float, as in predicates. 64-bit integers exceed floats: for
equality, a float matches only if it is such an integer.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import TIME_UNITS, is_null_type, key_kind, plain_type
from juncture.errors import SchemaError
from juncture.spec.compared import ComparedColumns
from juncture.spec.schema import SIDES, Side

_EXACT_BITS = 32  # the width up to which floats represent all integers

_DIGITS_MAX = 38
_WIDE_DIGITS_MAX = 76
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def matched_keys(
    columns: ComparedColumns, pairs: Sequence[tuple[str, str]], *, fills: bool, nulls_equal: bool = False
) -> list[tuple[str, str]]:
    """Return pairs of columns of one kind, added to ``columns``, that are equal exactly where the given pairs are.

    ``fills`` is whether right values fill the left column in unmatched rows, which needs one type. Raises SchemaError
    if no type represents the values of both.
    """
    result: list[tuple[str, str]] = []
    for left, right in pairs:
        types = columns.type("left", left), columns.type("right", right)
        if types[0] == types[1]:
            result.append((left, right))
            continue
        kinds = key_kind(types[0]), key_kind(types[1])
        if kinds[0] == kinds[1]:
            shared = _common_type(*types) if fills and plain_type(types[0]) != plain_type(types[1]) else None
            result.append((left, right) if shared is None else _both(columns, left, right, shared))
        elif not set(kinds) <= {"integer", "float", "decimal"}:
            result.append((left, right))
        elif "float" not in kinds or (_is_small(types) and "decimal" not in kinds):
            shared = pa.float64() if "float" in kinds else _common_decimal(*types)
            result.append((left, right) if shared is None else _both(columns, left, right, shared))
        elif fills:
            labels = columns.value("left", left).label, columns.value("right", right).label
            raise SchemaError(
                f"{labels[0]!r} ({types[0]}) and {labels[1]!r} ({types[1]}) have no common type, but "
                "how='right' and 'full' write right keys into the left column. Cast one of them first.",
                name="JN-FILL-TYPE",
            )
        else:
            result += _with_floats(columns, (left, right), kinds, nulls_equal=nulls_equal)
    return result


def ordered(columns: ComparedColumns, sides: Sequence[tuple[Side, str]], *, exact: bool = False) -> list[str]:
    """Return columns of one kind with the order of the given ones, converting numbers of several kinds.

    ``exact`` keeps 64-bit integers beside floats for an exact comparison; otherwise they become the nearest float.
    """
    types = [columns.type(side, name) for side, name in sides]
    if types.count(types[0]) == len(types):
        return [name for _, name in sides]
    kinds = {key_kind(each) for each in types} - {"null"}
    if len(kinds) < 2 or not kinds <= {"integer", "float", "decimal"}:
        return [name for _, name in sides]
    if "float" not in kinds:
        shared = _common_decimal(*types)
        return [name if shared is None else columns.converted(name, shared, side) for side, name in sides]
    if exact and "decimal" not in kinds and not _is_small(types):
        return [name for _, name in sides]
    # Floats are converted too, so that columns that share a name still do.
    return [
        name if is_null_type(each) else columns.expression(f"CAST({columns.sql(name, side)} AS DOUBLE)", side, of=name)
        for (side, name), each in zip(sides, types, strict=True)
    ]


def filled(columns: ComparedColumns, left: str, right: str) -> tuple[str, str]:
    """Return a pair of columns of one type, if they have one kind but different types."""
    types = columns.type("left", left), columns.type("right", right)
    if key_kind(types[0]) != key_kind(types[1]) or plain_type(types[0]) == plain_type(types[1]):
        return left, right
    shared = _common_type(*types)
    return (left, right) if shared is None else _both(columns, left, right, shared)


def _both(columns: ComparedColumns, left: str, right: str, data_type: pa.DataType) -> tuple[str, str]:
    return columns.converted(left, data_type, "left"), columns.converted(right, data_type, "right")


def _with_floats(
    columns: ComparedColumns, pair: tuple[str, str], kinds: tuple[str, str], *, nulls_equal: bool
) -> list[tuple[str, str]]:
    """Return the pairs to compare for equality of floats with wide integers or decimals."""
    index = kinds.index("float")
    other = pair[1 - index]
    result = list(pair)
    if "decimal" in kinds:
        result[1 - index] = columns.expression(
            f"CAST({columns.sql(other, SIDES[1 - index])} AS DOUBLE)", SIDES[1 - index], of=other
        )
        return [(result[0], result[1])]
    if pat.is_uint64(plain_type(columns.type(SIDES[1 - index], other))):
        left, right = columns.value("left", pair[0]).label, columns.value("right", pair[1]).label
        raise SchemaError(
            f"{left!r} and {right!r} are 64-bit unsigned integers and floats, which do not compare exactly. Cast one "
            "of them to the type of the other.",
            name="JN-TYPE-INEXACT",
        )
    # A float that is not a 64-bit integer equals none, and becomes null.
    floats = columns.sql(pair[index], SIDES[index])
    integer = f"CAST({floats} AS BIGINT)"
    text = f"CASE WHEN {integer} = {floats} THEN {integer} END"
    result[index] = columns.expression(text, SIDES[index], of=pair[index])
    if not nulls_equal:
        return [(result[0], result[1])]
    # Distinguishes these nulls from the original ones.
    nulls = [
        columns.expression(f"{columns.sql(name, side)} IS NULL", side) for name, side in zip(pair, SIDES, strict=True)
    ]
    return [(result[0], result[1]), (nulls[0], nulls[1])]


def _is_small(types: Sequence[pa.DataType]) -> bool:
    """Return whether floats represent all values of the integers among some types."""
    plain = [plain_type(each) for each in types]
    return all(each.bit_width <= _EXACT_BITS for each in plain if pat.is_integer(each))


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the smallest type that represents all values of two types of one kind, or None."""
    left, right = plain_type(left), plain_type(right)
    if pat.is_integer(left):
        return _common_integer(left, right)
    if pat.is_floating(left):
        return max(left, right, key=lambda each: each.bit_width)
    if pat.is_decimal(left):
        return _common_decimal(left, right)
    if pat.is_date(left):
        return pa.date32()
    if pat.is_timestamp(left) or pat.is_time(left):
        return _common_time(left, right)
    texts = (pat.is_string, pat.is_large_string, pat.is_string_view)
    if any(test(left) for test in texts):
        return pa.large_string()
    blobs = (pat.is_binary, pat.is_large_binary, pat.is_binary_view, pat.is_fixed_size_binary)
    return pa.large_binary() if any(test(left) for test in blobs) else None


def _common_time(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of the finer unit, in the time zone of the first."""
    unit = max(left.unit, right.unit, key=TIME_UNITS.index)
    if pat.is_timestamp(left):
        return pa.timestamp(unit, left.tz)
    return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)


def _common_integer(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pat.is_unsigned_integer(left) == pat.is_unsigned_integer(right):
        return max(left, right, key=lambda each: each.bit_width)
    unsigned, signed = (left, right) if pat.is_unsigned_integer(left) else (right, left)
    bits = max(2 * unsigned.bit_width, signed.bit_width)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(bits, pa.decimal128(20, 0))


def _common_decimal(*types: pa.DataType) -> pa.DataType | None:
    """Return the decimal that represents all values of integers and decimals, or None."""
    integer_digits = scale = 0
    for each in map(plain_type, types):
        if pat.is_null(each):
            continue
        digits, after = (each.precision, each.scale) if pat.is_decimal(each) else (_digits(each), 0)
        integer_digits, scale = max(integer_digits, digits - after), max(scale, after)
    if integer_digits + scale > _WIDE_DIGITS_MAX:
        return None
    return (pa.decimal128 if integer_digits + scale <= _DIGITS_MAX else pa.decimal256)(integer_digits + scale, scale)


def _digits(data_type: pa.DataType) -> int:
    return 20 if pat.is_uint64(data_type) else _INTEGER_DIGITS[data_type.bit_width]
