"""Numbers that place rows: a hash of the key, and an integer in the order of ``on``, equal on both sides.

They decide only where a row goes, never whether it matches. Different keys may share a hash, and neighbouring values of
``on`` may share a number. But equal values must have equal numbers and greater values never smaller ones, whatever the
types of the two sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from juncture.columnar.hashes import KeyHashes
from juncture.columnar.key_table import KeyCodes
from juncture.kernels.array_types import Ints, Mask, Words
from juncture.ordered.kinds import RoughCoder
from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved


@dataclass(frozen=True)
class Coding:
    """How the rows of both sides are converted to numbers.

    `by` has the types of each pair of key columns, and `on` those of the ``on`` columns. Tests reduce `hash_bits` to
    make keys collide.
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
        """Return the key hashes, and which rows have a hash that the other side may have too.

        Without key columns all hashes are zero.
        """
        if not self.by:
            return np.zeros(rows, np.uint64), np.ones(rows, np.bool_)
        hashes, usable = KeyHashes(*zip(*self.by, strict=True), nulls_equal=self.nulls_equal).of(columns)
        valid = np.ones(rows, np.bool_) if usable is None else usable
        dropped = np.uint64(64 - self.hash_bits)
        return (hashes >> dropped << dropped if dropped else hashes), valid

    @cached_property
    def order(self) -> RoughCoder:
        """The encoding of ``on``."""
        return RoughCoder(self.on)


def key_types(join: Resolved) -> tuple[tuple[pa.DataType, pa.DataType], ...]:
    """Return the types of each pair of key columns."""
    pairs = zip(join.left_by, join.right_by, strict=True)
    return tuple((join.left_schema.field(a).type, join.right_schema.field(b).type) for a, b in pairs)


def dense_keys(table: pa.Table, by: tuple[str, ...], *, nulls_equal: bool = False) -> Ints:
    """Return a small integer per row, equal exactly for equal keys. Keys must have no null unless nulls are equal."""
    columns = [one_chunk(table[name]) for name in by]
    types = [column.type for column in columns]
    codes = np.zeros(table.num_rows, np.int32)
    KeyCodes(types, types, nulls_equal=nulls_equal).add(columns, codes)
    return codes.astype(np.int64)


def row_codes(table: pa.Table) -> Ints:
    """Return an integer per row, equal exactly for rows that agree in all columns, nulls included."""
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
