"""Writes a run of rows to a sorted file, block by block."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import rocksdict

from juncture.incremental.state.blocks import (
    BlockRows,
    Index,
    pack_block,
    pack_states,
    states_needed,
)
from juncture.incremental.state.policy import MemoryPolicy
from juncture.kernels.array_types import Mask

RUN = b"r"
BLOCK, HAS_STATE, INDEX, STATE = b"b", b"h", b"i", b"s"  # kinds of the entries of a run, ascending

_LEAST_BYTES = 64 << 10
_OPEN_FILES = 256
_LOG_FILES = 4


class RunWriter:
    """Writes one run. Sorted rows are in small blocks for lookups, unsorted ones in large blocks."""

    def __init__(self, path: Path, number: int, policy: MemoryPolicy, *, is_sorted: bool) -> None:
        self.paths = [path]
        self._number = number
        self._is_sorted = is_sorted
        self._block_rows = policy.block_rows if is_sorted else policy.loose_rows
        self._options = options(policy)
        self._writer = self._opened(path)
        # Keys of states follow those of all blocks.
        self._states: Any = None
        self._parts: list[Index] = []
        self._with_state: list[int] = []
        self._blocks = 0

    def _opened(self, path: Path) -> Any:
        writer = rocksdict.SstFileWriter(options=self._options)
        writer.open(str(path))
        return writer

    def add(self, rows: BlockRows) -> None:
        """Append rows."""
        size = self._block_rows
        if not len(rows):
            return
        self._parts.append(Index.of(self._number, rows, size, is_sorted=self._is_sorted))
        needs_state = states_needed(rows, size)
        ends = np.minimum(np.arange(size, len(rows) + size, size), len(rows))
        states = pack_states(rows.state, ends) if needs_state.any() else []
        for slot, needed in enumerate(needs_state.tolist()):
            first = slot * size
            self._writer[run_key(self._number, BLOCK, self._blocks)] = pack_block(rows, first, size)
            if needed:
                self._with_state.append(self._blocks)
                if self._states is None:
                    self.paths.append(self.paths[0].with_suffix(f".states{self.paths[0].suffix}"))
                    self._states = self._opened(self.paths[1])
                self._states[run_key(self._number, STATE, self._blocks)] = states[slot]
            self._blocks += 1

    def finish(self) -> tuple[Index, Mask] | None:
        """Finish the file; return the index of the run, and which blocks have a state; None without rows."""
        if not self._parts:
            self.paths[0].unlink(missing_ok=True)
            return None
        index = Index.joined(self._parts)
        has_state = np.zeros(self._blocks, np.bool_)
        has_state[self._with_state] = True
        self._writer[run_key(self._number, HAS_STATE)] = np.packbits(has_state).tobytes()
        self._writer[run_key(self._number, INDEX)] = index.packed()
        self._writer.finish()
        if self._states is not None:
            self._states.finish()
        return index, has_state


def write_parts(path: Path, number: int, policy: MemoryPolicy, parts: Iterable[bytes]) -> int:
    """Write a run of other contents than rows, and return the number of its parts."""
    writer = rocksdict.SstFileWriter(options=options(policy))
    writer.open(str(path))
    count = 0
    for count, part in enumerate(parts, start=1):
        writer[run_key(number, BLOCK, count - 1)] = part
    writer.finish()
    return count


def run_key(number: int, kind: bytes = b"", block: int | None = None) -> bytes:
    """Return the key of an entry of a run, or of one of its blocks; without a kind, the least key of the run."""
    return RUN + number.to_bytes(8, "big") + kind + (b"" if block is None else block.to_bytes(4, "big"))


def options(policy: MemoryPolicy) -> rocksdict.Options:
    """Return the options of RocksDB, whose memory is a share of that of the query."""
    chosen = rocksdict.Options(raw_mode=True)
    chosen.create_if_missing(True)
    chosen.set_compression_type(rocksdict.DBCompressionType.lz4())
    # Damage in the write-ahead log is an error. Only a record at its end may be incomplete, after a crash.
    chosen.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
    chosen.set_write_buffer_size(max(policy.database_bytes // 4, _LEAST_BYTES))
    chosen.set_max_write_buffer_number(2)
    tables = rocksdict.BlockBasedOptions()
    tables.set_block_cache(rocksdict.Cache(max(policy.database_bytes // 2, _LEAST_BYTES)))
    # Indexes of open files count in the cache too.
    tables.set_cache_index_and_filter_blocks(True)
    chosen.set_block_based_table_factory(tables)
    chosen.set_max_open_files(_OPEN_FILES)
    chosen.set_keep_log_file_num(_LOG_FILES)
    return chosen
