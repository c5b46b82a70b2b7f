"""Rows as values of Python, which compare as the joins compare them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import localcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.spec.schema import TIME_UNITS, Domain, plain_type

__all__ = ["compare", "keys", "on_values", "plain", "sign", "tie_order", "values"]


def values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values as Python's, but dates as days and times as nanoseconds.

    Python's own round nanoseconds, and end in 9999.
    """
    column = plain(column)
    return [_exact(value, column.type) for value in column.cast(_timeless(column.type)).to_pylist()]


def _exact(value: Any, data_type: pa.DataType) -> Any:
    """Turn the integers that `_timeless` made of times into days and nanoseconds."""
    if value is None:
        return None
    if pat.is_struct(data_type):
        return {field.name: _exact(value[field.name], field.type) for field in data_type}
    if pat.is_map(data_type):
        return [(_exact(key, data_type.key_type), _exact(item, data_type.item_type)) for key, item in value]
    if isinstance(value, list):
        return [_exact(item, data_type.value_type) for item in value]
    if pat.is_date64(data_type):
        return value // 86_400_000
    if pat.is_timestamp(data_type) or pat.is_duration(data_type) or pat.is_time(data_type):
        return value * 1_000 ** (3 - TIME_UNITS.index(data_type.unit))
    return value


def _timeless(data_type: pa.DataType) -> pa.DataType:
    """Return the type with integers in place of times."""
    if pat.is_struct(data_type):
        return pa.struct([field.with_type(_timeless(field.type)) for field in data_type])
    if pat.is_map(data_type):
        return pa.map_(_timeless(data_type.key_type), _timeless(data_type.item_type))
    if pat.is_list(data_type):
        return pa.list_(_timeless(data_type.value_type))
    if pat.is_large_list(data_type):
        return pa.large_list(_timeless(data_type.value_type))
    if pat.is_fixed_size_list(data_type):
        return pa.list_(_timeless(data_type.value_type), data_type.list_size)
    if pat.is_temporal(data_type) and not pat.is_interval(data_type):
        return pa.int32() if data_type.bit_width == 32 else pa.int64()
    return data_type


def on_values(column: pa.ChunkedArray, domain: Domain) -> list[Any]:
    """Return the values in steps of the domain; None where they never match."""
    cells = values(column)
    if domain.kind == "float":
        return [None if v is None or math.isnan(v) else float(v) for v in cells]
    if domain.kind == "decimal":
        with localcontext(prec=100):
            return [None if v is None else int(v.scaleb(domain.scale)) for v in cells]
    if domain.kind == "timestamp":
        return [None if v is None else v // domain.step_ns for v in cells]
    return cells


def keys(table: pa.Table, names: tuple[str, ...], *, nulls_equal: bool = False) -> list[tuple[Any, ...] | None]:
    """Return the key of each row; None where one of its values is null, unless nulls are equal."""
    columns = [[_comparable(value) for value in values(table[name])] for name in names]
    rows = zip(*columns, strict=True) if columns else ((),) * table.num_rows
    return [None if None in row and not nulls_equal else row for row in rows]


def _comparable(value: Any) -> Any:
    """Make NaN equal to itself, within nested values too."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    if isinstance(value, dict):
        return tuple(map(_comparable, value.values()))
    return value


def tie_order(rows: list[tuple[Any, ...]]) -> Callable[[int, int], int]:
    """Return a comparison of right rows by their tie columns, and of equal ones by their place."""
    return lambda a, b: compare(rows[a], rows[b]) or sign(a, b)


def compare(a: Any, b: Any) -> int:
    """Compare two values of a column: nulls lowest, NaN highest."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if isinstance(a, float) and (math.isnan(a) or math.isnan(b)):
        return math.isnan(a) - math.isnan(b)
    if isinstance(a, dict):
        return compare(list(a.values()), list(b.values()))
    if isinstance(a, list | tuple):
        a, b = _entries(a), _entries(b)
        for one, other in zip(a, b, strict=False):
            if order := compare(one, other):
                return order
        return sign(len(a), len(b))
    return sign(a, b)


def _entries(items: Any) -> Any:
    """Return a map's entries by key: Arrow gives maps, and only maps, as lists of tuples."""
    if isinstance(items, list) and items and type(items[0]) is tuple:
        return sorted(items, key=lambda entry: entry[0])
    return items


def sign(a: Any, b: Any) -> int:
    """Return -1, 0 or 1 as the first is less, equal or greater."""
    return int(a > b) - int(a < b)


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the same values without an encoding."""
    if pat.is_run_end_encoded(column.type):
        column = pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], column.type.value_type)
    data_type = plain_type(column.type)
    # Arrow cannot take rows of a view.
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return column.cast(views.get(data_type, data_type))
