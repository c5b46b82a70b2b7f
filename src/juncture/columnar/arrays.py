"""Arrow arrays as NumPy arrays: values and validity. Floats as integers of the same order, and values as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import DAY_MS, is_plain
from juncture.kernels.array_types import Bytes, Floats, Ints, Mask

_FEW_ROWS = 1 << 10
_INT64_MAX = 2**63 - 1
_FLOAT64 = pa.float64()
_PLAIN = {
    each.id: np.dtype(f"u{each.bit_width // 8}")
    for each in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.timestamp("s"), pa.duration("s")),
    )
}
"""The NumPy type of each Arrow type with values of whole bytes."""
WHOLE_ITEMS = {
    each.id: np.dtype(f"{'u' if pat.is_unsigned_integer(each) else 'i'}{each.bit_width // 8}")
    for each in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("s"), pa.duration("s")),
    )
}
"""The NumPy type of each Arrow type with whole numbers of steps, which has their order."""
_LARGE = frozenset((pa.large_string().id, pa.large_binary().id))
_OFFSETS, _WIDE_OFFSETS = np.dtype(np.int32), np.dtype(np.int64)
Rows = TypeVar("Rows", pa.Array, pa.ChunkedArray, pa.RecordBatch)


def array_of(values: npt.NDArray[Any], data_type: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """Return an array of fixed-width values without a copy (and without pandas); null where `valid` is false."""
    bits = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(data_type, len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))])


def memory_pool() -> pa.MemoryPool:
    """Return the memory pool of joins: the system's allocator.

    Arrow's own pools keep a heap for each thread, map large blocks anew so that the system must clear their pages, and
    retain memory that one thread allocates and another frees.
    """
    return pa.system_memory_pool()


def rows_of(values: Rows, index: pa.Array) -> Rows:
    """Return some rows of an array, a chunked array or a batch."""
    # Specs import this module, and must not take the time to import the functions.
    import pyarrow.compute as pc

    return pc.take(values, index, memory_pool=memory_pool())


def rows_at(batch: pa.RecordBatch, positions: npt.NDArray[np.signedinteger]) -> pa.RecordBatch:
    """Return the rows of a batch at some valid positions; a few take a fraction of the time of Arrow's ``take``."""
    if len(positions) <= _FEW_ROWS and batch.num_columns:
        columns = []
        for column in batch.columns:
            item = _PLAIN.get(column.type.id)
            if item is None or column.null_count:
                break
            columns.append(array_of(raw_values(column, item)[positions], column.type))
        else:
            return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return rows_of(batch, array_of(positions, pa.int32() if positions.dtype == np.int32 else pa.int64()))


def concatenated(arrays: Iterable[pa.Array]) -> pa.Array:
    """Return at least one array of one type as one; raise `pyarrow.ArrowException` if the type cannot hold them."""
    return pa.concat_arrays(arrays, memory_pool=memory_pool())


def joined_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return at least one batch as one; raise `pyarrow.ArrowException` if a type cannot hold the rows."""
    if len(batches) == 1:
        return batches[0]
    columns = [concatenated(arrays) for arrays in zip(*(batch.columns for batch in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def sliced(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Return a batch cut into pieces of a number of rows, the last of fewer."""
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def joined_pieces(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return many small batches of one schema, not all empty, as one; raise `ArrowException` if they do not fit."""
    # Avoid a Python object for each column of each batch.
    combined = pa.Table.from_batches(batches).combine_chunks(memory_pool=memory_pool()).to_batches()
    return combined[0] if len(combined) == 1 else joined_batches(batches)


def plain(array: pa.Array) -> pa.Array:
    """Return an array's values without dictionaries, runs or views."""
    while not is_plain(data_type := array.type):
        if pat.is_dictionary(data_type):
            values = plain(array.dictionary)
            if values.type != data_type.value_type:
                # Arrow cannot decode dictionaries of views.
                array = pa.DictionaryArray.from_arrays(array.indices, values)
            array = array.dictionary_decode()
        elif pat.is_run_end_encoded(data_type):
            import pyarrow.compute as pc

            # Arrow decodes runs of few types, but those of positions suit any.
            indices = array_of(np.arange(len(array.values), dtype=np.int32), pa.int32())
            runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, indices)
            array = rows_of(plain(array.values), pc.run_end_decode(runs.slice(array.offset, len(array))))
        elif pat.is_string_view(data_type):
            array = array.cast(pa.large_string())
        elif pat.is_binary_view(data_type):
            array = array.cast(pa.large_binary())
        else:
            array = array.storage
    return array


def plain_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values of a column in one array, without dictionaries, runs or views."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return pa.concat_arrays([plain(chunk) for chunk in chunks or [pa.array([], column.type)]])


