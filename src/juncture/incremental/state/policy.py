"""How much memory state may use, and in which pieces it is stored: values that a store is opened with."""

from __future__ import annotations

from dataclasses import dataclass

ROW_BYTES = 60
"""Approximate memory of a row besides its columns."""

_DATABASE_BYTES_MOST = 128 << 20


@dataclass(frozen=True)
class MemoryPolicy:
    """The shares of ``memory=`` in bytes, and the sizes of stored pieces.

    Attributes
    ----------
    total
        All memory of the query.
    database
        RocksDB's memtables, and its cache of blocks and indexes, half each.
    in_memory
        Rows, groups and keys while all rows are in memory. While runs are merged, they exist twice.
    beside_disk
        Rows in memory once others are on disk, because the blocks that an epoch reads have to fit too.
    at_first
        Initial rows that are loaded at once. They are copied several times.
    piece
        Initial rows that are joined at once, if they do not fit.
    cached, changed
        Blocks read from disk, and changed weights and counts that are not on disk yet.
    sorting
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

    total: int
    database: int
    in_memory: int
    beside_disk: int
    at_first: int
    piece: int
    cached: int
    changed: int
    sorting: int
    block_rows: int = 128
    loose_rows: int = 1 << 14
    batch_rows: int = 1 << 16
    merged_runs: int = 4
    log_rows: int = 1 << 16

    @classmethod
    def of(cls, memory_bytes: int) -> MemoryPolicy:
        """Return the shares of ``memory=``."""
        database = min(memory_bytes // 8, _DATABASE_BYTES_MOST)
        rest = memory_bytes - database
        return cls(
            total=memory_bytes,
            database=database,
            in_memory=rest // 2,
            beside_disk=rest // 4,
            at_first=rest // 4,
            piece=rest // 16,
            cached=rest // 8,
            changed=rest // 8,
            sorting=rest // 8,
        )
