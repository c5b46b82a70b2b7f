"""Dense codes for the ``by`` values: given to the left rows, then looked up for the right ones.

Strings are compared once for each distinct value of a dictionary where there is one, and never after that. Several
columns are coded one by one and then in pairs, so that no two combinations can be confused.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import plain, raw_values, validity
from juncture.columnar.key_encoding import Form, Integers, Strings, form_of
from juncture.kernels import keys as kernels

__all__ = ["EMPTY", "KeyCodes"]

EMPTY = kernels.EMPTY
"""The code of a row whose key is null, or that no left row has."""

Codes = npt.NDArray[np.int32]
Item = TypeVar("Item", bound=np.generic)

_NULL = 0
"""The code of null where nulls are equal; those of values come after it."""

_FIRST_KEYS = 1 << 9
_SMALL_DICTIONARY = 1 << 10
_FIRST_BYTES = 1 << 14
_GROWTH = 2
_REMEMBERED = 4


class KeyCodes:
    """The distinct keys of the left rows, and the code of each.

    Parameters
    ----------
    left, right
        The types of the ``by`` columns of both sides, pair by pair.
    nulls_equal
        Whether null is a value like others.

    Notes
    -----
    `add` may be called by several threads at once, which take turns where keys are new; `find` too, once all keys are
    in. Costs 24 to 48 bytes for each distinct integer, 40 to 80 for each distinct string, and the bytes of those longer
    than 15.
    """

    def __init__(self, left: Sequence[pa.DataType], right: Sequence[pa.DataType], *, nulls_equal: bool = False) -> None:
        self._columns = [_Column(form_of(*types), nulls_equal) for types in zip(left, right, strict=True)]
        self._pairs = [_IntegerTable() for _ in self._columns[1:]]

    @property
    def count(self) -> int:
        """How many codes there are; some may belong to no row."""
        if not self._columns:
            return 1
        return self._pairs[-1].count if self._pairs else self._columns[0].table_count

    def add(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of left rows, giving new keys new ones; `EMPTY` where a column is null."""
        self._encode(columns, codes, new=True)

    def find(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of right rows; `EMPTY` where no left row has the key."""
        self._encode(columns, codes, new=False)

    def _encode(self, columns: list[pa.Array], codes: Codes, *, new: bool) -> None:
        if not columns:
            codes[:] = 0
            return
        self._columns[0].encode(columns[0], codes, new=new)
        other = np.empty(len(codes), np.int32) if self._pairs else codes
        for column, array, pairs in zip(self._columns[1:], columns[1:], self._pairs, strict=True):
            column.encode(array, other, new=new)
            pair = (codes.astype(np.int64) << 32) | other
            codes[:] = np.where((codes == EMPTY) | (other == EMPTY), EMPTY, 0)
            pairs.encode(Integers(pair, None), codes, new=new)


class _IntegerTable:
    """Codes of 64-bit integers."""

    def __init__(self) -> None:
        self.count = 0
        self._table = kernels.empty_table(_FIRST_KEYS)
        self._known = np.empty(_FIRST_KEYS, np.int64)
        self._lock = Lock()

    def encode(self, form: Integers, codes: Codes, *, new: bool) -> None:
        """Write the codes; those that are `EMPTY` stay so."""
        if not new:
            kernels.find_integers(form.values, self._table, self._known, codes)
            return
        with self._lock:
            position = 0
            while True:
                start = position
                position = kernels.add_integers(form.values, start, self._table, self._known, self.count, codes)
                self.count = max(self.count, int(codes[start:position].max(initial=-1)) + 1)
                if position == len(codes):
                    return
                self._table = kernels.empty_table(_GROWTH * self.count)
                self._known = _lengthened(self._known, kernels.most_keys(self._table))
                kernels.refill_integers(self._known, self.count, self._table)


class _StringTable:
    """Codes of byte strings."""

    def __init__(self) -> None:
        self.count = 0
        self._table = kernels.empty_table(_FIRST_KEYS)
        self._words = np.empty(2 * _FIRST_KEYS, np.uint64)
        self._offsets = np.zeros(_FIRST_KEYS + 1, np.int64)
        self._known = np.empty(_FIRST_BYTES, np.uint8)
        self._lock = Lock()

    def encode(self, form: Strings, codes: Codes, *, new: bool) -> None:
        """Write the codes; those that are `EMPTY` stay so."""
        if not new:
            kernels.find_bytes(form.offsets, form.data, self._table, self._words, self._offsets, self._known, codes)
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
                    self._known,
                    self.count,
                    codes,
                )
                self.count = max(self.count, int(codes[start:position].max(initial=-1)) + 1)
                if position == len(codes):
                    return
                self._make_room(int(form.offsets[position + 1] - form.offsets[position]))

    def _make_room(self, length: int) -> None:
        """Grow what is full: the table, or the bytes of the known keys."""
        if self.count == kernels.most_keys(self._table):
            self._table = kernels.empty_table(_GROWTH * self.count)
            most = kernels.most_keys(self._table)
            self._words = _lengthened(self._words, 2 * most)
            self._offsets = _lengthened(self._offsets, most + 1)
            kernels.refill_bytes(self._words, self.count, self._table)
        else:
            self._known = _lengthened(self._known, 2 * len(self._known) + length)


def _lengthened(values: npt.NDArray[Item], length: int) -> npt.NDArray[Item]:
    """Return values with room for more."""
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
        self._remembered: list[tuple[pa.Array, bool, Codes]] = []

    @property
    def table_count(self) -> int:
        """How many codes there are."""
        return max(self._integers.count, self._strings.count) + int(self._nulls_equal)

    def encode(self, array: pa.Array, codes: Codes, *, new: bool) -> None:
        """Write the codes; `EMPTY` for nulls unless they are equal, and for keys that are unknown unless new."""
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
            codes[codes != EMPTY] += _NULL + 1
            valid = validity(plain(array))
            if valid is not None:
                codes[~valid] = _NULL

    def _mapping(self, dictionary: pa.Array, *, new: bool) -> Codes:
        """Return the code of each value of a dictionary; slices of one table share theirs, so it is remembered."""
        for known, known_new, mapping in self._remembered:
            if known_new == new and _same(known, dictionary):
                return mapping
        mapping = np.empty(len(dictionary), np.int32)
        self.encode(dictionary, mapping, new=new)
        self._remembered = [(dictionary, new, mapping), *self._remembered[: _REMEMBERED - 1]]
        return mapping


def _same(one: pa.Array, other: pa.Array) -> bool:
    """Tell whether two arrays are the same memory."""
    if one.type != other.type or len(one) != len(other) or one.offset != other.offset or len(one) == 0:
        return False
    buffers = zip(one.buffers(), other.buffers(), strict=False)
    return all((a is None) == (b is None) and (a is None or a.address == b.address) for a, b in buffers)