def innermost(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of values within a nested or encoded array, at any depth."""
    data_type = array.type
    if pat.is_dictionary(data_type):
        parts = [array.dictionary]
    elif pat.is_run_end_encoded(data_type):
        parts = [array.values]
    elif pat.is_map(data_type):
        parts = [array.keys, array.items]
    elif pat.is_union(data_type):
        parts = [array.field(index) for index in range(data_type.num_fields)]
    elif pat.is_nested(data_type):
        parts = array.flatten() if pat.is_struct(data_type) else [array.flatten()]
    else:
        yield array
        return
    for part in parts:
        yield from innermost(part)


def validity(array: pa.Array) -> Mask | None:
    """Return which values are not null, or None if all are."""
    if array.null_count == 0:
        return None
    bits = array.buffers()[0]
    if bits is None:
        valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
        return valid
    return _bits(bits, array.offset, len(array))


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    """Return the intersection of two masks; None stands for all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def in_halves(batch: pa.RecordBatch, make: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what `make` returns of a batch, or of its halves where a type cannot represent the rows of the whole."""
    try:
        result = make(batch)
    except pa.ArrowException:
        if batch.num_rows < 2:
            raise
        middle = batch.num_rows // 2
        yield from in_halves(batch.slice(0, middle), make)
        yield from in_halves(batch.slice(middle), make)
    else:
        yield result


def true_rows(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the positions of true values of a boolean array; null is not true."""
    if len(array) == 0:
        return np.zeros(0, np.int64)
    valid, values = validity(array), _bits(array.buffers()[1], array.offset, len(array))
    return np.flatnonzero(values if valid is None else values & valid)


def _bits(buffer: pa.Buffer, first: int, count: int) -> Mask:
    some = np.frombuffer(buffer, np.uint8, (first + count + 7) // 8 - first // 8, first // 8)
    return np.unpackbits(some, count=first % 8 + count, bitorder="little")[first % 8 :].view(np.bool_)


def raw_values(array: pa.Array, item: npt.DTypeLike) -> Any:
    """Return a view of fixed-width values as `item`, in two dimensions if they are wider; undefined under nulls."""
    kind = np.dtype(item)
    size, rows, buffer = kind.itemsize, len(array), array.buffers()[1]
    width = array.type.bit_width // (8 * size)
    if rows == 0 or buffer is None:
        return np.zeros(rows if width == 1 else (rows, width), kind)
    values = np.frombuffer(buffer, kind, rows * width, array.offset * width * size)
    return values if width == 1 else values.reshape(rows, width)


def integers_of(array: pa.Array) -> Ints:
    """Return the signed integers of 32 or 64 bits that stand for times or short decimals, in 64 bits."""
    values: Ints = raw_values(array, np.int32 if array.type.bit_width == 32 else np.int64).astype(np.int64)
    return values


def texts_of(array: pa.Array) -> tuple[Ints, Bytes]:
    """Return the offsets of strings or binary values without a fixed width, and their bytes, without copying these."""
    _, edges, content = array.buffers()
    rows = len(array)
    if rows == 0 or edges is None:
        return np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8)
    kind = _WIDE_OFFSETS if array.type.id in _LARGE else _OFFSETS
    offsets = np.frombuffer(edges, kind, rows + 1, array.offset * kind.itemsize).astype(np.int64, copy=False)
    return offsets, np.frombuffer(content, np.uint8) if content is not None and content.size else np.zeros(0, np.uint8)


def days(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return dates as days since 1970, however far; values under nulls are undefined.

    64-bit dates with a time of day, which some writers store and Arrow refuses to cast, count as the day around it.
    """
    if pat.is_date32(array.type):
        days32: npt.NDArray[np.int64] = raw_values(array, np.int32).astype(np.int64)
        return days32
    days64: npt.NDArray[np.int64] = raw_values(array, np.int64) // DAY_MS
    return days64


def with_fields(data_type: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """Return a nested type with its fields changed and lists instead of views; any other type unchanged."""
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


def float_codes(values: Floats) -> Ints:
    """Return integers in the order of floats; 0.0 and -0.0 are equal, and NaN is the greatest."""
    bits = (values + 0.0).view(np.int64)
    codes = bits >> 63
    codes &= _INT64_MAX
    codes ^= bits
    missing = np.isnan(values)
    if np.count_nonzero(missing):
        codes[missing] = _INT64_MAX
    return codes


def floats_of(codes: Ints) -> Floats:
    """Return the floats of codes: the inverse of `float_codes`."""
    values: Floats = (codes ^ ((codes >> 63) & _INT64_MAX)).view(np.float64)
    return values


def floats(array: pa.Array) -> Floats:
    """Return numbers as floats, rounded if necessary."""
    if pat.is_integer(array.type):
        kind = "u" if pat.is_unsigned_integer(array.type) else "i"
        integers: Floats = raw_values(array, f"{kind}{array.type.bit_width // 8}").astype(np.float64)
        return integers
    # A cast to the same type takes as long as a pass over a small column.
    wide = array if array.type == _FLOAT64 else array.cast(_FLOAT64)
    numbers: Floats = raw_values(wide, np.float64)
    return numbers


def value_text(array: pa.Array, row: int = 0) -> str:
    """Return a value of an array as text, including times that Python cannot represent."""
    value = plain(array.slice(row, 1))
    if value.null_count:
        return "null"
    text = str(value.to_string(indent=0, skip_new_lines=True))
    # Arrow prints structs by column, over several lines.
    return " ".join(text.split()) if pat.is_struct(value.type) else text.removeprefix("[").removesuffix("]")
