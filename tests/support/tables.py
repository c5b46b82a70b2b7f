"""Tables written as text, and tables compared.

A table is a header of ``name: type`` and a line per row, cells apart by ``|``::

    ts: int64 | robot_id: string | angle: float64
    1         | arm_001          | 10.0
    4         | null             | nan

Types are Arrow's own names, with ``decimal128(10, 2)``, ``timestamp[us, UTC]``, ``dictionary<string>``,
``list<int64>``, ``struct<a: int64 not null, b: string>``, ``map<string, int64>``. Cells: ``null``; numbers; ISO dates
and times, in UTC where there is a zone, or whole numbers of the type's unit after an ``@`` (of ``date32``, days; of
``date64``, milliseconds); binary as hexadecimal; strings as they are, ``''`` for the empty one; nested values as JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.types import plain_type
from juncture.testing.rows import values

__all__ = ["canonical_rows", "difference", "read_table", "read_type", "shown_type", "timeless", "write_table"]

UNITS = {"h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def read_type(text: str) -> pa.DataType:
    """Return the Arrow type of a name.

    Examples
    --------
    >>> read_type("list<struct<a: int8, b: decimal128(5, 2)>>")
    ListType(list<item: struct<a: int8, b: decimal128(5, 2)>>)
    """
    text = text.strip()
    whole = re.fullmatch(r"(\w+)\s*(?:<(.*)>|\((.*)\)|\[(.*)\])?", text)
    assert whole is not None, text
    name, inner, numbers, unit = whole.groups()
    if numbers is not None:
        arguments = [int(number) for number in numbers.split(",")]
        return getattr(pa, name)(*arguments)
    if unit is not None:
        parts = [part.strip() for part in unit.split(",")]
        return getattr(pa, name)(*parts)
    if inner is None:
        return pa.type_for_alias(name)
    parts = split(inner, ",")
    if name == "struct":
        return pa.struct([read_field(part) for part in parts])
    types = [read_type(part) for part in parts]
    makers: dict[str, Callable[..., pa.DataType]] = {
        "list": pa.list_,
        "large_list": pa.large_list,
        "map": pa.map_,
        "dictionary": lambda value: pa.dictionary(pa.int32(), value),
        "run_end_encoded": lambda value: pa.run_end_encoded(pa.int32(), value),
    }
    return makers[name](*types)


def read_field(text: str) -> pa.Field:
    name, data_type = text.split(":", 1)
    plain = data_type.strip().removesuffix(" not null")
    return pa.field(name.strip(), read_type(plain), nullable=plain == data_type.strip())


def split(text: str, separator: str) -> list[str]:
    """Split at the separators that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "<([") - (character in ">)]")
        if character == separator and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def read_table(text: str) -> pa.Table:
    """Return the table that a text shows."""
    header, *lines = [line for line in text.splitlines() if line.strip()]
    schema = pa.schema([read_field(cell) for cell in header.split("|")])
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    for row in rows:
        assert len(row) == len(schema), f"{row} has not the {len(schema)} cells of {header!r}"
    columns = [read_column([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.table(columns, schema=schema)


def read_column(cells: list[str], data_type: pa.DataType) -> pa.Array:
    if pat.is_dictionary(data_type):
        return read_column(cells, data_type.value_type).dictionary_encode().cast(data_type)
    if pat.is_run_end_encoded(data_type):
        return pc.run_end_encode(read_column(cells, data_type.value_type), run_end_type=data_type.run_end_type)
    if pat.is_timestamp(data_type) or pat.is_duration(data_type):
        values = [None if cell == "null" else read_time(cell, data_type) for cell in cells]
        return pa.array(values, pa.int64()).cast(data_type)
    return pa.array([None if cell == "null" else read_cell(cell, data_type) for cell in cells], data_type)


def read_cell(cell: str, data_type: pa.DataType) -> Any:
    if pat.is_integer(data_type):
        return int(cell)
    if pat.is_floating(data_type):
        return np.float16(cell) if data_type == pa.float16() else float(cell)
    if pat.is_decimal(data_type):
        return Decimal(cell)
    if pat.is_boolean(data_type):
        return {"true": True, "false": False}[cell]
    if pat.is_date(data_type):
        return int(cell[1:]) if cell.startswith("@") else date.fromisoformat(cell)
    if pat.is_time(data_type):
        return time.fromisoformat(cell)
    if pat.is_nested(data_type):
        value = json.loads(cell)
        return list(value.items()) if pat.is_map(data_type) else value
    if pat.is_binary(data_type) or pat.is_large_binary(data_type) or pat.is_fixed_size_binary(data_type):
        return bytes.fromhex(cell)
    return "" if cell == "''" else cell


def read_time(cell: str, data_type: pa.DataType) -> int:
    """Return a time in the type's unit, exactly, also where Python's own times would round or end."""
    if cell.startswith("@"):
        return int(cell[1:])
    if pat.is_duration(data_type):
        whole = re.fullmatch(r"(-?\d+)([a-z]+)", cell)
        assert whole is not None, cell
        nanoseconds = int(whole[1]) * UNITS[whole[2]]
    else:
        whole, _, fraction = cell.partition(".")
        days = (date.fromisoformat(whole[:10]) - date(1970, 1, 1)).days
        hours, minutes, seconds = (int(part) for part in (whole[11:] or "00:00:00").split(":"))
        nanoseconds = (days * 86_400 + hours * 3_600 + minutes * 60 + seconds) * 10**9 + int(fraction.ljust(9, "0"))
    steps, rest = divmod(nanoseconds, UNITS[data_type.unit])
    assert rest == 0, f"{cell} is no whole number of {data_type.unit}"
    return steps


def canonical_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows as values that are equal exactly if they show the same: NaN is NaN, -0.0 is 0.0."""
    columns = [[canonical(value) for value in python_values(table[name])] for name in table.column_names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def python_values(column: pa.ChunkedArray) -> Iterable[Any]:
    # Arrow cannot cast all nested and encoded values.
    encoded = plain_type(column.type) != column.type or isinstance(column.type, pa.BaseExtensionType)
    if pat.is_nested(column.type) or encoded:
        return values(column)
    # Dates are days, since Python's own end in 9999, and those of 64 bits may have a time of day.
    numbers = {pa.date32(): pa.int32(), pa.date64(): pa.int64()}
    return column.cast(numbers.get(column.type, timeless(column.type))).to_pylist()


def timeless(data_type: pa.DataType) -> pa.DataType:
    """Return a type with integers in place of times, which Python's own do not all hold."""
    if pat.is_struct(data_type):
        return pa.struct([field.with_type(timeless(field.type)) for field in data_type])
    if pat.is_map(data_type):
        return pa.map_(data_type.key_type, timeless(data_type.item_type))
    if pat.is_list(data_type):
        return pa.list_(timeless(data_type.value_type))
    if pat.is_timestamp(data_type) or pat.is_duration(data_type) or pat.is_time64(data_type):
        return pa.int64()
    return data_type


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((key, canonical(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(canonical(item) for item in value)
    return value


def difference(actual: pa.Table, expected: pa.Table, *, ordered: bool) -> str | None:
    """Say how two tables differ, or return None.

    Parameters
    ----------
    ordered
        Whether the order of the rows counts too.
    """
    shapes = [[(field.name, shown_type(field.type)) for field in table.schema] for table in (actual, expected)]
    if shapes[0] != shapes[1]:
        return f"columns\n  are       {shapes[0]}\n  should be {shapes[1]}"
    rows, wanted = canonical_rows(actual), canonical_rows(expected)
    if rows == wanted or (not ordered and Counter(rows) == Counter(wanted)):
        return None
    missing, surplus = Counter(wanted) - Counter(rows), Counter(rows) - Counter(wanted)
    parts = [f"rows\n{write_table(actual)}\nshould be\n{write_table(expected)}"]
    parts += [f"missing: {list(missing.elements())[:5]}"] if missing else []
    parts += [f"surplus: {list(surplus.elements())[:5]}"] if surplus else []
    parts += ["the rows are right, their order is not"] if not missing and not surplus else []
    return "\n".join(parts)


def shown_type(data_type: pa.DataType) -> str:
    """Return a type's name, without the names that its list items and map entries happen to have."""
    if pat.is_map(data_type):
        return f"map<{shown_type(data_type.key_type)}, {shown_type(data_type.item_type)}>"
    if pat.is_struct(data_type):
        return f"struct<{', '.join(f'{field.name}: {shown_type(field.type)}' for field in data_type)}>"
    if pat.is_union(data_type):
        return str(data_type)
    if pat.is_nested(data_type):
        return f"{str(data_type).partition('<')[0]}<{shown_type(data_type.value_type)}>"
    return str(data_type)


def write_table(table: pa.Table, rows: int = 40) -> str:
    """Show a table as text, much as `read_table` reads it."""
    header = [f"{field.name}: {field.type}" for field in table.schema]
    body = [[write_cell(value) for value in row] for row in canonical_rows(table.slice(0, rows))]
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)] if header else []
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *body]]
    return "\n".join([line.rstrip() for line in lines] + (["…"] if table.num_rows > rows else []))


def write_cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
