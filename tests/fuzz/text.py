"""Tables and types as the text that makes them."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from fuzz.changing import ChangingTable
from fuzz.tables import Column, Table, dictionary_of, runs_of

__all__ = ["changing_text", "schema_text", "table_text", "type_text"]


def table_text(table: Table) -> str:
    """Return an expression that makes a table as Arrow holds it."""
    if not table.columns:
        return f'pa.table({{"none": pa.nulls({table.num_rows})}}).select([])'
    columns = "\n".join(f"        {_column(column)}," for column in table.columns)
    return f"pa.table(\n    [\n{columns}\n    ],\n    schema={schema_text(table.schema)},\n)"


def changing_text(tables: dict[str, ChangingTable]) -> str:
    """Return assignments of the rows that tables may have, and of their epochs, by their names."""
    pools = "\n".join(f"    {name!r}: {table_text(table.pool)}," for name, table in tables.items())
    epochs = "\n".join(f"    {name!r}: {table.epochs}," for name, table in tables.items())
    return f"pools = {{\n{pools}\n}}\nepochs = {{\n{epochs}\n}}"


def schema_text(schema: pa.Schema) -> str:
    """Return an expression that makes a schema."""
    fields = "\n".join(f"            {_field(field)}," for field in schema)
    return f"pa.schema(\n        [\n{fields}\n        ]\n    )"


def _column(column: Column) -> str:
    chunks = []
    for number, cells in enumerate(column.chunks()):
        spare = len(column.spare)
        whole = _array((*column.spare, *cells, *column.spare), column.type, column.entries_of(number))
        chunks.append(f"{whole}.slice({spare}, {len(cells)})" if spare else whole)
    return f"pa.chunked_array([{', '.join(chunks)}], {type_text(column.type)})"


def _array(values: tuple[Any, ...], data_type: pa.DataType, entries: int) -> str:
    if pat.is_dictionary(data_type):
        indices, words = dictionary_of(values, entries)
        parts = f"pa.array({indices}, {type_text(data_type.index_type)}), {_array(words, data_type.value_type, 0)}"
        return f"pa.DictionaryArray.from_arrays({parts}{', ordered=True' if data_type.ordered else ''})"
    if pat.is_run_end_encoded(data_type):
        ends, cells = runs_of(values, entries)
        parts = f"pa.array({ends}, {type_text(data_type.run_end_type)}), {_array(cells, data_type.value_type, 0)}"
        return f"pa.RunEndEncodedArray.from_arrays({parts})"
    return f"pa.array({_values(values)}, {type_text(data_type)})"


def _values(values: tuple[Any, ...]) -> str:
    made = r"pa.MonthDayNano([\1, \2, \3])"
    return re.sub(r"MonthDayNano\(months=(-?\d+), days=(-?\d+), nanoseconds=(-?\d+)\)", made, repr(list(values)))


def type_text(data_type: pa.DataType) -> str:
    """Return an expression that makes a type."""
    if pat.is_dictionary(data_type):
        ordered = ", ordered=True" if data_type.ordered else ""
        return f"pa.dictionary({type_text(data_type.index_type)}, {type_text(data_type.value_type)}{ordered})"
    if pat.is_run_end_encoded(data_type):
        return f"pa.run_end_encoded({type_text(data_type.run_end_type)}, {type_text(data_type.value_type)})"
    if pat.is_decimal(data_type):
        return f"pa.decimal{data_type.bit_width}({data_type.precision}, {data_type.scale})"
    if pat.is_timestamp(data_type):
        return f"pa.timestamp({data_type.unit!r}{f', {data_type.tz!r}' if data_type.tz else ''})"
    if pat.is_duration(data_type):
        return f"pa.duration({data_type.unit!r})"
    if pat.is_time(data_type):
        return f"pa.time{data_type.bit_width}({data_type.unit!r})"
    if pat.is_fixed_size_binary(data_type):
        return f"pa.binary({data_type.byte_width})"
    if pat.is_map(data_type):
        return f"pa.map_({type_text(data_type.key_type)}, {type_text(data_type.item_type)})"
    if pat.is_struct(data_type):
        return f"pa.struct([{', '.join(_field(data_type.field(i)) for i in range(data_type.num_fields))}])"
    if pat.is_fixed_size_list(data_type):
        return f"pa.list_({type_text(data_type.value_type)}, {data_type.list_size})"
    makers = {
        "list_": pat.is_list,
        "large_list": pat.is_large_list,
        "list_view": pat.is_list_view,
        "large_list_view": pat.is_large_list_view,
    }
    for name, test in makers.items():
        if test(data_type):
            return f"pa.{name}({type_text(data_type.value_type)})"
    plain = {"halffloat": "float16", "float": "float32", "double": "float64", "bool": "bool_"}
    name = str(data_type).partition("[")[0]
    return f"pa.{plain.get(name, name)}()"


def _field(field: pa.Field) -> str:
    return f"pa.field({field.name!r}, {type_text(field.type)}{'' if field.nullable else ', nullable=False'})"
