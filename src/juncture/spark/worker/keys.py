"""Numbers that place rows: a hash of the key, and an integer in the order of ``on``, alike on both sides.

They decide only where a row goes, never whether it matches. So two keys may share a hash, and neighbouring values of
``on`` may share a number, as long as equal values get equal numbers and greater values never smaller ones, whatever
types the two sides have.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.spec.asof import ResolvedAsof
from juncture.spec.schema import TIME_UNITS, plain_type

__all__ = ["Coding", "dense_keys", "one_chunk", "place"]

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
_DECIMAL_DIGITS_MAX = 76
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class Coding:
    """How the rows of both sides are turned into numbers.

    Attributes
    ----------
    by
        For each key column, the type in which the two sides meet.
    on
        The type in which the ``on`` columns meet.
    hash_bits
        How many bits of a hash are used. All, except where a test wants keys to collide.
    """

    by: tuple[pa.DataType, ...]
    on: pa.DataType
    hash_bits: int = 64

    @classmethod
    def of(cls, join: ResolvedAsof) -> Coding:
        """Return the coding of a join."""
        pairs = zip(join.left_by, join.right_by, strict=True)
        by = tuple(_meeting(join.left_schema.field(ours).type, join.right_schema.field(theirs).type) for ours, theirs in pairs)
        on = _meeting(join.left_schema.field(join.left_on).type, join.right_schema.field(join.right_on).type)
        return cls(by, on)

    def hashes(self, columns: list[pa.Array]) -> tuple[Words, Mask]:
        """Return a hash of each row's key, and which rows have one: all ``by`` values not null."""
        length = len(columns[0])
        hashes, valid = np.zeros(length, np.uint64), np.ones(length, np.bool_)
        for column, meeting in zip(columns, self.by, strict=True):
            hashes = _mixed(hashes * _MULTIPLIER ^ _hashes(column, meeting))
            if column.null_count:
                valid &= np.asarray(column.is_valid())
        if self.hash_bits < 64:
            hashes >>= np.uint64(64 - self.hash_bits)
            hashes <<= np.uint64(64 - self.hash_bits)
        return hashes, valid

    def codes(self, column: pa.Array) -> tuple[Ints, Mask]:
        """Return a number for each ``on``, and which rows have one: those that are not null or NaN."""
        column = _plain(column)
        valid = np.asarray(column.is_valid())
        if pat.is_floating(self.on):
            values = _filled(column.cast(pa.float64()), 0.0) + 0.0
            numbers = np.isnan(values)
            bits = np.where(numbers, 0.0, values).view(np.int64)
            return np.where(bits < 0, bits ^ _INT64_MAX, bits), valid & ~numbers
        if pat.is_decimal(self.on):
            return _decimal_codes(column, self.on), valid
        if pat.is_uint64(self.on):
            # Half the value, so that both kinds of integers have room.
            values = _filled(column, 0)
            return (values >> values.dtype.type(1)).astype(np.int64), valid
        return _integers(column, self.on), valid


def place(
    table: pa.Table, by: tuple[str, ...], on: str, coding: Coding
) -> tuple[Words, Ints, Mask]:
    """Return the hash and the code of each row, and which rows have both. Without ``by`` all hashes are zero."""
    codes, ordered = coding.codes(one_chunk(table[on]))
    if not by:
        return np.zeros(len(codes), np.uint64), codes, ordered
    hashes, keyed = coding.hashes([one_chunk(table[name]) for name in by])
    return hashes, codes, keyed & ordered


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    column = column.combine_chunks()
    return column if isinstance(column, pa.Array) else column.chunk(0)


