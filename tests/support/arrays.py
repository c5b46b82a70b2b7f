"""Arrow arrays of any type, made of Python's values without the casts that Arrow lacks."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from support.tables import timeless

__all__ = ["build", "build_column"]

EXACT = Context(prec=100)


def build_column(values: Sequence[Any], data_type: pa.DataType) -> pa.ChunkedArray:
    """Return a column of some values; of encoded ones in two chunks, whose dictionaries and runs differ."""
    if not pat.is_dictionary(data_type) and not pat.is_run_end_encoded(data_type):
        return pa.chunked_array([build(values, data_type)])
    middle = len(values) // 2
    return pa.chunked_array([build(values[:middle], data_type), build(values[middle:], data_type, turned=True)])


def build(values: Sequence[Any], data_type: pa.DataType, *, turned: bool = False) -> pa.Array:
    """Return an array of some values.

    Times are integers, structs dictionaries, values of a union pairs of a field's number and its value, those of an
    extension type what it stores, and others what Arrow takes.

    Parameters
    ----------
    turned
        Whether a dictionary has its values from back to front, null among them (which Parquet cannot write), and runs
        are all of one value.
    """
    if pat.is_null(data_type):
        return pa.nulls(len(values))
    if pat.is_dictionary(data_type):
        return build_dictionary(values, data_type, turned=turned)
    if pat.is_run_end_encoded(data_type):
        changes = [row + 1 == len(values) or values[row + 1] is not values[row] for row in range(len(values))]
        ends = [row + 1 for row, change in enumerate(changes) if change or turned]
        runs = build([values[end - 1] for end in ends], data_type.value_type)
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, data_type.run_end_type), runs, data_type)
    if pat.is_timestamp(data_type) or pat.is_duration(data_type):
        return pa.array(values, pa.int64()).cast(data_type)
    if pat.is_float16(data_type):
        return pa.array([None if value is None else np.float16(value) for value in values], data_type)
    if pat.is_decimal(data_type):
        return build_decimals(values, data_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return data_type.wrap_array(build(values, data_type.storage_type))
    if pat.is_union(data_type):
        return build_union(values, data_type)
    if pat.is_nested(data_type) and not pat.is_map(data_type):
        return build_nested(values, data_type)
    return pa.array(values, timeless(data_type)).cast(data_type)


def build_dictionary(values: Sequence[Any], data_type: pa.DataType, *, turned: bool) -> pa.Array:
    distinct: list[Any] = []
    for value in values:
        if value is not None and not any(value is known for known in distinct):
            distinct.append(value)
    has_null = turned and data_type != pa.dictionary(pa.int32(), pa.string())
    distinct = [*reversed(distinct), *([None] if has_null else [])] if turned else distinct
    places = {id(value): place for place, value in enumerate(distinct)}
    indices = [places.get(id(value)) for value in values]
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, data_type.index_type), build(distinct, data_type.value_type), ordered=data_type.ordered
    )


def build_decimals(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Return decimals, of which Arrow itself makes none of 256 bits that end before the point."""
    width = data_type.bit_width // 8
    steps = [0 if value is None else int(Decimal(value).scaleb(data_type.scale, EXACT)) for value in values]
    content = b"".join(step.to_bytes(width, "little", signed=True) for step in steps)
    valid = np.packbits(np.array([value is not None for value in values], np.bool_), bitorder="little")
    return pa.Array.from_buffers(data_type, len(values), [pa.py_buffer(valid), pa.py_buffer(content)])


def build_nested(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    missing = pa.array([value is None for value in values], pa.bool_())
    if pat.is_struct(data_type):
        parts = [build([None if v is None else v[field.name] for v in values], field.type) for field in data_type]
        return pa.StructArray.from_arrays(parts, fields=list(data_type), mask=missing)
    if pat.is_fixed_size_list(data_type):
        empty = [None] * data_type.list_size
        items = build([item for value in values for item in value or empty], data_type.value_type)
        return pa.FixedSizeListArray.from_arrays(items, type=data_type, mask=missing)
    items = build([item for value in values for item in value or ()], data_type.value_type)
    sizes = [len(value or ()) for value in values]
    starts = list(accumulate(sizes, initial=0))
    if pat.is_list(data_type) or pat.is_large_list(data_type):
        maker = pa.ListArray if pat.is_list(data_type) else pa.LargeListArray
        kind = pa.int32() if pat.is_list(data_type) else pa.int64()
        return maker.from_arrays(pa.array(starts, kind), items, type=data_type, mask=missing)
    maker = pa.ListViewArray if pat.is_list_view(data_type) else pa.LargeListViewArray
    kind = pa.int32() if pat.is_list_view(data_type) else pa.int64()
    offsets = pa.array(starts[:-1], kind)
    return maker.from_arrays(offsets, pa.array(sizes, kind), items, type=data_type, mask=missing)


def build_union(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Return a union, in which null is one of the first field; a dense one has no other values than its own."""
    pairs = [value or (0, None) for value in values]
    numbers = range(data_type.num_fields)
    codes = pa.array([data_type.type_codes[number] for number, _ in pairs], pa.int8())
    if data_type.mode == "dense":
        parts = [[value for place, value in pairs if place == number] for number in numbers]
        offsets = [sum(other == number for other, _ in pairs[:row]) for row, (number, _) in enumerate(pairs)]
        buffers = [None, codes.buffers()[1], pa.array(offsets, pa.int32()).buffers()[1]]
    else:
        parts = [[value if place == number else None for place, value in pairs] for number in numbers]
        buffers = [None, codes.buffers()[1]]
    children = [build(part, data_type.field(number).type) for number, part in enumerate(parts)]
    return pa.Array.from_buffers(data_type, len(values), buffers, children=children)
