"""Writes a run of rows to a sorted file, block by block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import rocksdict

from juncture.incremental.store.blocks import (
    BLOCK_ROWS,
    LOOSE_ROWS,
    BlockRows,
    Index,
    pack_block,
    pack_state,
    states_needed,
)
from juncture.kernels.array_types import Mask

BLOCK, HAS_STATE, INDEX, STATE = b"b", b"h", b"i", b"s"
"""Prefixes of the keys of a run's entries, ascending."""


class RunWriter:
    """Writes one run. Sorted rows are in small blocks for lookups, unsorted ones in large blocks."""

    def __init__(self, path: Path, number: int, *, is_sorted: bool) -> None:
        self.path = path
        self._number = number
        self._is_sorted = is_sorted
        self._block_rows = BLOCK_ROWS if is_sorted else LOOSE_ROWS
        self._writer = rocksdict.SstFileWriter(options=options())
        self._writer.open(str(path))
        self._parts: list[Index] = []
        self._states: dict[int, bytes] = {}
        self._blocks = 0

    def add(self, rows: BlockRows) -> None:
        """Append rows."""
        size = self._block_rows
        if not len(rows):
            return
        self._parts.append(Index.of(self._number, rows, size, is_sorted=self._is_sorted))
        for place, needed in enumerate(states_needed(rows, size).tolist()):
            first = place * size
            self._writer[block_key(BLOCK, self._number, self._blocks)] = pack_block(rows, first, size)
            if needed:
                self._states[self._blocks] = pack_state(rows.state[:, first : first + size])
            self._blocks += 1

    def finish(self) -> tuple[Index, Mask] | None:
        """Finish the file; return the index of the run, and which blocks have a state; None without rows."""
        if not self._parts:
            self.path.unlink(missing_ok=True)
            return None
        index = Index.joined(self._parts)
        has_state = np.zeros(self._blocks, np.bool_)
        has_state[list(self._states)] = True
        self._writer[run_key(HAS_STATE, self._number)] = np.packbits(has_state).tobytes()
        self._writer[run_key(INDEX, self._number)] = index.packed()
        for block, state in self._states.items():
            self._writer[block_key(STATE, self._number, block)] = state
        self._writer.finish()
        return index, has_state


def run_key(kind: bytes, number: int) -> bytes:
    """Return the key of an entry of a run."""
    return kind + number.to_bytes(8, "big")


def block_key(kind: bytes, number: int, block: int) -> bytes:
    """Return the key of an entry of a block."""
    return kind + number.to_bytes(8, "big") + block.to_bytes(4, "big")


def options() -> rocksdict.Options:
    """Return the options of RocksDB."""
    chosen = rocksdict.Options(raw_mode=True)
    chosen.create_if_missing(True)
    chosen.set_compression_type(rocksdict.DBCompressionType.lz4())
    return chosen
