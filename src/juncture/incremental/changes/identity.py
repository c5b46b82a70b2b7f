"""Row equality: which changes cancel, and which row a delete removes.

NaN equals NaN, null equals null, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import joined_batches, rows_at
from juncture.columnar.key_encoding import KeyHashes
from juncture.columnar.key_table import RowCodes
from juncture.columnar.row_bytes import RowMemory, encode_rows
from juncture.columnar.types import is_null_type
from juncture.errors import SchemaError
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.kernels.array_types import Codes, Ints, Mask, Positions


class NoIdentityError(TypeError):
    """Values of a column cannot be compared."""

    def __init__(self, column: str, data_type: pa.DataType) -> None:
        super().__init__(column, data_type)
        self.column = column
        self.data_type = data_type


class RowIdentity:
    """Compares rows without dictionaries, runs and views; raises `NoIdentityError` for unions and month intervals."""

    def __init__(self, schema: pa.Schema) -> None:
        # A null column distinguishes no rows.
        self._columns = [index for index, field in enumerate(schema) if not is_null_type(field.type)]
        self._as_bytes = [_has(pat.is_map, field.type) for field in schema]
        for field in schema:
            if _has(pat.is_interval, field.type):
                raise NoIdentityError(field.name, field.type)
            try:
                encode_rows([pa.array([], field.type)])
            except (TypeError, pa.ArrowException):
                raise NoIdentityError(field.name, field.type) from None
        types = [pa.large_binary() if self._as_bytes[index] else schema.field(index).type for index in self._columns]
        self._types = types
        self._hashes = KeyHashes(types, types, nulls_equal=True) if types else None

    def _compared(self, batch: pa.RecordBatch) -> list[pa.Array]:
        arrays = [(batch.column(index), self._as_bytes[index]) for index in self._columns]
        return [encode_rows([array]).to_arrow() if as_bytes else array for array, as_bytes in arrays]

    def hashes(self, batch: pa.RecordBatch) -> Ints:
        """Return a hash of each row: the same for equal rows, in every process."""
        if self._hashes is None:
            return np.zeros(batch.num_rows, np.int64)
        return self._hashes.of(self._compared(batch))[0].view(np.int64)

    def codes(self, batch: pa.RecordBatch) -> tuple[Codes, int]:
        """Return a code of each row, the same for equal rows only, and the number of codes."""
        codes = np.zeros(batch.num_rows, np.int32)
        if not self._types:
            return codes, min(1, batch.num_rows)
        row_codes = RowCodes(self._types)
        row_codes.add(self._compared(batch), codes)
        return codes, row_codes.count

    def same(self, ones: pa.RecordBatch, others: pa.RecordBatch) -> Mask:
        """Return which rows are equal to those at the same position of another batch."""
        if ones.equals(others):
            return np.ones(ones.num_rows, np.bool_)
        codes, _ = self.codes(joined_batches([ones, others]))
        equal: Mask = codes[: ones.num_rows] == codes[ones.num_rows :]
        return equal

    def same_at(self, ones: RowMemory, rows: Ints, others: RowMemory, positions: Positions) -> Mask:
        """Return which rows are equal to those at given positions of another batch."""
        positions = positions.astype(np.int64, copy=False)
        equal = ones.surely_equal(rows, others, positions)
        unsure = np.flatnonzero(~equal)
        if len(unsure):
            one, other = (rows_at(memory.batch, index[unsure]) for memory, index in ((ones, rows), (others, positions)))
            equal[unsure] = self.same(one, other)
        return equal

    def consolidated(self, changes: ChangeBatch) -> tuple[ChangeBatch, Ints]:
        """Return each distinct row once, with the sum of its weights if that is not zero, and the hash of each."""
        batch, weights = changes
        hashes = self.hashes(batch)
        order = np.argsort(hashes)
        same = hashes[order[1:]] == hashes[order[:-1]]
        if same.any():
            # Only rows with the same hash may be equal.
            alike = np.sort(order[np.append(same, False) | np.insert(same, 0, False)])
            weights = self._summed(batch, weights, alike)
        sums, nonzero = ChangeBatch(batch, weights), np.flatnonzero(weights)
        return (sums, hashes) if len(nonzero) == len(weights) else (sums.some(nonzero), hashes[nonzero])

    def summed(self, batch: pa.RecordBatch, weights: Ints, same: Mask) -> Ints:
        """Return weights with those of equal rows added to the first. ``same`` marks rows that may equal the next."""
        return self._summed(batch, weights, np.flatnonzero(np.append(same, False) | np.insert(same, 0, False)))

    def _summed(self, batch: pa.RecordBatch, weights: Ints, alike: Ints) -> Ints:
        codes, count = self.codes(rows_at(batch, alike))
        total, first = np.zeros(count, np.int64), np.zeros(count, np.int64)
        np.add.at(total, codes, weights[alike])
        first[codes[::-1]] = alike[::-1]
        weights = weights.copy()
        weights[alike] = 0
        used = np.unique(codes)
        weights[first[used]] = total[used]
        return weights


def _has(is_kind: Callable[[pa.DataType], bool], data_type: pa.DataType) -> bool:
    """Return whether a type is, or contains, one of a kind."""
    if is_kind(data_type):
        return True
    if pat.is_struct(data_type):
        return any(_has(is_kind, field.type) for field in data_type)
    is_list = pat.is_list(data_type) or pat.is_large_list(data_type) or pat.is_fixed_size_list(data_type)
    return is_list and _has(is_kind, data_type.value_type)


def identity_of(schema: pa.Schema, rows: str) -> RowIdentity:
    """Return the row identity of some rows; raises `SchemaError` if a column cannot be compared."""
    try:
        return RowIdentity(schema)
    except NoIdentityError as error:
        # The columns of views have numbers.
        column = f"A column of {rows}" if error.column.isdecimal() else f"The {rows} column {error.column!r}"
        raise SchemaError(
            f"{column} has type {error.data_type}, whose values cannot be compared, so deletes cannot be matched to "
            "rows. Cast or drop the column.",
            name="JN-TYPE-UNSUPPORTED",
        ) from None


def consolidated(changes: ChangeBatches, schema: pa.Schema) -> ChangeBatches:
    """Return changes without rows whose weights cancel, if their values can be compared."""
    try:
        identity = RowIdentity(schema)
    except NoIdentityError:
        return changes
    return [identity.consolidated(ChangeBatch.joined(changes, schema))[0]] if changes else changes


class ResultChanges:
    """Collects the changes of a result. With ``are_wanted=False`` they are dropped, and need not be built."""

    def __init__(self, *, are_wanted: bool = True) -> None:
        self.are_wanted = are_wanted
        self.batches: ChangeBatches = []

    def add(self, rows: pa.RecordBatch, weights: Ints) -> None:
        """Add rows with non-zero weights."""
        if self.are_wanted and rows.num_rows:
            self.batches.append(ChangeBatch(rows, weights))
