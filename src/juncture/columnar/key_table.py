"""Dense codes for keys, which are assigned to rows of one or both sides, and looked up for rows of either.

Strings are compared once for each distinct value of a dictionary, and never after that. Several columns are coded one
by one and then in pairs, so that different combinations always have different codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import plain, raw_values, validity
from juncture.columnar.key_encoding import Form, Integers, Strings, form_of
from juncture.columnar.row_bytes import ColumnMemory
from juncture.columnar.types import plain_type
from juncture.kernels import keys as kernels
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.hash_table import EMPTY, Table, empty_table, most_keys

Item = TypeVar("Item", bound=np.generic)

_NOTHING = np.zeros(0, np.uint8)

_NULL = 0  # the code of null if nulls are equal; codes of values follow

_FIRST_KEYS = 1 << 9
_SMALL_DICTIONARY = 1 << 10
_FIRST_BYTES = 1 << 14
_GROWTH, _FEW_GROWTH, _FEW_KEYS = 2, 8, 1 << 14
"""How many times as many keys a full table gets room for: of many keys, and of few while more rows are left."""
_DENSE_SLOTS = 4  # most slots per key of a dense range, which takes no more bytes than a table
_REMEMBERED = 4

_CODES_PER_ROW = 4
_CODES_LEAST = 1 << 10  # how many codes pay for keys whose codes are their distances, per row and in all


class KeyCodes:
    """Distinct keys and their codes. The column types are given pair by pair; rows of either side may be added.

    Several threads may call `add` at once, and take turns at new keys; also `find`, while no keys are added. Only one
    thread may call `compact`. Costs 24 to 64 bytes for each distinct integer, and 40 to 80 for each distinct string
    plus its bytes if longer than 15.
    """

    def __init__(self, left: Sequence[pa.DataType], right: Sequence[pa.DataType], *, nulls_equal: bool = False) -> None:
        self._columns = [_Column(form_of(*types), nulls_equal) for types in zip(left, right, strict=True)]
        self._pairs = [_IntegerTable() for _ in self._columns[1:]]

    @property
    def count(self) -> int:
        """Number of codes, including unused ones."""
        if not self._columns:
            return 1
        return self._pairs[-1].count if self._pairs else self._columns[0].count

    def add(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows, assigning codes to new keys; `EMPTY` where a column is null."""
        self._encode(columns, codes, new=True)

    def find(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows; `EMPTY` for unknown keys."""
        self._encode(columns, codes, new=False)

    def compact(self, keep: Mask) -> Codes:
        """Remove keys that are not `keep` (a mask by code), and return the new code of each old one, in linear time.

        New codes are dense and keep their order; those of removed keys are `EMPTY`. The caller must remap stored codes.
        """
        if not self._columns:
            return np.zeros(1, np.int32)
        # From the last pair of codes to the first, since kept pairs determine which of their parts are kept.
        used = [keep]
        counts = [self._columns[0].count, *(pairs.count for pairs in self._pairs)]
        for column, pairs, count in reversed(list(zip(self._columns[1:], self._pairs, counts, strict=False))):
            first, second = _parts_of(pairs.keys[used[-1]])
            used += [_mask(column.count, second), _mask(count, first)]
        mapping = self._columns[0].compact(used.pop())
        for column, pairs in zip(self._columns[1:], self._pairs, strict=True):
            others, here = column.compact(used.pop()), used.pop()
            first, second = _parts_of(pairs.keys)
            pairs.replace(np.where(here, _paired(mapping[first], others[second]), 0))
            mapping = pairs.compact(here)
        return mapping

    def _encode(self, columns: list[pa.Array], codes: Codes, *, new: bool) -> None:
        if not columns:
            codes[:] = 0
            return
        self._columns[0].encode(columns[0], codes, new=new)
        other = np.empty(len(codes), np.int32) if self._pairs else codes
        for column, array, pairs in zip(self._columns[1:], columns[1:], self._pairs, strict=True):
            column.encode(array, other, new=new)
            pair = _paired(codes, other)
            codes[:] = np.where((codes == EMPTY) | (other == EMPTY), EMPTY, 0)
            pairs.encode(Integers(pair, None), codes, new=new)


class RowCodes:
    """Distinct rows of at least one column and their codes. Nulls are equal.

    Columns are concatenated as bytes and looked up once, which takes less time and memory for several columns with text
    than `KeyCodes`. Costs 40 to 80 bytes for each distinct row, the bytes of its values, 1 for each column, and 4 for
    each text.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._forms = [form_of(each, each) for each in types]
        self._table = _StringTable()

    @property
    def count(self) -> int:
        """Number of codes."""
        return self._table.count

    def add(self, columns: Sequence[pa.Array], codes: Codes) -> None:
        """Write the codes of rows, assigning codes to new rows."""
        codes[:] = 0
        self._table.encode(self._rows(columns, len(codes)), codes, new=True)

    def compact(self, keep: Mask) -> Codes:
        """Remove rows, like `KeyCodes.compact`."""
        return self._table.compact(keep)

    def _rows(self, columns: Sequence[pa.Array], rows: int) -> Strings:
        memories = [_memory(form, plain(column)) for form, column in zip(self._forms, columns, strict=True)]
        offsets = np.zeros(rows + 1, np.int64)
        for each in memories:
            each.add_lengths(offsets[1:])
        np.cumsum(offsets, out=offsets)
        data, positions = np.empty(offsets[-1], np.uint8), offsets[:-1].copy()
        for each in memories:
            each.append(positions, data)
        return Strings(offsets, data, None)


def _memory(form: Form, array: pa.Array) -> ColumnMemory:
    """Return the memory of values, or of their form, in which equal values have equal bytes."""
    memory = None if _has_forms(array.type) else ColumnMemory.of(array)
    if memory is not None:
        return memory
    values = form.of(array)
    bits = _NOTHING if values.valid is None else np.packbits(values.valid, bitorder="little")
    if isinstance(values, Integers):
        return ColumnMemory(0, bits, values.values.view(np.uint8), 8, _NOTHING, 0)
    return ColumnMemory(0, bits, values.data, 1, values.offsets.view(np.uint8), 8)


def _has_forms(data_type: pa.DataType) -> bool:
    """Return whether equal values of a type may have different bytes."""
    return bool(pat.is_floating(data_type) or pat.is_boolean(data_type) or pat.is_date64(data_type))


@dataclass(frozen=True)
class _Dense:
    """Codes of integers in a narrow range, indexed by the integer minus `least`; `EMPTY` past the end."""

    least: int
    slots: Codes

    @staticmethod
    def of(keys: Ints) -> _Dense | None:
        """Return the same codes in this form; None if the integers are too far apart."""
        least, greatest = int(keys.min()), int(keys.max())
        if greatest - least >= _DENSE_SLOTS * len(keys):
            return None
        slots = np.full(greatest - least + 2, EMPTY, np.int32)
        kernels.list_dense(keys, least, slots)
        return _Dense(least, slots)


class _IntegerTable:
    def __init__(self) -> None:
        self.count = 0
        self._dense: _Dense | None = None
        self._lookups = 0
        self._table = empty_table(_FIRST_KEYS)
        self._keys = np.empty(_FIRST_KEYS, np.int64)
        self._lock = Lock()

    @property
    def keys(self) -> Ints:
        """The integer of each code."""
        return self._keys[: self.count]

    def replace(self, values: Ints) -> None:
        """Replace the integers of the codes; `compact` makes them searchable."""
        self._keys[: self.count] = values

    def compact(self, keep: Mask) -> Codes:
        """Remove integers, and return the new code of each old one."""
        values = self.keys[keep]
        self.count = len(values)
        self._dense, self._lookups = None, 0
        self._table = empty_table(max(_FIRST_KEYS, _GROWTH * self.count))
        self._keys = _lengthened(values, most_keys(self._table))
        kernels.refill_integers(self._keys, self.count, self._table)
        return _renumbered(keep)

    def encode(self, form: Integers, codes: Codes, *, new: bool) -> None:
        """Write the codes; `EMPTY` rows stay so."""
        if not new:
            dense = self._dense_if_worth(len(codes))
            if dense is None:
                kernels.find_integers(form.values, self._table, self._keys, codes)
            else:
                kernels.find_dense(form.values, dense.least, dense.slots, codes)
            return
        with self._lock:
            self._dense, self._lookups = None, 0
            position = 0
            while True:
                start = position
                position = kernels.add_integers(form.values, start, self._table, self._keys, self.count, codes)
                self.count = max(self.count, int(codes[start:position].max(initial=-1)) + 1)
                if position == len(codes):
                    return
                self._table = _larger_table(self.count, len(codes) - position)
                self._keys = _lengthened(self._keys, most_keys(self._table))
                kernels.refill_integers(self._keys, self.count, self._table)

    def _dense_if_worth(self, rows: int) -> _Dense | None:
        """Return the dense form once the number of lookups reaches the number of keys."""
        with self._lock:
            before = self._lookups
            self._lookups += rows
            if before < self.count <= self._lookups:
                self._dense = _Dense.of(self.keys)
            return self._dense


class _StringTable:
    def __init__(self) -> None:
        self.count = 0
        self._table = empty_table(_FIRST_KEYS)
        self._words = np.empty(2 * _FIRST_KEYS, np.uint64)
        self._offsets = np.zeros(_FIRST_KEYS + 1, np.int64)
        self._bytes = np.empty(_FIRST_BYTES, np.uint8)
        self._lock = Lock()

    def encode(self, form: Strings, codes: Codes, *, new: bool) -> None:
        """Write the codes; `EMPTY` rows stay so."""
        if not new:
            kernels.find_bytes(form.offsets, form.data, self._table, self._words, self._offsets, self._bytes, codes)
            return
        with self._lock:
            position = 0
            while True:
                start = position
                position = kernels.add_bytes(
                    form.offsets,
                    form.data,
                    start,
                    self._table,
                    self._words,
                    self._offsets,
                    self._bytes,
                    self.count,
                    codes,
                )
                self.count = max(self.count, int(codes[start:position].max(initial=-1)) + 1)
                if position == len(codes):
                    return
                self._make_room(int(form.offsets[position + 1] - form.offsets[position]), len(codes) - position)

    def compact(self, keep: Mask) -> Codes:
        """Remove strings, and return the new code of each old one."""
        codes = np.flatnonzero(keep)
        starts, lengths = self._offsets[codes], np.diff(self._offsets[: self.count + 1])[codes]
        edges = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._bytes = self._bytes[np.repeat(starts - edges[:-1], lengths) + np.arange(edges[-1])]
        words = self._words[: 2 * self.count].reshape(-1, 2)[codes].reshape(-1)
        self.count = len(codes)
        self._table = empty_table(max(_FIRST_KEYS, _GROWTH * self.count))
        most = most_keys(self._table)
        self._words, self._offsets = _lengthened(words, 2 * most), _lengthened(edges, most + 1)
        kernels.refill_bytes(self._words, self.count, self._table)
        return _renumbered(keep)

    def _make_room(self, length: int, rows: int) -> None:
        """Grow the table, or the bytes of the keys, whichever is full; some rows are still to be added."""
        if self.count == most_keys(self._table):
            self._table = _larger_table(self.count, rows)
            most = most_keys(self._table)
            self._words = _lengthened(self._words, 2 * most)
            self._offsets = _lengthened(self._offsets, most + 1)
            kernels.refill_bytes(self._words, self.count, self._table)
        else:
            self._bytes = _lengthened(self._bytes, 2 * len(self._bytes) + length)


def _larger_table(count: int, rows: int) -> Table:
    """Return an empty table for more than a number of keys, to which some rows will be added."""
    most = min(count + rows, _FEW_GROWTH * count) if count < _FEW_KEYS else 0
    return empty_table(max(_GROWTH * count, most))


def _lengthened(values: npt.NDArray[Item], length: int) -> npt.NDArray[Item]:
    longer = np.empty(length, values.dtype)
    longer[: len(values)] = values
    return longer


class _Column:
    """The codes of one pair of ``by`` columns."""

    def __init__(self, form: Form, nulls_equal: bool) -> None:
        self._form = form
        self._nulls_equal = nulls_equal
        self._integers = _IntegerTable()
        self._strings = _StringTable()
        self._remembered: list[tuple[pa.Array, int | None, Codes]] = []

    @property
    def count(self) -> int:
        """Number of codes."""
        return max(self._integers.count, self._strings.count) + int(self._nulls_equal)

    def encode(self, array: pa.Array, codes: Codes, *, new: bool) -> None:
        """Write the codes; `EMPTY` for nulls unless they are equal, and for unknown keys unless `new`."""
        if pat.is_dictionary(array.type) and len(array.dictionary) <= 4 * len(array) + _SMALL_DICTIONARY:
            valid = validity(array.indices)
            codes[:] = 0 if valid is None else np.where(valid, 0, EMPTY)
            width = array.indices.type.bit_width // 8
            indices = raw_values(array.indices, f"{'u' if pat.is_unsigned_integer(array.indices.type) else 'i'}{width}")
            mapping = self._mapping(array.dictionary, new=new)
            kernels.map_codes(indices.astype(np.int32, copy=False), mapping, codes)
            if self._nulls_equal and valid is not None:
                codes[~valid] = _NULL
            return
        form = self._form.of(array)
        codes[:] = 0 if form.valid is None else np.where(form.valid, 0, EMPTY)
        if isinstance(form, Integers):
            self._integers.encode(form, codes, new=new)
        else:
            self._strings.encode(form, codes, new=new)
        if self._nulls_equal:
            if new and form.valid is None:
                # All rows have a value with a code.
                codes += _NULL + 1
                return
            codes[codes != EMPTY] += _NULL + 1
            valid = validity(plain(array))
            if valid is not None:
                codes[~valid] = _NULL

    def compact(self, keep: Mask) -> Codes:
        """Remove values, and return the new code of each old one; that of null stays."""
        table = self._strings if self._strings.count else self._integers
        self._remembered = []
        mapping = table.compact(keep[int(self._nulls_equal) :])
        if not self._nulls_equal:
            return mapping
        return np.concatenate([[_NULL], np.where(mapping == EMPTY, EMPTY, mapping + _NULL + 1)]).astype(np.int32)

    def _mapping(self, dictionary: pa.Array, *, new: bool) -> Codes:
        """Return the code of each value of a dictionary, cached since slices of one table share a dictionary.

        A mapping made without adding keys is valid until keys are added.
        """
        count = self.count
        for values, codes, mapping in self._remembered:
            if (codes is None or (codes == count and not new)) and _same(values, dictionary):
                return mapping
        mapping = np.empty(len(dictionary), np.int32)
        self.encode(dictionary, mapping, new=new)
        self._remembered = [(dictionary, None if new else count, mapping), *self._remembered[: _REMEMBERED - 1]]
        return mapping


def _paired(first: Codes, second: Codes) -> Ints:
    return (first.astype(np.int64) << 32) | second


def _parts_of(pairs: Ints) -> tuple[Ints, Ints]:
    return pairs >> 32, pairs & 0xFFFFFFFF


def _mask(count: int, codes: Ints) -> Mask:
    """Return a mask of the codes in an array."""
    mask = np.zeros(count, np.bool_)
    mask[codes] = True
    return mask


def _renumbered(keep: Mask) -> Codes:
    """Return the new code of each old one."""
    return np.where(keep, np.cumsum(keep) - 1, EMPTY).astype(np.int32)


def _same(one: pa.Array, other: pa.Array) -> bool:
    """Return whether two arrays share their memory."""
    if one.type != other.type or len(one) != len(other) or one.offset != other.offset or len(one) == 0:
        return False
    buffers = zip(one.buffers(), other.buffers(), strict=False)
    return all((a is None) == (b is None) and (a is None or a.address == b.address) for a, b in buffers)


def counts_steps(data_type: pa.DataType) -> bool:
    """Return whether values are whole numbers of steps, and Arrow computes the minimum and maximum of the type."""
    plain = plain_type(data_type)
    return bool(pat.is_integer(plain) or pat.is_date(plain) or pat.is_timestamp(plain) or pat.is_time(plain))


def is_narrow(least: int, greatest: int, rows: int) -> bool:
    """Return whether a range of keys is so narrow, for the number of rows, that a place for each key pays."""
    return greatest - least < max(_CODES_LEAST, _CODES_PER_ROW * rows)


@dataclass(frozen=True)
class DenseKeys:
    """Codes of keys in one column of integers, dates or times; no row has some of them, and null has none."""

    form: Form
    least: int
    count: int

    @classmethod
    def of(cls, first: pa.DataType, second: pa.DataType, ends: pa.Array | None, rows: int) -> Self | None:
        """Return codes for keys between `ends` (None if not known), or None if that is too wide for the rows."""
        if ends is None or ends.null_count:
            return None
        form = form_of(first, second)
        encoded = form.of(ends)
        if not isinstance(encoded, Integers) or encoded.valid is not None:
            return None
        least, greatest = encoded.values.tolist()
        # Unsigned integers beyond signed ones are encoded as negative ones, so the order of the ends can be reversed.
        is_dense = least <= greatest and is_narrow(least, greatest, rows)
        return cls(form, least, greatest - least + 1) if is_dense else None

    def add(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows of the side that the range is of."""
        self.find(columns, codes)

    def find(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows; `EMPTY` outside of the range."""
        encoded = self.form.of(columns[0])
        assert isinstance(encoded, Integers)
        codes[:] = 0 if encoded.valid is None else np.where(encoded.valid, 0, EMPTY)
        kernels.number_dense(encoded.values, self.least, self.count, codes)
