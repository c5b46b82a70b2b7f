"""Rows as Python values, which compare as the joins compare them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import DAY_MS, DAY_S, TIME_UNITS, plain_type
from juncture.ordered.domain import Domain


def values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values as Python's, but dates as days and times as nanoseconds, which Python's types would round."""
    return [value for chunk in column.chunks for value in _values(chunk)]


def _values(array: pa.Array) -> list[Any]:
    data_type = array.type
    if pat.is_dictionary(data_type):
        items = _values(array.dictionary)
        return [None if index is None else items[index] for index in array.indices.to_pylist()]
    if pat.is_run_end_encoded(data_type):
        items, ends = _values(array.values), array.run_ends.to_pylist()
        return [items[bisect_right(ends, array.offset + row)] for row in range(len(array))]
    if isinstance(data_type, pa.BaseExtensionType):
        return _values(array.storage)
    if pat.is_struct(data_type):
        parts = [_values(part) for part in array.flatten()]
        rows = zip(*parts, strict=True) if parts else [()] * len(array)
        fields = [dict(zip((field.name for field in data_type), row, strict=True)) for row in rows]
        return [row if there else None for row, there in zip(fields, array.is_valid().to_pylist(), strict=True)]
    if pat.is_map(data_type):
        entries = [None if row.values is None else row.values.flatten() for row in array]
        return [None if entry is None else list(zip(*map(_values, entry), strict=True)) for entry in entries]
    if pat.is_union(data_type):
        return [{"code": each.type_code, "value": each.as_py()} for each in array]
    if pat.is_nested(data_type):
        return [None if row.values is None else _values(row.values) for row in array]
    if pat.is_temporal(data_type) and not pat.is_interval(data_type):
        numbers = array.cast(pa.int32() if data_type.bit_width == 32 else pa.int64()).to_pylist()
        return [None if number is None else _exact(number, data_type) for number in numbers]
    return [float(value) if pat.is_float16(data_type) and value is not None else value for value in array.to_pylist()]


def _exact(number: int, data_type: pa.DataType) -> int:
    """Return the days or nanoseconds of the integer form of a time."""
    if pat.is_date32(data_type):
        return number
    if pat.is_date64(data_type):
        return number // DAY_MS
    return int(number * 1_000 ** (3 - TIME_UNITS.index(data_type.unit)))


def cell(column: pa.ChunkedArray, row: int) -> pa.Array:
    """Return one value without an encoding, as an array."""
    [array] = (chunk for chunk in column.slice(row, 1).chunks if len(chunk))
    while True:
        if pat.is_dictionary(array.type):
            index = array.indices[0].as_py()
            array = pa.nulls(1, array.type.value_type) if index is None else array.dictionary.slice(index, 1)
        elif pat.is_run_end_encoded(array.type):
            array = array.values.slice(array.find_physical_offset(), 1)
        elif isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        else:
            return array


def on_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values as exact numbers, texts or tuples, times in nanoseconds; None for null and NaN."""
    if pat.is_struct(column.type):
        parts = map(on_values, column.flatten())
        return [None if None in row else row for row in zip(*parts, strict=True)]
    unit = DAY_S * 10**9 if pat.is_date(plain_type(column.type)) else 1
    exact = [Fraction(value) if isinstance(value, Decimal) else value for value in values(column)]
    return [None if value is None or value != value else value * unit for value in exact]


def unit_of(domain: Domain) -> Fraction | int:
    """Return a step of the domain in the numbers of `on_values`."""
    return domain.step * 10**9 if domain.is_time else domain.step


def keys(table: pa.Table, names: tuple[str, ...], *, nulls_equal: bool = False) -> list[tuple[Any, ...] | None]:
    """Return the key of each row; None if one of its values is null, unless nulls are equal."""
    columns = [[_comparable(value) for value in values(table[name])] for name in names]
    rows = zip(*columns, strict=True) if columns else ((),) * table.num_rows
    return [None if None in row and not nulls_equal else row for row in rows]


def _comparable(value: Any) -> Any:
    """Return a value in which NaN equals itself, within nested values too."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    if isinstance(value, dict):
        return tuple(map(_comparable, value.values()))
    return value


def tie_order(rows: list[tuple[Any, ...]]) -> Callable[[int, int], int]:
    """Return a comparison of right rows by their tie columns, the order of entries of equal maps, and position."""
    return lambda a, b: compare(rows[a], rows[b]) or compare(rows[a], rows[b], by_key=False) or sign(a, b)


def compare(a: Any, b: Any, *, by_key: bool = True) -> int:
    """Compare two values of a column: nulls lowest, NaN highest; maps by their entries in the order of keys."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if isinstance(a, float) and (math.isnan(a) or math.isnan(b)):
        return math.isnan(a) - math.isnan(b)
    if isinstance(a, dict):
        return compare(list(a.values()), list(b.values()), by_key=by_key)
    if isinstance(a, list | tuple):
        a, b = (_entries(a), _entries(b)) if by_key else (a, b)
        for one, other in zip(a, b, strict=False):
            if order := compare(one, other, by_key=by_key):
                return order
        return sign(len(a), len(b))
    return sign(a, b)


def _entries(items: Any) -> Any:
    """Return the entries of a map in the order of keys, and other values unchanged. Only maps are lists of tuples."""
    if isinstance(items, list) and items and type(items[0]) is tuple:
        return sorted(items, key=lambda entry: entry[0])
    return items


def sign(a: Any, b: Any) -> int:
    """Return -1, 0 or 1 if the first is less, equal or greater."""
    return int(a > b) - int(a < b)
