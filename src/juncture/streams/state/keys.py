"""The keys of the rows that are held on both sides, and the order in which rows are."""

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
"""Keys up to which those that nobody has any more are not looked for."""


class KeyedRows(Protocol):
    """Held rows that have codes of keys."""

    @property
    def rows(self) -> int:
        """How many rows are held."""

    def keys(self, count: int, /) -> Mask:
        """Return which of so many keys any row has."""

    def rekey(self, mapping: Codes, /) -> None:
        """Take other codes for keys."""


class HeldKeys:
    """Codes for the keys of both sides, of which those are forgotten in time that no held row has.

    Parameters
    ----------
    types
        The types of the key columns of the left and of the right side.
    stores
        The rows that are held.
    nulls_equal
        Whether null is a key like others.
    """

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
        """Return the codes of rows; `EMPTY` where a row can match nothing."""
        keys = np.empty(rows, np.int32)
        self._codes.add(columns, keys)
        if valid is not None:
            keys[~valid] = EMPTY
        return keys

    def arranged(self, keys: Codes, codes: Table) -> Arranged:
        """Return the rows that have a key, in the order of keys and first codes."""
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
        """Forget keys that no held row has, once they may be the most."""
        held = sum(store.rows for store in self._stores.values())
        if self._codes.count < _KEYS_LEAST + 4 * held:
            return
        used = np.zeros(self._codes.count, np.bool_)
        for store in self._stores.values():
            used |= store.keys(len(used))
        mapping = self._codes.compact(used)
        for store in self._stores.values():
            store.rekey(mapping)
