"""Numbers that place rows: a hash of the key, and an integer in the order of ``on``, alike on both sides.

They decide only where a row goes, never whether it matches. So two keys may share a hash, and neighbouring values of
``on`` may share a number, as long as equal values get equal numbers and greater values never smaller ones, whatever
types the two sides have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import Mask, plain, raw_values, validity
from juncture.columnar.key_encoding import Integers, form_of
from juncture.columnar.key_table import KeyCodes
from juncture.columnar.order_encoding import float_codes
from juncture.kernels.array_types import Ints, Words
from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved
from juncture.spec.schema import TIME_UNITS, plain_type

__all__ = ["Coding", "decimal_shift", "dense_keys", "key_types", "one_chunk", "row_codes"]

_DECIMAL_DIGITS_MAX = 76
_DAY_MILLIS = 86_400_000
_NULL_HASH = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Coding:
    """How the rows of both sides are turned into numbers.

    Attributes
    ----------
    by
        The types of each pair of key columns.
    on
        The types of the ``on`` columns.
    hash_bits
        How many bits of a hash are used: all, except where a test wants keys to collide.
    nulls_equal
        Whether null equals null in key columns.
    """

    by: tuple[tuple[pa.DataType, pa.DataType], ...]
    on: tuple[pa.DataType, ...]
    hash_bits: int = 64
    nulls_equal: bool = False

    @classmethod
    def of(cls, join: ResolvedAsof) -> Coding:
        """Return the coding of a join."""
        left, right = join.left_schema, join.right_schema
        on = left.field(join.left_on).type, right.field(join.right_on).type
        return cls(key_types(join), on, nulls_equal=join.nulls_equal)

    def hashes(self, columns: Sequence[pa.Array], rows: int) -> tuple[Words, Mask]:
        """Return a hash of each row's key, and which rows have one that the other side may have too.

        Without key columns all hashes are zero.
        """
        hashes, valid = np.zeros(rows, np.uint64), np.ones(rows, np.bool_)
        for place, (column, types) in enumerate(zip(columns, self.by, strict=True)):
            ours, present = self._column_hashes(column, types)
            hashes = _mixed(hashes) ^ ours if place else ours
            if present is not None:
                valid &= present
        dropped = np.uint64(64 - self.hash_bits)
        return (hashes >> dropped << dropped if dropped else hashes), valid

    def _column_hashes(self, column: pa.Array, types: tuple[pa.DataType, pa.DataType]) -> tuple[Words, Mask | None]:
        """Return a hash of each value, and which values have one."""
        hashes, present = _hashes(column, types)
        is_there = validity(plain(column)) if self.nulls_equal else None
        if present is None or is_there is None:
            return hashes, present
        return np.where(is_there, hashes, _NULL_HASH), present | ~is_there

    def codes(self, column: pa.Array) -> tuple[Ints, Mask | None]:
        """Return a number for each ``on``, and which rows have one, None for all: those that are not null or NaN."""
        column, types = plain(column), tuple(map(plain_type, self.on))
        valid = validity(column)
        if pat.is_floating(column.type):
            values = raw_values(column.cast(pa.float64()), np.float64)
            numbers = ~np.isnan(values)
            return float_codes(values), numbers if valid is None else valid & numbers
        if pat.is_decimal(column.type):
            return _decimal_codes(column, types), valid
        if any(map(pat.is_uint64, types)):
            # Half the value, so that there is room for both signed and unsigned ones.
            if pat.is_uint64(column.type):
                return (raw_values(column, np.uint64) >> np.uint64(1)).astype(np.int64), valid
            return raw_values(column.cast(pa.int64()), np.int64) >> 1, valid
        if pat.is_timestamp(column.type):
            # The coarser unit, rounded down: the finer one may have no room for the other's values.
            coarser = min(TIME_UNITS.index(side.unit) for side in types)
            factor = 1_000 ** (TIME_UNITS.index(column.type.unit) - coarser)
            return raw_values(column, np.int64) // factor, valid
        if pat.is_date(column.type):
            column = column.cast(pa.date32()).view(pa.int32())
        return np.asarray(raw_values(column.cast(pa.int64()), np.int64)), valid


def key_types(join: Resolved) -> tuple[tuple[pa.DataType, pa.DataType], ...]:
    """Return the types of each pair of key columns."""
    pairs = zip(join.left_by, join.right_by, strict=True)
    return tuple((join.left_schema.field(a).type, join.right_schema.field(b).type) for a, b in pairs)


def dense_keys(table: pa.Table, by: tuple[str, ...], *, nulls_equal: bool = False) -> Ints:
    """Return a small number for each row, the same for equal keys and only for those.

    No key may have a null, unless nulls are equal.
    """
    columns = [one_chunk(table[name]) for name in by]
    types = [column.type for column in columns]
    codes = np.zeros(table.num_rows, np.int32)
    KeyCodes(types, types, nulls_equal=nulls_equal).add(columns, codes)
    return codes.astype(np.int64)


def row_codes(table: pa.Table) -> Ints:
    """Return a number for each row, the same for rows that agree in all columns, nulls included, and only for those."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in table.column_names:
        column = np.empty(table.num_rows, np.int32)
        array = one_chunk(table[name])
        KeyCodes([array.type], [array.type]).add([array], column)
        _, codes = np.unique((codes << 32) | column.astype(np.uint32), return_inverse=True)
    return codes.astype(np.int64)


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    column = column.combine_chunks()
    return column if isinstance(column, pa.Array) else column.chunk(0)


