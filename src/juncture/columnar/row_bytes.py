"""Rows as bytes that compare byte by byte as the rows do column by column.

Unlike codes, which are dense and belong to one join, these bytes are stable across processes, so a store on disk can be
sorted and searched by them. They depend only on the types of the columns:

======================================  ===============================================================================
type                                    bytes
======================================  ===============================================================================
any, null                               ``00``; a value has ``01`` before it
boolean                                 1: ``00`` or ``01``
integers of 8 to 64 bits                8, the most significant first; of signed ones the first bit is inverted
dates, times, timestamps, durations     the same, of their count of units
floats                                  8, those of a 64-bit float, the most significant first: the first bit inverted
                                        if it is 0, all bits if it is 1; -0.0 as 0.0, any NaN as ``FF F8 00 …``
decimals of 32 to 256 bits              8, 8, 16 or 32: the unscaled number as signed integers are
intervals                               24: their months, days and nanoseconds as signed integers are
strings and binary                      their bytes, ``00`` as ``00 FF``, and then ``00``
binary of fixed size                    their bytes
lists of any kind, maps                 each item as a column has it, after ``01``; and then ``00``
structs                                 each field as a column has it
null                                    nothing more
======================================  ===============================================================================

Null sorts before all values and NaN after all numbers; false before true; strings by their bytes; lists and structs
part by part, a prefix before longer values; maps by their entries in stored order. Dictionaries, runs, views and
extensions are encoded as their values. The layout of strings is that of FoundationDB's tuples, and the whole is close
to the row format of Apache Arrow's Rust library.

The memory of rows lets kernels compare and concatenate rows in place, in any order of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, plain, raw_values, texts_of, validity
from juncture.columnar.types import is_list, is_text
from juncture.kernels import row_bytes as kernels
from juncture.kernels.array_types import Bytes, Ints, Mask
from juncture.kernels.equal_rows import keep_equal

_SIGN = np.uint64(1 << 63)
_NOTHING = np.zeros(0, np.uint8)
_NAN = np.uint64(0x7FF8 << 48)


@dataclass(frozen=True)
class RowBytes:
    """Byte strings, one for each row: `data` from each offset to the next."""

    offsets: Ints
    data: Bytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def to_arrow(self) -> pa.Array:
        """Return the rows as a binary array, without copying."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)


def encode_rows(columns: Sequence[pa.Array], *, by_key: bool = False) -> RowBytes:
    """Return rows of at least one column as bytes in their order; the first column is the most significant.

    With `by_key`, maps have their entries in the order of keys. Raises `TypeError` for unions. Costs some nanoseconds
    per byte, and the memory of two copies of the result; the items of lists are encoded at once.

    Examples
    --------
    >>> rows = encode_rows([pa.array([1, None]), pa.array(["b", "a"])])
    >>> [row.hex(" ") for row in rows.to_arrow().to_pylist()]
    ['01 80 00 00 00 00 00 00 01 01 62 00', '00 01 61 00']
    """
    return _side_by_side([_encoded(column, by_key) for column in columns])


def _encoded(array: pa.Array, by_key: bool) -> RowBytes:
    """Return the bytes of a column, including the mark of null or value."""
    array = plain(array)
    valid = validity(array)
    mark = np.ones(len(array), np.uint8) if valid is None else valid.astype(np.uint8)
    pieces = [RowBytes(np.arange(len(array) + 1, dtype=np.int64), mark)]
    if not pat.is_null(array.type):
        pieces += [_without(piece, valid) for piece in _value_pieces(array, by_key)]
    return _side_by_side(pieces)


def _value_pieces(array: pa.Array, by_key: bool) -> list[RowBytes]:
    """Return the bytes of values as consecutive pieces; those under nulls are undefined."""
    data_type = array.type
    if pat.is_struct(data_type):
        return [_encoded(child, by_key) for child in array.flatten()]
    if pat.is_map(data_type) or is_list(data_type):
        return [_list_bytes(array, by_key)]
    if is_text(data_type):
        return [_text_bytes(array)]
    width = _fixed_width(data_type)
    words = _words(array) if not pat.is_fixed_size_binary(data_type) else raw_values(array, np.uint8)
    data = np.ascontiguousarray(words).reshape(-1)
    return [RowBytes(np.arange(len(array) + 1, dtype=np.int64) * width, data)]


