"""What a store is opened with: how much memory state may use, and in which pieces it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from juncture.errors import PlanError

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store

ROW_BYTES = 60
"""Approximate memory of a row besides its columns."""

_DATABASE_BYTES_MOST = 128 << 20


@dataclass(frozen=True)
class MemoryPolicy:
    """The shares of ``memory=``, and the sizes of stored pieces.

    Attributes
    ----------
    total_bytes
        All memory of the query.
    database_bytes
        RocksDB's memtables, and its cache of blocks and indexes, half each.
    in_memory_bytes
        Rows, groups and keys while all rows are in memory. While runs are merged, they exist twice.
    paged_bytes
        Rows in memory once others are on disk, because the blocks that an epoch reads have to fit too.
    initial_bytes
        Initial rows that are loaded at once. They are copied several times.
    piece_bytes
        Initial rows that are joined at once, if they do not fit.
    block_cache_bytes
        Blocks read from disk.
    changed_bytes
        Changed weights and counts that are not on disk yet.
    sort_bytes
        Unsorted rows that are sorted at once.
    block_rows, loose_rows
        Rows of a block for lookups, and of one that is read sequentially.
    batch_rows
        Rows that are written at once, a multiple of ``block_rows``.
    merged_runs
        This many runs of about one size are merged, so each row is written a logarithmic number of times.
    log_rows
        Up to this many changes are replayed when the state is opened, before rows are written again.
    """

    total_bytes: int
    database_bytes: int
    in_memory_bytes: int
    paged_bytes: int
    initial_bytes: int
    piece_bytes: int
    block_cache_bytes: int
    changed_bytes: int
    sort_bytes: int
    block_rows: int = 128
    loose_rows: int = 1 << 14
    batch_rows: int = 1 << 16
    merged_runs: int = 4
    log_rows: int = 1 << 16

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
    """Return a function that opens the store of a maintained query, given the stored columns of each table.

    The arguments are those of `juncture.incremental.state.store.Store`. `PlanError` is raised without RocksDB.
    """
    try:
        store = import_module("juncture.incremental.state.store")
    except ImportError as error:
        raise PlanError(
            f"state={str(folder)!r} needs RocksDB, whose Python package is not installed ({error}). Run pip install "
            "'juncture[changes]', or pass state=None.",
            name="JN-PACKAGE-MISSING",
        ) from error
    return partial(store.Store, folder, kind, policy, identity)
