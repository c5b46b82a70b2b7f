"""Decimal conversions and rounding as in DuckDB, where Arrow's kernels differ or overflow silently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.columnar.arrays import array_of, raw_values, validity
from juncture.kernels.array_types import Mask

_MOST_WIDE_DIGITS = 76
_WORD = (1 << 64) - 1
_EXACT_UNITS, _EXACT_POWER = 1 << 53, 22
"""All integers, and all powers of ten, up to these are exact floats."""


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
    whole = source.precision - source.scale
    return pc.round(wide, ndigits=min(max(digits, -whole - 1), source.scale), round_mode=rounding)


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
