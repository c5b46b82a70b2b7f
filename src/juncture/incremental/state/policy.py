"""What a store is opened with: how much memory state may use, and in which pieces it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from juncture.errors import optional_packages

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store

ROW_BYTES = 60
"""Approximate memory of a row besides its columns."""

_DATABASE_BYTES_MOST = 128 << 20


@dataclass(frozen=True)
class MemoryPolicy:
    """The shares of ``memory=``, and the sizes of stored pieces."""

    total_bytes: int
    database_bytes: int  # RocksDB's memtables, and its cache of blocks and indexes, half each
    in_memory_bytes: int  # rows, groups and keys while all are in memory; runs exist twice while they are merged
    paged_bytes: int  # rows in memory once others are on disk; the blocks that an epoch reads have to fit too
    initial_bytes: int  # initial rows that are loaded at once, and copied several times
    piece_bytes: int  # initial rows that are joined at once, if they do not fit
    block_cache_bytes: int  # blocks read from disk
    changed_bytes: int  # changed weights and counts that are not on disk yet
    sort_bytes: int  # unsorted rows that are sorted at once
    block_rows: int = 128  # rows of a block for lookups
    loose_rows: int = 1 << 14  # rows of a block that is read sequentially
    batch_rows: int = 1 << 16  # rows that are written at once, a multiple of ``block_rows``
    merged_runs: int = 4  # number of runs of about one size that are merged, so that each row is written seldom
    log_rows: int = 1 << 16  # changes that are replayed at most when the state is opened, before rows are written again

    @classmethod
    def of(cls, memory_bytes: int) -> MemoryPolicy:
        """Return the shares of ``memory=``."""
        database_bytes = min(memory_bytes // 8, _DATABASE_BYTES_MOST)
        rest_bytes = memory_bytes - database_bytes
        return cls(
            total_bytes=memory_bytes,
            database_bytes=database_bytes,
            in_memory_bytes=rest_bytes // 2,
            paged_bytes=rest_bytes // 4,
            initial_bytes=rest_bytes // 4,
            piece_bytes=rest_bytes // 16,
            block_cache_bytes=rest_bytes // 8,
            changed_bytes=rest_bytes // 8,
            sort_bytes=rest_bytes // 8,
        )


def store_opener(
    folder: Path, kind: str, policy: MemoryPolicy, identity: Mapping[str, Any]
) -> Callable[[Mapping[str, pa.Schema]], Store]:
    """Return a function that opens a `Store` of tables with some columns; raises `PlanError` without RocksDB."""
    with optional_packages(f"The state in {str(folder)!r}"):
        from juncture.incremental.state.store import Store
    return partial(Store, folder, kind, policy, identity)