def _fixed_width(data_type: pa.DataType) -> int:
    """Return the bytes of a value; raise `TypeError` if its type has no order."""
    if pat.is_boolean(data_type):
        return 1
    if pat.is_fixed_size_binary(data_type):
        return int(data_type.byte_width)
    if pat.is_decimal(data_type):
        return max(8, int(data_type.bit_width) // 8)
    if pat.is_interval(data_type):
        return 24
    if pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_temporal(data_type):
        return 8
    raise TypeError(f"Values of type {data_type} have no order.")


def _words(array: pa.Array) -> Bytes:
    """Return the bytes of values of fixed width, one row per value."""
    data_type = array.type
    if pat.is_boolean(data_type):
        truths: Bytes = raw_values(array.cast(pa.uint8()), np.uint8)
        return truths.reshape(-1, 1)
    if pat.is_floating(data_type):
        values = raw_values(array.cast(pa.float64()), np.float64) + 0.0
        bits = np.where(np.isnan(values), _NAN, values.view(np.uint64))
        return _most_significant_first(np.where(bits & _SIGN, ~bits, bits | _SIGN))
    if pat.is_decimal(data_type) and data_type.bit_width > 64:
        raw = raw_values(array, np.uint64)
        words = raw[:, ::-1].copy()
        words[:, 0] ^= _SIGN
        return _most_significant_first(words.reshape(-1)).reshape(len(array), 8 * words.shape[1])
    if pat.is_interval(data_type):
        parts = np.column_stack([raw_values(array, np.int32)[:, :2], raw_values(array, np.int64)[:, 1]])
        return _most_significant_first(parts.reshape(-1).view(np.uint64) ^ _SIGN).reshape(len(array), 24)
    values = raw_values(array, f"i{data_type.bit_width // 8}")
    if pat.is_unsigned_integer(data_type):
        return _most_significant_first(raw_values(array, f"u{data_type.bit_width // 8}").astype(np.uint64))
    return _most_significant_first(values.astype(np.int64).view(np.uint64) ^ _SIGN)


def _most_significant_first(words: npt.NDArray[np.uint64]) -> Bytes:
    return np.ascontiguousarray(words).astype(">u8").view(np.uint8).reshape(-1, 8)


def _text_bytes(array: pa.Array) -> RowBytes:
    """Return strings with escaped zeros and an end mark."""
    offsets, data = texts_of(array)
    lengths = np.empty(len(array), np.int64)
    kernels.escaped_lengths(offsets, data, lengths)
    ends = _edges(lengths)
    target = np.empty(int(ends[-1]), np.uint8)
    kernels.copy_escaped(offsets, data, ends[:-1], target)
    return RowBytes(ends, target)


def _list_bytes(array: pa.Array, by_key: bool) -> RowBytes:
    """Return lists as their items, each after a mark, with an end mark."""
    items, lengths = _items(array, by_key)
    encoded = [_encoded(item, by_key) for item in items]
    marked = _side_by_side([_constant(1, len(items[0])), *encoded])
    edges = _edges(lengths)
    return _side_by_side([RowBytes(marked.offsets[edges], marked.data), _constant(0, len(array))])


def _items(array: pa.Array, by_key: bool) -> tuple[list[pa.Array], Ints]:
    """Return the concatenated items of lists, or keys and values of maps, and the count of each row."""
    if pat.is_map(array.type):
        offsets = np.asarray(array.offsets).astype(np.int64)
        valid = validity(array)
        lengths = np.diff(offsets) if valid is None else np.where(valid, np.diff(offsets), 0)
        # Arrow returns the keys and values of the whole array, even for a slice.
        index = np.repeat(offsets[:-1] - _edges(lengths)[:-1], lengths) + np.arange(lengths.sum())
        if by_key and len(index):
            keys = encode_rows([array.keys.take(array_of(index, pa.int64()))], by_key=True).to_arrow()
            ranks = pc.rank(keys, tiebreaker="dense").to_numpy()
            index = index[np.lexsort([ranks, np.repeat(np.arange(len(lengths)), lengths)])]
        return [child.take(array_of(index, pa.int64())) for child in (array.keys, array.items)], lengths
    counts = pc.list_value_length(array).fill_null(0).cast(pa.int64())
    return [array.flatten()], counts.to_numpy(zero_copy_only=False)


def _constant(value: int, count: int) -> RowBytes:
    """Return the same byte for each row."""
    return RowBytes(np.arange(count + 1, dtype=np.int64), np.full(count, value, np.uint8))


def _without(piece: RowBytes, valid: Mask | None) -> RowBytes:
    """Return pieces without those under nulls."""
    if valid is None or bool(valid.all()):
        return piece
    lengths = np.where(valid, np.diff(piece.offsets), 0)
    ends = _edges(lengths)
    target = np.empty(int(ends[-1]), np.uint8)
    index = np.repeat(piece.offsets[:-1] - ends[:-1], lengths) + np.arange(int(ends[-1]))
    np.take(piece.data, index, out=target)
    return RowBytes(ends, target)


def _side_by_side(pieces: Sequence[RowBytes]) -> RowBytes:
    """Return rows concatenated from their pieces."""
    if len(pieces) == 1:
        return pieces[0]
    ends = _edges(sum((np.diff(piece.offsets) for piece in pieces), np.zeros(len(pieces[0]), np.int64)))
    positions, target = ends[:-1].copy(), np.empty(int(ends[-1]), np.uint8)
    for piece in pieces:
        kernels.copy_pieces(piece.offsets, piece.data, positions, target)
    return RowBytes(ends, target)


def _edges(lengths: Ints) -> Ints:
    edges: Ints = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return edges


@dataclass(frozen=True)
class ColumnMemory:
    """The memory of a column, whose first row is `first`."""

    first: int
    valid: Bytes  # validity bits; empty if no value is null
    values: Bytes  # the values, or the bytes of texts
    width: int  # bytes of a value; 0 for a bit
    edges: Bytes  # offsets of texts, and the bytes of an offset
    edge_width: int  # empty and 0 for other values

    @classmethod
    def of(cls, array: pa.Array) -> ColumnMemory | None:
        """Return the memory of a column; None for nested values."""
        is_wide = pat.is_large_string(array.type) or pat.is_large_binary(array.type)
        edge_width = 8 if is_wide else 4 if pat.is_string(array.type) or pat.is_binary(array.type) else 0
        has_width = pat.is_primitive(array.type) or pat.is_decimal(array.type) or pat.is_fixed_size_binary(array.type)
        if not edge_width and not has_width:
            return None
        buffers = [
            np.frombuffer(each, np.uint8) if each is not None and each.size else _NOTHING for each in array.buffers()
        ]
        valid = buffers[0] if array.null_count else _NOTHING
        if edge_width:
            return cls(array.offset, valid, buffers[2], 1, buffers[1], edge_width)
        return cls(array.offset, valid, buffers[1], array.type.bit_width // 8, _NOTHING, 0)

    def add_lengths(self, lengths: Ints) -> None:
        """Add the bytes that `append` writes for each row."""
        kernels.add_lengths(self.first, self.valid, self.width, self.edges, self.edge_width, lengths)

    def append(self, positions: Ints, target: Bytes) -> None:
        """Write each value to its position, such that no value's bytes are a prefix of another's."""
        memory = self.first, self.valid, self.values, self.width, self.edges, self.edge_width
        kernels.append_values(*memory, positions, target)

    def keep_equal(self, rows: Ints, other: ColumnMemory, positions: Ints, same: Bytes) -> None:
        """Remove candidates of equal rows that differ in this column."""
        one, two = ((each.first, each.valid, each.values, each.edges) for each in (self, other))
        keep_equal(*one, rows, *two, positions, self.width, self.edge_width, same)


@dataclass(frozen=True)
class RowMemory:
    """The memory of the rows of a batch; `columns` is None if a column is nested."""

    batch: pa.RecordBatch
    columns: tuple[ColumnMemory, ...] | None

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> RowMemory:
        """Return the memory of the rows of a batch."""
        columns = []
        for column in batch.columns:
            if pat.is_null(column.type):
                continue
            memory = ColumnMemory.of(column)
            if memory is None:
                return cls(batch, None)
            columns.append(memory)
        return cls(batch, tuple(columns))

    def surely_equal(self, rows: Ints, other: RowMemory, positions: Ints) -> Mask:
        """Return a mask of the rows whose bytes equal those at some positions of other memory of the same types.

        Rows outside the mask may still be equal: equal floats may have different bits.
        """
        if self.columns is None or other.columns is None:
            return np.zeros(len(rows), np.bool_)
        same = np.ones(len(rows), np.uint8)
        for one, two in zip(self.columns, other.columns, strict=True):
            one.keep_equal(rows, two, positions, same)
        return same.view(np.bool_)
