"""Arrow arrays as NumPy sees them: plain values, and which of them are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.kernels.array_types import Mask
from juncture.spec.values import DAY_S

_DAY_MS = DAY_S * 1_000
_FEW_ROWS = 1 << 10
_PLAIN = {
    each.id: np.dtype(f"u{each.bit_width // 8}")
    for each in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.timestamp("s"), pa.duration("s")),
    )
}
"""Types of values of whole bytes, and what NumPy reads them as."""
Rows = TypeVar("Rows", pa.Array, pa.ChunkedArray, pa.RecordBatch)


def array_of(values: npt.NDArray[Any], data_type: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """Return an array of fixed-width values without copying them; null where they are not valid.

    It is not ``pyarrow.array``, which imports pandas.
    """
    bits = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(data_type, len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))])


def memory_pool() -> pa.MemoryPool:
    """Return the pool from which joins take what they make: the system's allocator.

    Arrow's own pools keep a heap for each thread and map large blocks anew, whose pages the system has to clear; what
    one thread made and another lets go stays with the process for long.
    """
    return pa.system_memory_pool()


def rows_of(values: Rows, index: pa.Array) -> Rows:
    """Return some rows of an array, a chunked array or a batch."""
    return pc.take(values, index, memory_pool=memory_pool())


def rows_at(batch: pa.RecordBatch, places: npt.NDArray[np.signedinteger]) -> pa.RecordBatch:
    """Return the rows of a batch at some positions, all within it.

    Notes
    -----
    Few rows of plain columns take a few microseconds: a fraction of what it takes to have Arrow take them.

    Examples
    --------
    >>> rows_at(pa.record_batch({"a": [5, 6, 7]}), np.array([2, 0])).to_pydict()
    {'a': [7, 5]}
    """
    if len(places) <= _FEW_ROWS and batch.num_columns:
        columns = []
        for column in batch.columns:
            item = _PLAIN.get(column.type.id)
            if item is None or column.null_count:
                break
            columns.append(array_of(raw_values(column, item)[places], column.type))
        else:
            return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return rows_of(batch, array_of(places, pa.int32() if places.dtype == np.int32 else pa.int64()))


def concatenated(arrays: Iterable[pa.Array]) -> pa.Array:
    """Return arrays of one type, at least one, as one.

    Raises
    ------
    pyarrow.ArrowException
        If the type cannot hold them in one piece.
    """
    return pa.concat_arrays(arrays, memory_pool=memory_pool())


def joined_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of some batches, at least one, as one.

    Raises
    ------
    pyarrow.ArrowException
        If the type of a column cannot hold them in one piece.
    """
    if len(batches) == 1:
        return batches[0]
    columns = [concatenated(arrays) for arrays in zip(*(batch.columns for batch in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def joined_pieces(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of many small batches of one schema, not all empty, as one.

    Raises
    ------
    pyarrow.ArrowException
        If the type of a column cannot hold them in one piece.

    Examples
    --------
    >>> joined_pieces([pa.record_batch({"a": [1]}), pa.record_batch({"a": [2, 3]})]).to_pydict()
    {'a': [1, 2, 3]}
    """
    # No array of Python is made for each column of each batch.
    found = pa.Table.from_batches(batches).combine_chunks(memory_pool=memory_pool()).to_batches()
    return found[0] if len(found) == 1 else joined_batches(batches)


def plain(array: pa.Array) -> pa.Array:
    """Return an array's values without dictionaries, runs or views."""
    while True:
        data_type = array.type
        if pat.is_dictionary(data_type):
            values = plain(array.dictionary)
            if values.type != data_type.value_type:
                # Arrow decodes no dictionaries of views.
                array = pa.DictionaryArray.from_arrays(array.indices, values)
            array = array.dictionary_decode()
        elif pat.is_run_end_encoded(data_type):
            array = pc.run_end_decode(array)
        elif pat.is_string_view(data_type):
            array = array.cast(pa.large_string())
        elif pat.is_binary_view(data_type):
            array = array.cast(pa.large_binary())
        elif isinstance(data_type, pa.BaseExtensionType):
            array = array.storage
        else:
            return array


def validity(array: pa.Array) -> Mask | None:
    """Return which values are not null, or None if all are."""
    if array.null_count == 0:
        return None
    bits = array.buffers()[0]
    if bits is None:
        valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
        return valid
    return _bits(bits, array.offset, len(array))


def true_rows(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the places of what is true in an array of booleans, without what is null.

    Examples
    --------
    >>> true_rows(pa.array([True, None, False, True])).tolist()
    [0, 3]
    """
    if len(array) == 0:
        return np.zeros(0, np.int64)
    valid, values = validity(array), _bits(array.buffers()[1], array.offset, len(array))
    return np.flatnonzero(values if valid is None else values & valid)


def _bits(buffer: pa.Buffer, first: int, count: int) -> Mask:
    """Return some bits of a buffer."""
    some = np.frombuffer(buffer, np.uint8, (first + count + 7) // 8 - first // 8, first // 8)
    return np.unpackbits(some, count=first % 8 + count, bitorder="little")[first % 8 :].view(np.bool_)


def raw_values(array: pa.Array, item: npt.DTypeLike) -> Any:
    """Return a view of a fixed-width array's values; those of nulls are anything.

    Parameters
    ----------
    array
        Whose values take as many bytes as ``item``, or a multiple of it: then the result has two dimensions.
    item
        The NumPy type to read them as.
    """
    kind = np.dtype(item)
    width = array.type.bit_width // 8 // kind.itemsize
    shape: tuple[int, ...] = (len(array),) if width == 1 else (len(array), width)
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(shape, kind)
    count = len(array) * width
    flat = np.frombuffer(buffer, kind, count, array.offset * width * kind.itemsize)
    return flat.reshape(shape)


def days(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return dates as days since 1970, however far; those of nulls are anything.

    Some writers put a time of day into 64-bit dates, which Arrow refuses to cast: they count as the day they lie in.

    Examples
    --------
    >>> days(pa.array([-86_400_000, 2**63 - 2**63 % 86_400_000 - 86_400_000], pa.date64())).tolist()
    [-1, 106751991166]
    """
    if pat.is_date32(array.type):
        found: npt.NDArray[np.int64] = raw_values(array, np.int32).astype(np.int64)
        return found
    whole: npt.NDArray[np.int64] = raw_values(array, np.int64) // _DAY_MS
    return whole


def with_fields(data_type: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """Return a nested type with its fields changed, and lists in place of views of lists; any other type as it is.

    Examples
    --------
    >>> with_fields(pa.list_(pa.int8()), lambda field: field.with_type(pa.int64()))
    ListType(list<item: int64>)
    """
    if pat.is_struct(data_type):
        return pa.struct([change(field) for field in data_type])
    if pat.is_union(data_type):
        return pa.union([change(field) for field in data_type], data_type.mode, data_type.type_codes)
    if pat.is_map(data_type):
        # Keys are never null.
        key, item = change(data_type.key_field).with_nullable(False), change(data_type.item_field)
        return pa.map_(key, item, data_type.keys_sorted)
    if pat.is_fixed_size_list(data_type):
        return pa.list_(change(data_type.value_field), data_type.list_size)
    if pat.is_list(data_type) or pat.is_list_view(data_type):
        return pa.list_(change(data_type.value_field))
    if pat.is_large_list(data_type) or pat.is_large_list_view(data_type):
        return pa.large_list(change(data_type.value_field))
    return data_type


def without_times(data_type: pa.DataType) -> pa.DataType:
    """Return a nested type with integers in place of times, which Python's own types round or cannot represent.

    Examples
    --------
    >>> without_times(pa.list_(pa.timestamp("ns")))
    ListType(list<item: int64>)
    """
    if (
        pat.is_timestamp(data_type)
        or pat.is_time64(data_type)
        or pat.is_duration(data_type)
        or pat.is_date64(data_type)
    ):
        return pa.int64()
    if pat.is_time32(data_type) or pat.is_date32(data_type):
        return pa.int32()
    # Arrow casts no null struct to one whose fields may not be.
    return with_fields(data_type, lambda field: field.with_type(without_times(field.type)).with_nullable(True))
