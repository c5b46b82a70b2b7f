"""The symmetric join with both sides in RocksDB, row by row, as engines of change streams populate it.

After "Optimizing Streaming JOINs: Leveraging Asymmetry for Better Performance" (Epsio, 2025), with and without its
trick: once all customers are there, sales are no longer read, so they need no compaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import rocksdict

__all__ = ["BATCH_ROWS", "Layout", "symmetric"]

BATCH_ROWS = 10_000

_KEY_BYTES = 8


@dataclass(frozen=True)
class Layout:
    """Options of RocksDB for one side.

    Attributes
    ----------
    memtable_bytes
        Size at which tables in memory are written.
    cache_bytes
        Bytes of the block cache; None for RocksDB's default.
    is_direct
        Whether reads and writes bypass the page cache.
    has_hashed_memtable
        Whether tables in memory are hashed skip lists (HashSkipList) instead of one (SkipList).
    block_bytes
        Size of blocks on disk.
    """

    memtable_bytes: int = 64 << 20
    cache_bytes: int | None = None
    is_direct: bool = False
    has_hashed_memtable: bool = False
    block_bytes: int = 4 << 10

    def options(self) -> Any:
        """Return it as RocksDB has it."""
        options = rocksdict.Options(raw_mode=True)
        options.set_write_buffer_size(self.memtable_bytes)
        table = rocksdict.BlockBasedOptions()
        table.set_block_size(self.block_bytes)
        if self.cache_bytes is not None:
            table.set_block_cache(rocksdict.Cache(self.cache_bytes))
            table.set_cache_index_and_filter_blocks(True)
        options.set_block_based_table_factory(table)
        if self.is_direct:
            options.set_use_direct_reads(True)
            options.set_use_direct_io_for_flush_and_compaction(True)
        if self.has_hashed_memtable:
            options.set_prefix_extractor(rocksdict.SliceTransform.create_fixed_prefix(_KEY_BYTES))
            options.set_allow_concurrent_memtable_write(False)
            options.set_memtable_factory(rocksdict.MemtableFactory.hash_skip_list(1 << 17, 4, 4))
        return options


class _Side:
    """One side of the join: a database of its own, whose keys are the join key and the row's own."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.rows: Any = rocksdict.Rdict(str(folder), layout.options())

    def add(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Put in rows."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in rows:
            batch.put(key, value)
        self.rows.write(batch)

    def matches(self, key: bytes) -> int:
        """Return how many rows have a join key."""
        count = 0
        for found in self.rows.keys(from_key=key):
            if found[:_KEY_BYTES] != key:
                break
            count += 1
        return count

    def stop_compacting(self) -> None:
        """Let sorted files overlap from now on."""
        self.rows.set_options({"disable_auto_compactions": "true"})


def symmetric(
    sales: pa.Table,
    customers: pa.Table,
    folder: Path,
    *,
    is_sorted: bool = False,
    trick: bool = False,
    of_sales: Layout | None = None,
    of_customers: Layout | None = None,
) -> int:
    """Join batch by batch, both sides in turns: each row is looked up on the other side, and kept on its own.

    Parameters
    ----------
    sales, customers
        The rows.
    folder
        Folder of the databases.
    is_sorted
        Whether the rows of each batch are sorted by key first.
    trick
        Whether compaction of sales stops once all customers are stored.
    of_sales, of_customers
        Options of each side.
    """
    ours, theirs = _Side(folder / "sales", of_sales or Layout()), _Side(folder / "customers", of_customers or Layout())
    pairs, step = 0, BATCH_ROWS // 5
    for number, first in enumerate(range(0, sales.num_rows, BATCH_ROWS)):
        come = _packed(customers.slice(number * step, step), 0, is_sorted=is_sorted)
        pairs += sum(ours.matches(key[:_KEY_BYTES]) for key, _ in come)
        theirs.add(come)
        if trick and (number + 1) * step >= customers.num_rows:
            ours.stop_compacting()
        come = _packed(sales.slice(first, BATCH_ROWS), 1, is_sorted=is_sorted)
        keys = [key[:_KEY_BYTES] for key, _ in come]
        found = theirs.rows.get(keys) if is_sorted else [theirs.rows.get(key) for key in keys]
        pairs += sum(value is not None for value in found)
        ours.add(come)
    ours.rows.close()
    theirs.rows.close()
    return pairs


def _packed(rows: pa.Table, by: int, *, is_sorted: bool) -> list[tuple[bytes, bytes]]:
    """Return keys and values: customers by their key alone, sales by customer and sale."""
    if is_sorted:
        rows = rows.sort_by("customer")
    columns = [np.asarray(column).astype(column.type.to_pandas_dtype()) for column in rows.columns]
    keys = columns[by].astype(">u8").tobytes()
    others = columns[0].astype(">u8").tobytes() if by else b""
    values = columns[-1].tobytes()
    return [
        (keys[place : place + 8] + others[place : place + 8], values[place : place + 8])
        for place in range(0, len(keys), 8)
    ]
