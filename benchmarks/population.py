"""How long a join of changing tables takes to be filled: row by row, by sorted batches, and as a batch join.

Sales of customers, as in "Optimizing Streaming JOINs: Leveraging Asymmetry for Better Performance" (Epsio, 2025): the
symmetric hash join with both sides in RocksDB, with and without its trick (once all customers are there, sales are no
longer read, so they need no compaction), beside ``jn.changes(…).populate``. CPU seconds, each way in a process of its
own; all have to find the same number of pairs.

    python benchmarks/population.py --sales 500000
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import rocksdict

import juncture as jn

BATCH_ROWS = 10_000
MEMTABLE_BYTES = 2 << 20
Way = Callable[[pa.Table, pa.Table, Path], int]


def tables(sales: int) -> tuple[pa.Table, pa.Table]:
    """Return sales, and a tenth as many customers."""
    chance = np.random.default_rng(0)
    customers = sales // 10
    ours = {"sale": np.arange(sales), "customer": chance.integers(0, customers, sales), "price": chance.random(sales)}
    theirs = {"customer": chance.permutation(customers), "region": chance.integers(0, 50, customers)}
    return pa.table(ours), pa.table(theirs)


class Side:
    """One side of the symmetric join: a database of its own, whose keys are the join key and the row's own."""

    def __init__(self, folder: Path, memtable: int) -> None:
        options = rocksdict.Options(raw_mode=True)
        options.set_write_buffer_size(memtable)
        self.rows = rocksdict.Rdict(str(folder), options)
        self._memtable = memtable

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
            if found[:8] != key:
                break
            count += 1
        return count

    def stop_compacting(self) -> None:
        """Let sorted files overlap from now on."""
        self.rows.set_options({"disable_auto_compactions": "true"})


def symmetric(
    sales: pa.Table, customers: pa.Table, folder: Path, *, is_sorted: bool, trick: bool, memtable: int = 64 << 20
) -> int:
    """Join batch by batch, both sides in turns: each row is looked up on the other side, and kept on its own."""
    ours, theirs = Side(folder / "sales", memtable), Side(folder / "customers", memtable)
    pairs = 0
    for first in range(0, sales.num_rows, BATCH_ROWS):
        come = _packed(customers.slice(first // 5, BATCH_ROWS // 5), 0, is_sorted=is_sorted)
        pairs += sum(ours.matches(key[:8]) for key, _ in come)
        theirs.add(come)
        if trick and first // 5 + BATCH_ROWS // 5 >= customers.num_rows:
            ours.stop_compacting()
        come = _packed(sales.slice(first, BATCH_ROWS), 1, is_sorted=is_sorted)
        keys = [key[:8] for key, _ in come]
        found = theirs.rows.get(keys) if is_sorted else [theirs.rows.get(key) for key in keys]
        pairs += sum(value is not None for value in found)
        ours.add(come)
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


def batch_join(sales: pa.Table, customers: pa.Table, _folder: Path) -> int:
    """Join at once, and keep nothing."""
    joined: Any = jn.plan(sales, customers, jn.Equi(on="customer")).execute()
    return int(joined.num_rows)


def populated(sales: pa.Table, customers: pa.Table, folder: Path) -> int:
    """Populate a join whose state is in RocksDB."""
    with jn.changes(sales.schema, customers.schema, jn.Equi(on="customer"), state=folder / "state") as join:
        return sum(batch.num_rows for batch in join.populate(left=sales, right=customers))


WAYS: dict[str, Way] = {
    "row by row": partial(symmetric, is_sorted=False, trick=False),
    "row by row, the trick": partial(symmetric, is_sorted=False, trick=True),
    "row by row, small memtables": partial(symmetric, is_sorted=False, trick=False, memtable=MEMTABLE_BYTES),
    "row by row, small memtables, the trick": partial(symmetric, is_sorted=False, trick=True, memtable=MEMTABLE_BYTES),
    "each batch sorted": partial(symmetric, is_sorted=True, trick=False),
    "each batch sorted, the trick": partial(symmetric, is_sorted=True, trick=True),
    "populate": populated,
    "batch join, nothing kept": batch_join,
}


def measured(name: str, sales: int) -> tuple[float, int]:
    """Return the CPU seconds of a way, and how many pairs it found."""
    ours, theirs = tables(sales)
    folder = Path(tempfile.mkdtemp())
    try:
        # What compiles and loads does so before.
        batch_join(ours.slice(0, 10), theirs.slice(0, 10), folder)
        populated(ours.slice(0, 10), theirs.slice(0, 10), folder / "first")
        start = time.process_time()
        pairs = WAYS[name](ours, theirs, folder)
        return time.process_time() - start, pairs
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Measure all ways, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sales", type=int, default=500_000, help="rows of the larger side")
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=list(WAYS))
    arguments = parser.parse_args()
    first: int | None = None
    for name in arguments.ways:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, pairs = pool.apply(measured, (name, arguments.sales))
        first = pairs if first is None else first
        if pairs != first:
            raise SystemExit(f"{name} found {pairs:,} pairs, and not {first:,}")
        print(f"{name:<40} {seconds:8.2f} s CPU {arguments.sales / seconds:>12,.0f} sales/s")


if __name__ == "__main__":
    main()
