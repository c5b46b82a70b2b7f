"""Integers in as few bytes as needed while rows travel, as offsets from the least value of their column.

A shuffle copies every byte some ten times, between processes and through files. Times, keys and counts that are close
together need half of their bytes or fewer. The reference value is that of one task's rows, and a column has one width,
so narrowing takes two passes and widening one.
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
    """Return a table with narrow integers and metadata that restores them.

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
    """Return a narrowed table with its original types, or any other table unchanged. Columns may be missing.

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
    """Return the additional bytes of a table when it is widened."""
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
    """Return whether values are integers of at least two bytes in memory."""
    is_number = pat.is_integer(data_type) or pat.is_temporal(data_type)
    return bool(is_number and not pat.is_interval(data_type) and data_type.bit_width > 8)


def _storage(data_type: pa.DataType) -> npt.DTypeLike:
    """Return the integers that store values."""
    sign = "u" if pat.is_unsigned_integer(data_type) else "i"
    return np.dtype(f"{sign}{data_type.bit_width // 8}")


def _narrow(column: pa.Array) -> tuple[pa.Array, int] | None:
    """Return a column as offsets from its least value, and that value, if this saves bytes."""
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
            # Values under nulls are undefined.
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
