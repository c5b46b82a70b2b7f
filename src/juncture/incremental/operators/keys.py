"""Keys of both sides: codes for keys in memory, and hashes that order rows on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.key_encoding import KeyHashes
from juncture.kernels.array_types import Codes, Mask, Words
from juncture.kernels.hash_table import EMPTY
from juncture.matching.keys import JoinKeys, KeyedRows
from juncture.spec.schema import Side

BYTES_A_KEY = 56
"""Approximate memory of a key: its entry in a hash table, its value, and its hash."""


class HashedKeys(JoinKeys):
    """Codes for the keys of both sides, and a hash of each that is the same in every process."""

    def __init__(
        self,
        types: tuple[Sequence[pa.DataType], Sequence[pa.DataType]],
        arrangements: Mapping[Side, KeyedRows],
        *,
        nulls_equal: bool = False,
    ) -> None:
        super().__init__(types, arrangements, nulls_equal=nulls_equal)
        self._key_hashes = KeyHashes(*types, nulls_equal=nulls_equal) if types[0] else None
        self._known = KnownHashes()
        if not types[0]:
            # Without keys, all rows have the code 0.
            self._known.room_for(1)

    @property
    def nbytes(self) -> int:
        """Approximate memory of the keys."""
        return BYTES_A_KEY * len(self._known.hashes)

    def of(self, columns: list[pa.Array], valid: Mask | None, rows: int) -> Codes:
        """Return the key codes of rows; `EMPTY` where a row can match nothing."""
        keys = super().of(columns, valid, rows)
        if self._key_hashes is not None and rows:
            self._known.note(keys, self._key_hashes.of(columns)[0])
        return keys

    def hashes(self, keys: Codes) -> Words:
        """Return the hashes of key codes; zero for `EMPTY`."""
        has_key = keys != EMPTY
        if has_key.all():
            return self._known.hashes[keys]
        hashes = np.zeros(len(keys), np.uint64)
        hashes[has_key] = self._known.hashes[keys[has_key]]
        return hashes

    @property
    def are_any(self) -> bool:
        """Whether the join has keys."""
        return self._key_hashes is not None

    def hashes_of(self, columns: list[pa.Array], valid: Mask | None) -> Words:
        """Return the hashes of keys without assigning codes; zero where a row can match nothing."""
        assert self._key_hashes is not None
        hashes, usable = self._key_hashes.of(columns)
        for mask in (usable, valid):
            if mask is not None:
                hashes[~mask] = 0
        return hashes

    def _rekey(self, mapping: Codes) -> None:
        super()._rekey(mapping)
        self._known.rekey(mapping)


class KnownHashes:
    """The hash of each key code."""

    def __init__(self) -> None:
        self.hashes = np.zeros(0, np.uint64)

    def room_for(self, count: int) -> None:
        """Make room for ``count`` codes."""
        if count > len(self.hashes):
            longer = np.zeros(2 * count, np.uint64)
            longer[: len(self.hashes)] = self.hashes
            self.hashes = longer

    def note(self, keys: Codes, hashes: Words) -> None:
        """Store the hashes of key codes."""
        if (keys == EMPTY).any():
            here = np.flatnonzero(keys != EMPTY)
            keys, hashes = keys[here], hashes[here]
        if len(keys):
            self.room_for(int(keys.max()) + 1)
            self.hashes[keys] = hashes

    def rekey(self, mapping: Codes) -> None:
        """Map key codes to new ones."""
        kept = np.flatnonzero(mapping != EMPTY)
        hashes = np.zeros(2 * len(kept), np.uint64)
        hashes[mapping[kept]] = self.hashes[kept]
        self.hashes = hashes
