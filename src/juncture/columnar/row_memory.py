"""The memory of rows, so that kernels compare and concatenate rows in place, without taking values out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.kernels.array_types import Bytes, Ints, Mask
from juncture.kernels.equal_rows import keep_equal_texts, keep_equal_values
from juncture.kernels.row_bytes import add_lengths, append_values

_NOTHING = np.zeros(0, np.uint8)


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
        add_lengths(self.first, self.valid, self.width, self.edges, self.edge_width, lengths)

    def append(self, positions: Ints, target: Bytes) -> None:
        """Write each value to its position, such that no value's bytes are a prefix of another's."""
        held = self.first, self.valid, self.values, self.width, self.edges, self.edge_width
        append_values(*held, positions, target)

    def keep_equal(self, rows: Ints, other: ColumnMemory, places: Ints, same: Bytes) -> None:
        """Remove candidates of equal rows that differ in this column."""
        one, two = (self.first, self.valid), (other.first, other.valid)
        if self.edge_width:
            texts = (self.edges, self.values), (other.edges, other.values)
            keep_equal_texts(*one, *texts[0], rows, *two, *texts[1], places, self.edge_width, same)
        else:
            keep_equal_values(*one, self.values, rows, *two, other.values, places, self.width, same)


@dataclass(frozen=True)
class RowMemory:
    """The memory of the rows of a batch; `columns` is None if a column is nested."""

    batch: pa.RecordBatch
    columns: tuple[ColumnMemory, ...] | None

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> RowMemory:
        """Return the memory of the rows of a batch.

        Examples
        --------
        >>> rows = RowMemory.of(pa.record_batch({"a": [1, 2, None], "b": ["x", "y", "z"]}))
        >>> rows.surely_equal(np.array([0, 2, 2]), rows, np.array([0, 2, 1])).tolist()
        [True, True, False]
        """
        columns = []
        for column in batch.columns:
            if pat.is_null(column.type):
                continue
            found = ColumnMemory.of(column)
            if found is None:
                return cls(batch, None)
            columns.append(found)
        return cls(batch, tuple(columns))

    def surely_equal(self, rows: Ints, other: RowMemory, places: Ints) -> Mask:
        """Return a mask of the rows whose bytes equal those at some positions of other memory of the same types.

        Rows outside the mask may still be equal: equal floats may have different bits.
        """
        if self.columns is None or other.columns is None:
            return np.zeros(len(rows), np.bool_)
        same = np.ones(len(rows), np.uint8)
        for one, two in zip(self.columns, other.columns, strict=True):
            one.keep_equal(rows, two, places, same)
        return same.view(np.bool_)
