"""Keys of both sides: codes for keys in memory, and hashes that order rows on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from juncture.columnar.hashes import KeyHashes
from juncture.kernels.array_types import Codes, Mask, Words
from juncture.kernels.hash_table import EMPTY
from juncture.spec.schema import Side
from juncture.streams.state.keys import KeyedRows, StateKeys

if TYPE_CHECKING:
    from juncture.incremental.state.arrangement import Arrangement

BYTES_A_KEY = 56
"""Approximate memory of a key: its entry in a hash table, its value, and its hash."""


class HashedKeys:
    """Codes for the keys of both sides, and a hash of each that is the same in every process."""

    def __init__(
        self,
        types: tuple[Sequence[pa.DataType], Sequence[pa.DataType]],
        arrangements: Mapping[Side, Arrangement],
        *,
        nulls_equal: bool = False,
    ) -> None:
        # The hashes are a third store, because they have to follow when key codes change.
        left: KeyedRows = _BothSides(arrangements)
        self._known = KnownHashes()
        self._codes = StateKeys(types, {"left": left, "right": self._known}, nulls_equal=nulls_equal)
        self._hashes = KeyHashes(*types, nulls_equal=nulls_equal) if types[0] else None

    @property
    def nbytes(self) -> int:
        """Approximate memory of the keys."""
        return BYTES_A_KEY * len(self._known.hashes)

    def of(self, columns: list[pa.Array], valid: Mask | None, rows: int) -> Codes:
        """Return the key codes of rows; `EMPTY` where a row can match nothing."""
        keys = self._codes.of(columns, valid, rows)
        if self._hashes is None:
            self._known.room_for(1)
        elif rows:
            self._known.note(keys, self._hashes.of(columns)[0])
        return keys

    def hashes(self, keys: Codes) -> Words:
        """Return the hashes of key codes; zero for `EMPTY`."""
        here = keys != EMPTY
        if here.all():
            return self._known.hashes[keys]
        found = np.zeros(len(keys), np.uint64)
        found[here] = self._known.hashes[keys[here]]
        return found

    @property
    def are_any(self) -> bool:
        """Whether the join has keys."""
        return self._hashes is not None

    def hashes_of(self, columns: list[pa.Array], valid: Mask | None) -> Words:
        """Return the hashes of keys without assigning codes; zero where a row can match nothing."""
        assert self._hashes is not None
        hashes, usable = self._hashes.of(columns)
        for mask in (usable, valid):
            if mask is not None:
                hashes[~mask] = 0
        return hashes

    def forget(self) -> None:
        """Release key codes that no row in memory has, once they may be the majority."""
        self._codes.forget()


class KnownHashes:
    """The hash of each key code."""

    rows = 0

    def __init__(self) -> None:
        self.hashes = np.zeros(0, np.uint64)

    def room_for(self, count: int) -> None:
        """Make room for ``count`` codes."""
        if count > len(self.hashes):
            longer = np.zeros(2 * count, np.uint64)
            longer[: len(self.hashes)] = self.hashes
            self.hashes = longer

    def keys(self, count: int) -> Mask:
        """Return that hashes alone keep no key code in use."""
        return np.zeros(count, np.bool_)

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


class _BothSides:
    """The rows of both sides in memory."""

    def __init__(self, arrangements: Mapping[Side, Arrangement]) -> None:
        self._arrangements = arrangements

    @property
    def rows(self) -> int:
        """How many rows are in memory."""
        return sum(len(run) for arrangement in self._arrangements.values() for run in arrangement.memory)

    def keys(self, count: int) -> Mask:
        """Return a mask of the first ``count`` key codes that a row has."""
        used = np.zeros(count, np.bool_)
        for arrangement in self._arrangements.values():
            used |= arrangement.keys(count)
        return used

    def rekey(self, mapping: Codes) -> None:
        """Take other codes for keys."""
        for arrangement in self._arrangements.values():
            arrangement.rekey(mapping)
