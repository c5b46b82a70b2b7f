"""Whole numbers in as few bytes as they need, while rows travel: each as what it is above the least of its column.

A shuffle copies every byte some ten times, between processes, into files and out of them. Times, keys and counts that
lie near each other fit into half of their bytes or fewer; the greatest frame of reference is one task's rows, and the
width is that of the whole column, so that it takes two passes to narrow one, and one to widen it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.spark.tasks.placement import one_chunk

_LEAST = b"juncture:least"
_WIDE = b"juncture:wide"
_WIDTHS = (np.uint8, np.uint16, np.uint32)


def narrowed(table: pa.Table) -> pa.Table:
    """Return a table whose whole numbers take as few bytes as they need, and which says what they were.

    Examples
    --------
    >>> narrowed(pa.table({"n": [10**12, 10**12 + 255]})).schema.types
    [DataType(uint8)]
    """
    columns, fields = list(table.columns), list(table.schema)
    for number, field in enumerate(table.schema):
        if not _is_whole(field.type):
            continue
        found = _narrow(one_chunk(columns[number]))
        if found is not None:
            columns[number], least = found
            fields[number] = pa.field(field.name, columns[number].type, metadata={_LEAST: str(least).encode()})
    if fields == list(table.schema):
        return table
    wide = table.schema.serialize().to_pybytes()
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, {_WIDE: wide}))


def widened(table: pa.Table) -> pa.Table:
    """Return a table as it was before it was narrowed, or any other as it is. Columns may have been left out.

    Examples
    --------
    >>> table = pa.table({"n": pa.array([5, None, 7], pa.timestamp("us", "UTC")), "x": [0.5, 1.5, 2.5]})
    >>> widened(narrowed(table)).equals(table)
    True
    """
    said = (table.schema.metadata or {}).get(_WIDE)
    if said is None:
        return table
    wide = _schema(said)
    columns = []
    for column, field in zip(table.columns, table.schema, strict=True):
        least = (field.metadata or {}).get(_LEAST)
        columns.append(column if least is None else _widen(one_chunk(column), int(least), wide.field(field.name).type))
    return pa.Table.from_arrays(
        columns, schema=pa.schema([wide.field(name) for name in table.column_names], wide.metadata)
    )


def widened_bytes(table: pa.Table) -> int:
    """Return how many bytes more a table takes when it is widened."""
    said = (table.schema.metadata or {}).get(_WIDE)
    if said is None:
        return 0
    wide, schema = _schema(said), table.schema
    narrow = [field for field in schema if _LEAST in (field.metadata or {})]
    bits = sum(wide.field(field.name).type.bit_width - field.type.bit_width for field in narrow)
    return int(table.num_rows * bits // 8)


@lru_cache(256)
def _schema(said: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(said))


def _is_whole(data_type: pa.DataType) -> bool:
    """Tell types that are whole numbers of two bytes or more in memory."""
    is_number = pat.is_integer(data_type) or pat.is_temporal(data_type)
    return bool(is_number and not pat.is_interval(data_type) and data_type.bit_width > 8)


def _storage(data_type: pa.DataType) -> npt.DTypeLike:
    """Return the numbers that values are made of."""
    sign = "u" if pat.is_unsigned_integer(data_type) else "i"
    return np.dtype(f"{sign}{data_type.bit_width // 8}")


def _narrow(column: pa.Array) -> tuple[pa.Array, int] | None:
    """Return a column as numbers above its least, and the least, if that takes fewer bytes."""
    if column.null_count == len(column):
        return None
    dtype = np.dtype(_storage(column.type))
    values = np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]
    nulls = np.asarray(column.is_null()) if column.null_count else None
    shown = values if nulls is None else values[~nulls]
    least, greatest = int(shown.min()), int(shown.max())
    for narrow in _WIDTHS:
        if greatest - least <= np.iinfo(narrow).max and np.dtype(narrow).itemsize < dtype.itemsize:
            out = np.empty(len(values), narrow)
            # Where there is null, anything may come out.
            np.subtract(values, dtype.type(least), out=out, casting="unsafe")
            return pa.array(out, mask=nulls), least
    return None


def _widen(column: pa.Array, least: int, data_type: pa.DataType) -> pa.Array:
    dtype = np.dtype(_storage(data_type))
    width = column.type.bit_width // 8
    values = np.frombuffer(column.buffers()[1], f"u{width}")[column.offset : column.offset + len(column)].astype(dtype)
    values += dtype.type(least)
    nulls = np.asarray(column.is_null()) if column.null_count else None
    return pa.array(values, mask=nulls).view(data_type)
