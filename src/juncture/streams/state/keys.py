"""Key codes of the stored rows of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from juncture.columnar.key_table import KeyCodes
from juncture.kernels.array_types import Codes, Mask
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.row_order import arrange_rows, sort_rows
from juncture.spec.schema import Side
from juncture.streams.state.segment import Arranged, Table, first_codes, lines_of

_KEYS_LEAST = 1 << 12
"""Up to this number of keys, unused ones are not released."""


class KeyedRows(Protocol):
    """Stored rows that have key codes."""

    @property
    def rows(self) -> int:
        """Number of stored rows."""

    def keys(self, count: int, /) -> Mask:
        """Return a mask of the first ``count`` key codes that a row has."""

    def rekey(self, mapping: Codes, /) -> None:
        """Map key codes to new ones."""


class StateKeys:
    """Key codes of both sides. Codes that no stored row has are released from time to time."""

    def __init__(
        self,
        types: tuple[Sequence[pa.DataType], Sequence[pa.DataType]],
        stores: Mapping[Side, KeyedRows],
        *,
        nulls_equal: bool = False,
    ) -> None:
        self._codes = KeyCodes(*types, nulls_equal=nulls_equal)
        self._stores = stores

    def of(self, columns: list[pa.Array], valid: Mask | None, rows: int) -> Codes:
        """Return the key codes of rows; `EMPTY` where a row can match nothing."""
        keys = np.empty(rows, np.int32)
        self._codes.add(columns, keys)
        if valid is not None:
            keys[~valid] = EMPTY
        return keys

    def arranged(self, keys: Codes, codes: Table) -> Arranged:
        """Return the rows that have a key, by key and first code."""
        rows, sorted_keys, sorted_codes = np.empty_like(keys), np.empty_like(keys), np.empty_like(codes)
        count = arrange_rows(keys, codes, self._codes.count, rows, sorted_keys, sorted_codes)
        if count == len(keys):
            return Arranged(rows, sorted_keys, sorted_codes)
        if count >= 0:
            return Arranged(rows[:count], sorted_keys[:count], np.ascontiguousarray(sorted_codes[:, :count]))
        found = np.flatnonzero(keys != EMPTY).astype(np.int32)
        order = np.empty(len(found), np.int32)
        sort_rows(keys[found], first_codes(codes)[found], order)
        rows = found[order]
        return Arranged(rows, keys[rows], lines_of(codes, rows))

    def forget(self) -> None:
        """Release key codes that no stored row has, once they may be the majority."""
        held = sum(store.rows for store in self._stores.values())
        if self._codes.count < _KEYS_LEAST + 4 * held:
            return
        used = np.zeros(self._codes.count, np.bool_)
        for store in self._stores.values():
            used |= store.keys(len(used))
        mapping = self._codes.compact(used)
        for store in self._stores.values():
            store.rekey(mapping)
