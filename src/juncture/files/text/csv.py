"""Slices of CSV: their column types and rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.types as pat

from juncture.errors import DataError
from juncture.files.text.options import TextOptions
from juncture.files.text.types import ColumnType, numbers_of


def header_of(data: bytes, options: TextOptions, path: Path) -> list[str]:
    """Return the column names, from the first slice of a file."""
    first = csv.open_csv(
        BytesIO(data),
        read_options=csv.ReadOptions(autogenerate_column_names=not options.has_header),
        parse_options=csv.ParseOptions(delimiter=options.delimiter),
    )
    names = list(first.schema.names)
    for name, times in Counter(names).items():
        if times > 1:
            raise DataError(
                f"{path} has {times} columns named {name!r}. Rename all but one of them, or pass --no-header.",
                name="JN-HEADER-DUPLICATE",
            )
    return names


def types_in(data: bytes, names: Sequence[str], options: TextOptions, *, has_header: bool) -> dict[str, ColumnType]:
    """Return the column types that one slice needs."""
    fixed = _fixed(names, options)
    table = _parsed(data, names, options, fixed, has_header=has_header)
    types: dict[str, ColumnType] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        types[field.name] = field.type
        if pat.is_timestamp(field.type) and field.name not in fixed:
            types[field.name] = _microseconds(column)
    numeric = [name for name, kind in types.items() if name not in fixed and kind in (pa.int64(), pa.float64())]
    if numeric:
        texts = _parsed(data, names, options, dict.fromkeys(numeric, pa.string()), has_header=has_header, only=numeric)
        types.update((name, numbers_of(texts[name])) for name in numeric)
    return types


def read(data: bytes, names: Sequence[str], schema: pa.Schema, options: TextOptions, *, has_header: bool) -> pa.Table:
    """Return the columns of a schema from a slice whose columns have these names."""
    types = {field.name: field.type for field in schema}
    return _parsed(data, names, options, types, has_header=has_header, only=schema.names).cast(schema)


def _fixed(names: Sequence[str], options: TextOptions) -> dict[str, pa.DataType]:
    """Return the types of the columns that are not inferred."""
    chosen = {name: options.types[name] for name in names if name in options.types}
    if not options.is_all_text:
        return chosen
    return {**{name: pa.string() for name in names if name not in options.inferred_columns}, **chosen}


def _parsed(
    data: bytes,
    names: Sequence[str],
    options: TextOptions,
    types: dict[str, pa.DataType],
    *,
    has_header: bool,
    only: Sequence[str] = (),
) -> pa.Table:
    return csv.read_csv(
        BytesIO(data),
        read_options=csv.ReadOptions(column_names=list(names), skip_rows=1 if has_header else 0),
        parse_options=csv.ParseOptions(delimiter=options.delimiter, newlines_in_values=options.has_line_breaks),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=list(only),
            null_values=["", *options.nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _microseconds(column: pa.ChunkedArray) -> pa.DataType:
    """Return a timestamp type in microseconds if it is lossless."""
    try:
        return column.cast(pa.timestamp("us", column.type.tz)).type
    except pa.ArrowInvalid:
        return column.type
