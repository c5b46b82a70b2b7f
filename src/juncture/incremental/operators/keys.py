"""Keys of rows: codes for rows in memory, and hashes that order rows on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.key_encoding import KeyHashes
from juncture.columnar.key_table import KeyCodes, RowCodes
from juncture.incremental.state.arrangement import Arrangement
from juncture.incremental.state.run import Run
from juncture.kernels.array_types import Codes, Mask, Words
from juncture.kernels.hash_table import EMPTY
from juncture.matching.keys import JoinKeys

_BYTES_A_KEY = 56  # approximate memory of a key: its entry in a hash table, its value, and its hash

_CODED_ALONE = 3  # up to this number of key columns, coding each column separately is faster


class KeyDomain(JoinKeys):
    """Codes of keys that are compared with each other, shared by all their arrangements.

    Rows on disk are in the order of key hashes, without codes. While there are any, each key needs a code and a hash.
    ``others`` are the types of keys that are equal to those of the first ones, if they differ.
    """

    def __init__(
        self, types: Sequence[pa.DataType], others: Sequence[pa.DataType] | None = None, *, nulls_equal: bool = False
    ) -> None:
        self.arrangements: list[Arrangement] = []
        pair = types, types if others is None else others
        coded_as_rows = nulls_equal and others is None and len(types) > _CODED_ALONE
        codes = RowCodes(types) if coded_as_rows else KeyCodes(*pair, nulls_equal=nulls_equal)
        super().__init__(codes, self.arrangements)
        self._hashes = KeyHashes(*pair, nulls_equal=nulls_equal) if types else None
        self._hash_of_code = np.zeros(1, np.uint64)
        self.generation = 0  # how often keys got other codes

    @property
    def are_any(self) -> bool:
        """Whether there are key columns."""
        return self._hashes is not None

    @property
    def are_on_disk(self) -> bool:
        """Whether rows on disk may have keys without a code."""
        return any(each.pages is not None for each in self.arrangements)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of memory."""
        return _BYTES_A_KEY * self.count

    def of(self, columns: list[pa.Array], rows: int, valid: Mask | None = None) -> Codes:
        """Return the codes of rows, with new codes for new keys; `EMPTY` where a row can match nothing."""
        keys = super().of(columns, rows, valid)
        if rows and self.are_on_disk:
            self._note(keys, self.hashes_of(columns, rows))
        return keys

    def _note(self, keys: Codes, hashes: Words) -> None:
        if self.count > len(self._hash_of_code):
            self._hash_of_code = np.pad(self._hash_of_code, (0, 2 * self.count - len(self._hash_of_code)))
        here = keys != EMPTY
        if here.all():
            self._hash_of_code[keys] = hashes
        else:
            self._hash_of_code[keys[here]] = hashes[here]

    def find(self, columns: list[pa.Array], rows: int) -> Codes:
        """Return the codes of rows; `EMPTY` where a value is null, or no arranged row has the key."""
        if self.are_on_disk or isinstance(self._codes, RowCodes):
            return self.of(columns, rows)
        keys = np.empty(rows, np.int32)
        self._codes.find(columns, keys)
        return keys

    def hashes(self, keys: Codes) -> Words:
        """Return the hashes of codes that `of` returned in this epoch; zero for `EMPTY`."""
        hashes = self._hash_of_code[np.maximum(keys, 0)]
        hashes[keys == EMPTY] = 0
        return hashes

    def hashes_of(self, columns: list[pa.Array], rows: int, valid: Mask | None = None) -> Words:
        """Return the hashes of keys without assigning codes; zero where a row can match nothing."""
        if self._hashes is None:
            return np.zeros(rows, np.uint64)
        hashes, usable = self._hashes.of(columns)
        for mask in (usable, valid):
            if mask is not None:
                hashes[~mask] = 0
        return hashes

    def key_hashes(self, run: Run, keys_of: Callable[[pa.RecordBatch], list[pa.Array]]) -> Words:
        """Return the hashes of the keys of a run, in the order of its groups."""
        if self._hashes is None or not len(run):
            return np.zeros(len(run.groups), np.uint64)
        hashes = self.hashes_of(keys_of(run.taken(run.starts[:-1])), len(run.groups))
        hashes[run.groups == EMPTY] = 0
        return hashes

    def _rekey(self, mapping: Codes) -> None:
        super()._rekey(mapping)
        self._hash_of_code = np.zeros(1, np.uint64)
        self.generation += 1