def _meeting(ours: pa.DataType, theirs: pa.DataType) -> pa.DataType:
    """Return the type in which values of two types of one kind are turned into numbers."""
    ours, theirs = plain_type(ours), plain_type(theirs)
    if pat.is_integer(ours):
        return pa.uint64() if pat.is_uint64(ours) or pat.is_uint64(theirs) else pa.int64()
    if pat.is_floating(ours):
        return pa.float64()
    if pat.is_decimal(ours):
        scale = max(ours.scale, theirs.scale)
        digits = max(ours.precision - ours.scale, theirs.precision - theirs.scale) + scale
        return pa.decimal256(min(digits, _DECIMAL_DIGITS_MAX), scale)
    if pat.is_timestamp(ours):
        # The coarser unit, rounded down: the finer one may have no room for the other's values.
        return pa.timestamp(min(ours.unit, theirs.unit, key=TIME_UNITS.index))
    if pat.is_date(ours):
        return pa.date32()
    if pat.is_time(ours):
        return pa.time64("ns")
    if pat.is_struct(ours):
        fields = (_meeting(ours.field(i).type, theirs.field(i).type) for i in range(ours.num_fields))
        return pa.struct([(str(i), item) for i, item in enumerate(fields)])
    if _is_list(ours):
        return pa.list_(_meeting(ours.value_type, theirs.value_type))
    if _is_bytes(ours):
        return pa.large_binary()
    return ours


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pat.is_list(data_type) or pat.is_large_list(data_type) or pat.is_fixed_size_list(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    text = pat.is_string(data_type) or pat.is_large_string(data_type) or pat.is_string_view(data_type)
    fixed = pat.is_fixed_size_binary(data_type) or pat.is_binary_view(data_type)
    return bool(text or fixed or pat.is_binary(data_type) or pat.is_large_binary(data_type))


def _plain(column: pa.Array) -> pa.Array:
    if pat.is_run_end_encoded(column.type):
        return _plain(pc.run_end_decode(column))
    return column.dictionary_decode() if pat.is_dictionary(column.type) else column


def _filled(column: pa.Array, value: object) -> npt.NDArray[np.generic]:
    """Return a primitive column as an array of its own kind, with a value in place of nulls."""
    if column.null_count:
        column = column.fill_null(value)
    return np.asarray(column)


def _integers(column: pa.Array, meeting: pa.DataType) -> Ints:
    """Return integers, dates, times and timestamps as whole numbers of the meeting type's unit."""
    data_type = column.type
    if pat.is_date64(data_type):
        return np.asarray(_filled(column.cast(pa.int64()), 0) // 86_400_000, np.int64)
    if pat.is_date32(data_type) or pat.is_time32(data_type):
        column = column.cast(pa.int32())
    elif pat.is_timestamp(data_type) or pat.is_time64(data_type) or pat.is_duration(data_type):
        column = column.cast(pa.int64())
    values = _filled(column, 0)
    if pat.is_timestamp(data_type):
        factor = 1_000 ** (TIME_UNITS.index(data_type.unit) - TIME_UNITS.index(meeting.unit))
        return np.asarray(values // factor if factor > 1 else values, np.int64)
    if pat.is_time(data_type):
        return values.astype(np.int64) * 1_000 ** (3 - TIME_UNITS.index(data_type.unit))
    return values.astype(np.int64)


def _decimal_words(column: pa.Array, meeting: pa.DataType) -> Words:
    """Return the four 64-bit words of each decimal, the lowest first, as two's complement."""
    column = column.cast(meeting)
    words = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 4)
    words = words[column.offset : column.offset + len(column)]
    return words * np.asarray(column.is_valid()).astype(np.uint64)[:, None] if column.null_count else words


def _decimal_codes(column: pa.Array, meeting: pa.DataType) -> Ints:
    """Return the highest 63 bits that a decimal of this precision can have, rounded down."""
    words = _decimal_words(column, meeting)
    shift = max(0, (10**meeting.precision).bit_length() - 63)
    first, rest = divmod(shift, 64)
    codes = words[:, first] >> np.uint64(rest)
    if rest:
        above = words[:, first + 1] if first < 3 else np.where(words[:, 3] >> np.uint64(63), ~np.uint64(0), np.uint64(0))
        codes |= above << np.uint64(64 - rest)
    return codes.view(np.int64)


def _hashes(column: pa.Array, meeting: pa.DataType) -> Words:
    """Return a hash of each value, nulls included."""
    if pat.is_run_end_encoded(column.type):
        column = _plain(column)
    if pat.is_dictionary(column.type):
        values = _hashes(column.dictionary, meeting)
        indices = _filled(column.indices, 0)
        hashes = values[indices] if len(values) else np.zeros(len(column), np.uint64)
    elif pat.is_struct(meeting):
        hashes = np.zeros(len(column), np.uint64)
        for child, field in zip(column.flatten(), meeting, strict=True):
            hashes = _mixed(hashes * _MULTIPLIER ^ _hashes(child, field.type))
    elif _is_list(meeting):
        hashes = _list_hashes(column, meeting)
    else:
        hashes = _mixed(_plain_words(column, meeting))
    return np.where(np.asarray(column.is_valid()), hashes, _NULL) if column.null_count else hashes


def _plain_words(column: pa.Array, meeting: pa.DataType) -> Words:
    """Return a number for each value that is not nested."""
    if pat.is_large_binary(meeting):
        return _byte_hashes(column)
    if pat.is_floating(meeting):
        values = _filled(column.cast(pa.float64()), 0.0) + 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    if pat.is_decimal(meeting):
        words = _decimal_words(column, meeting)
        return _mixed(_mixed(_mixed(words[:, 0]) ^ words[:, 1]) ^ words[:, 2]) ^ words[:, 3]
    if pat.is_boolean(meeting):
        return np.asarray(_filled(column, False), np.uint64)
    if pat.is_integer(meeting):
        return np.asarray(_filled(column, 0)).astype(np.int64, copy=False).view(np.uint64)
    if pat.is_temporal(meeting):
        return _integers(column, meeting).view(np.uint64)
    return np.array([zlib.crc32(repr(value).encode()) for value in column.to_pylist()], np.uint64)


def _byte_hashes(column: pa.Array) -> Words:
    """Return a hash of each string or binary value."""
    from juncture.kernels.keys import hash_bytes

    if pat.is_string_view(column.type):
        column = column.cast(pa.large_string())
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    hashes = np.empty(len(column), np.uint64)
    if len(column):
        values = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        hash_bytes(np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1], values, hashes)
    return hashes


def _list_hashes(column: pa.Array, meeting: pa.DataType) -> Words:
    """Return a hash of each list: of its items and their places."""
    if pat.is_fixed_size_list(column.type):
        column = column.cast(pa.large_list(column.type.value_type))
    offsets = np.asarray(column.offsets, np.int64)
    lengths = np.diff(offsets)
    items = _hashes(column.values.slice(offsets[0], offsets[-1] - offsets[0]), meeting.value_type)
    offsets = offsets - offsets[0]
    places = np.arange(len(items)) - np.repeat(offsets[:-1], lengths)
    totals = np.concatenate([[np.uint64(0)], np.cumsum(_mixed(items * _MULTIPLIER ^ places.astype(np.uint64)))])
    return _mixed(totals[offsets[1:]] - totals[offsets[:-1]] ^ lengths.astype(np.uint64))


def _mixed(values: Words) -> Words:
    """Spread each number over all 64 bits (the finalizer of MurmurHash3)."""
    values = values ^ (values >> np.uint64(33))
    values *= np.uint64(0xFF51AFD7ED558CCD)
    values ^= values >> np.uint64(33)
    values *= np.uint64(0xC4CEB9FE1A85EC53)
    values ^= values >> np.uint64(33)
    return values


def dense_keys(columns: list[pa.Array]) -> Ints:
    """Return a small number for each row, the same for equal keys and only for those.

    Parameters
    ----------
    columns
        The key columns, without nulls.
    """
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        ours = _dense(column)
        codes = np.unique(codes * (ours.max(initial=0) + 1) + ours, return_inverse=True)[1]
    return codes


def _dense(column: pa.Array) -> Ints:
    """Return a small number for each value: null is one, and so is NaN; -0.0 is 0.0."""
    column = _plain(column) if pat.is_run_end_encoded(column.type) else column
    if pat.is_struct(column.type):
        present = np.asarray(column.is_valid(), np.int64)
        children = [_dense(child) for child in column.flatten()]
        return np.unique(np.stack([present, *children]), axis=1, return_inverse=True)[1].reshape(-1)
    if _is_list(column.type):
        seen: dict[object, int] = {}
        return np.array([seen.setdefault(_hashable(item), len(seen)) for item in column.to_pylist()], np.int64)
    if pat.is_floating(column.type):
        values = _filled(column.cast(pa.float64()), 0.0) + 0.0
        column = pa.array(np.where(np.isnan(values), np.nan, values).view(np.int64), mask=np.asarray(column.is_null()))
    encoded = column if pat.is_dictionary(column.type) else column.dictionary_encode()
    return np.asarray(_filled(encoded.indices, -1), np.int64) + 1


def _hashable(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple(map(_hashable, value.values()))
    return value
