"""Conversion of arrays to types with the same values, including those that Arrow cannot cast.

Two types have the same values if they differ only in encodings (dictionaries, runs), layouts (views, the width of
offsets and numbers) and extensions, at any depth. The null type has the values of any type if all are null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, raw_values, rows_of, validity
from juncture.columnar.types import is_null_type


def converted(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return an array in another type, without nulls in a dictionary; raise `ArrowException` if it is too narrow."""
    if array.type == data_type:
        return _without_null_values(array) if pat.is_dictionary(data_type) else array
    if is_null_type(array.type) or is_null_type(data_type):
        return pa.nulls(len(array), data_type)
    if pat.is_run_end_encoded(array.type):
        return rows_of(converted(array.values, data_type), _runs_of(array))
    if pat.is_dictionary(array.type):
        return _from_dictionary(array, data_type)
    if isinstance(array.type, pa.BaseExtensionType):
        return converted(array.storage, data_type)
    if pat.is_run_end_encoded(data_type):
        return _to_runs(array, data_type)
    if pat.is_dictionary(data_type):
        return _to_dictionary(array, data_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return data_type.wrap_array(converted(array, data_type.storage_type))
    return _rebuilt(array, data_type) if pat.is_nested(data_type) else array.cast(data_type)


def converted_columns(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Return a batch with some of its columns converted to other types of the same values."""
    if types.keys().isdisjoint(batch.schema.names):
        return batch
    schema = with_types(batch.schema, types)
    arrays = [converted(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def with_types(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a schema with other types for some columns."""
    return pa.schema([field.with_type(types.get(field.name, field.type)) for field in schema], schema.metadata)


def _runs_of(array: pa.RunEndEncodedArray) -> pa.Array:
    """Return the number of each value's run."""
    width = array.run_ends.type.bit_width // 8
    ends = raw_values(array.run_ends, f"i{width}").astype(np.int64)
    inside = np.clip(ends - array.offset, 0, len(array))
    return array_of(np.repeat(np.arange(len(ends)), np.diff(inside, prepend=0)), pa.int64())


def _to_runs(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    try:
        runs = pc.run_end_encode(array, run_end_type=data_type.run_end_type)
        ends, values = runs.run_ends, runs.values
    except pa.ArrowNotImplementedError:
        ends, values = _numbers(1, len(array) + 1).cast(data_type.run_end_type), array
    return pa.RunEndEncodedArray.from_arrays(ends, converted(values, data_type.value_type), data_type)


def _from_dictionary(array: pa.DictionaryArray, data_type: pa.DataType) -> pa.Array:
    if not pat.is_dictionary(data_type):
        return rows_of(converted(array.dictionary, data_type), array.indices)
    indices, values = array.indices.cast(data_type.index_type), converted(array.dictionary, data_type.value_type)
    return _without_null_values(pa.DictionaryArray.from_arrays(indices, values, ordered=data_type.ordered))


def _without_null_values(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return a dictionary array with nulls in its indices only, since Arrow unifies only such dictionaries."""
    there = validity(array.dictionary)
    if there is None:
        return array
    positions = array_of(np.cumsum(there) - 1, pa.int64(), there).cast(array.type.index_type)
    return pa.DictionaryArray.from_arrays(
        rows_of(positions, array.indices), array.dictionary.drop_null(), ordered=array.type.ordered
    )


def _to_dictionary(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pat.is_nested(array.type):
        # Arrow cannot find equal values of this type.
        indices, values = _numbers(0, len(array)), array
    else:
        encoded = array.dictionary_encode()
        indices, values = encoded.indices, encoded.dictionary
    indices = indices.cast(data_type.index_type)
    values = converted(values, data_type.value_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=data_type.ordered)


def _numbers(first: int, end: int) -> pa.Array:
    return array_of(np.arange(first, end, dtype=np.int64), pa.int64())


def _rebuilt(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return nested values with converted parts."""
    if pat.is_union(data_type):
        return _union(array, data_type)
    missing = array.is_null()
    if pat.is_struct(data_type):
        parts = [converted(part, field.type) for part, field in zip(array.flatten(), data_type, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(data_type), mask=missing)
    if pat.is_fixed_size_list(data_type):
        size = data_type.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        return pa.FixedSizeListArray.from_arrays(converted(items, data_type.value_type), type=data_type, mask=missing)
    if pat.is_map(data_type):
        offsets = raw_values(array.offsets, np.int32)
        keys, items = (part.slice(offsets[0], offsets[-1] - offsets[0]) for part in (array.keys, array.items))
        keys, items = converted(keys, data_type.key_type), converted(items, data_type.item_type)
        offsets = array_of(offsets - offsets[0], pa.int32())
        return pa.MapArray.from_arrays(offsets, keys, items, type=data_type, mask=missing)
    return _list(array, data_type, missing)


def _union(array: pa.UnionArray, data_type: pa.DataType) -> pa.Array:
    """Return a union with its own codes and, if dense, its own positions: Arrow's ignore slices."""
    if not len(array):
        return pa.nulls(0, data_type)
    widths = {1: 1, 2: 4} if data_type.mode == "dense" else {1: 1}
    buffers = [array.buffers()[number].slice(array.offset * width) for number, width in widths.items()]
    parts = [converted(array.field(number), field.type) for number, field in enumerate(data_type)]
    return pa.Array.from_buffers(data_type, len(array), [None, *buffers], children=parts)


def _list(array: pa.Array, data_type: pa.DataType, missing: pa.Array) -> pa.Array:
    """Return lists of any layout with exactly their own items."""
    makers: dict[Any, tuple[Any, pa.DataType]] = {
        pat.is_list: (pa.ListArray, pa.int32()),
        pat.is_large_list: (pa.LargeListArray, pa.int64()),
        pat.is_list_view: (pa.ListViewArray, pa.int32()),
        pat.is_large_list_view: (pa.LargeListViewArray, pa.int64()),
    }
    maker, width = next(maker_of_type for test, maker_of_type in makers.items() if test(data_type))
    lengths = pc.list_value_length(array).fill_null(0).cast(pa.int64())
    ends = np.concatenate([[0], np.cumsum(raw_values(lengths, np.int64))])
    offsets = array_of(ends, pa.int64()).cast(width)
    items = converted(array.flatten(), data_type.value_type)
    if maker in (pa.ListArray, pa.LargeListArray):
        return maker.from_arrays(offsets, items, type=data_type, mask=missing)
    return maker.from_arrays(offsets[:-1], lengths.cast(width), items, type=data_type, mask=missing)