def _hashes(column: pa.Array, types: tuple[pa.DataType, pa.DataType]) -> tuple[Words, Mask | None]:
    """Return a hash of each value, and which values have one."""
    if pat.is_dictionary(column.type):
        values, present = _hashes(column.dictionary, types)
        valid = validity(column.indices)
        indices = np.asarray(column.indices if valid is None else column.indices.fill_null(0))
        if len(values) == 0:
            return np.zeros(len(column), np.uint64), np.zeros(len(column), np.bool_)
        if present is not None:
            valid = present[indices] if valid is None else valid & present[indices]
        return values[indices], valid
    form = form_of(*types).of(column)
    if isinstance(form, Integers):
        return _mixed(form.values.view(np.uint64)), form.valid
    from juncture.kernels.keys import hash_bytes

    hashes = np.empty(len(column), np.uint64)
    hash_bytes(form.offsets, form.data, hashes)
    return hashes, form.valid


def _mixed(values: Words) -> Words:
    """Spread each number over all 64 bits (the finalizer of MurmurHash3)."""
    values = values ^ (values >> np.uint64(33))
    values *= np.uint64(0xFF51AFD7ED558CCD)
    values ^= values >> np.uint64(33)
    values *= np.uint64(0xC4CEB9FE1A85EC53)
    values ^= values >> np.uint64(33)
    return values


def decimal_shift(types: Sequence[pa.DataType]) -> int:
    """Return how many of the lowest bits of a decimal of some types its code leaves out."""
    return max(0, int(10 ** _decimal_digits(types)).bit_length() - 63)


def _decimal_digits(types: Sequence[pa.DataType]) -> int:
    scale = max(side.scale for side in types)
    return min(int(max(side.precision - side.scale for side in types) + scale), _DECIMAL_DIGITS_MAX)


def _decimal_codes(column: pa.Array, types: tuple[pa.DataType, ...]) -> Ints:
    """Return the highest 63 bits that a decimal of these types can have, rounded down."""
    scale = max(side.scale for side in types)
    words = raw_values(column.cast(pa.decimal256(_decimal_digits(types), scale)), np.uint64)
    first, rest = divmod(decimal_shift(types), 64)
    codes = words[:, first] >> np.uint64(rest)
    if rest:
        codes |= words[:, first + 1] << np.uint64(64 - rest)
    return np.asarray(codes.view(np.int64), np.int64)
