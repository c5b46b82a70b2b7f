"""Key codes of the stored rows of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from juncture.columnar.key_table import KeyCodes, RowCodes
from juncture.kernels.array_types import Codes, Mask
from juncture.kernels.hash_table import EMPTY


class KeyedRows(Protocol):
    """Stored rows that have key codes."""

    @property
    def keyed_rows(self) -> int:
        """Number of stored rows that have key codes."""

    def keys(self, count: int, /) -> Mask:
        """Return a mask of the first ``count`` key codes that a row has."""

    def rekey(self, mapping: Codes, /) -> None:
        """Map key codes to new ones."""


class JoinKeys:
    """Key codes of stored rows. Codes that no stored row has are released from time to time."""

    def __init__(self, codes: KeyCodes | RowCodes, stores: Sequence[KeyedRows]) -> None:
        self._codes = codes
        self._stores = stores
        self.keys_least = 1 << 12  # up to this number of keys, unused ones are not released

    @property
    def count(self) -> int:
        """Number of key codes."""
        return self._codes.count

    def of(self, columns: list[pa.Array], rows: int, valid: Mask | None = None) -> Codes:
        """Return the key codes of rows; `EMPTY` where a row can match nothing."""
        keys = np.empty(rows, np.int32)
        self._codes.add(columns, keys)
        if valid is not None:
            keys[~valid] = EMPTY
        return keys

    def forget(self) -> None:
        """Release key codes that no stored row has, once they may be the majority."""
        rows = sum(store.keyed_rows for store in self._stores)
        if not self._codes.count or self._codes.count < self.keys_least + 4 * rows:
            return
        used = np.zeros(self._codes.count, np.bool_)
        for store in self._stores:
            used |= store.keys(len(used))
        self._rekey(self._codes.compact(used))

    def _rekey(self, mapping: Codes) -> None:
        for store in self._stores:
            store.rekey(mapping)
