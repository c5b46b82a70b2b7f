"""All ways to populate the join of sales and customers, and what each keeps in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import juncture as jn
from juncture.incremental.join import ChangeJoin, ChangeSetup, store_in
from juncture.incremental.state.policy import MemoryPolicy
from juncture.local.resources import resources_here
from juncture.runtime.memory import LEAST_MEMORY_BYTES
from juncture_benchmarks.population.symmetric import Layout, symmetric

__all__ = ["GROUPS", "Way", "all_ways", "maintained", "quarter_bytes", "tables"]

SMALL_MEMTABLE = 2 << 20

_STATE_BYTES = 55
"""Approximate memory of a sale and its share of the customers, in bytes."""

Run = Callable[..., int]

GROUPS = {
    "fits": "The state fits in memory",
    "larger": "The state is four times as large as the memory allowed",
    "structures": "Structures by side",
}


@dataclass(frozen=True)
class Way:
    """A way to populate the join.

    Attributes
    ----------
    name, title
        Its name on the command line, and in tables.
    group
        The group of methods that are compared.
    run
        Does it, and returns how many pairs there are.
    is_ours
        Whether it is Juncture.
    """

    name: str
    title: str
    group: str
    run: Run
    is_ours: bool = False


def tables(sales: int) -> tuple[pa.Table, pa.Table]:
    """Return sales, and a tenth as many customers."""
    chance = np.random.default_rng(0)
    customers = sales // 10
    ours = {"sale": np.arange(sales), "customer": chance.integers(0, customers, sales), "price": chance.random(sales)}
    theirs = {"customer": chance.permutation(customers), "region": chance.integers(0, 50, customers)}
    return pa.table(ours), pa.table(theirs)


def all_ways(sales: int) -> dict[str, Way]:
    """Return all methods by name, for a number of sales."""
    quarter = quarter_bytes(sales)
    ways = [
        *_row_by_row("fits", "", Layout(), "RocksDB's own memtables (64 MB)"),
        *_row_by_row("fits", "small-", Layout(SMALL_MEMTABLE), "memtables of 2 MB"),
        Way("populate", "**`populate`**, in memory and in a folder", "fits", _populated, is_ours=True),
        Way("batch", "batch join that writes its answer to Parquet", "fits", _batch_join),
        *_row_by_row(
            "larger", "larger-", Layout(quarter // 8, quarter // 4, is_direct=True), "direct reads and writes"
        ),
        Way(
            "larger-populate",
            f"**`populate`**, `memory={quarter:,}`",
            "larger",
            partial(_populated, memory=quarter),
            is_ours=True,
        ),
        *_structures(),
    ]
    return {way.name: way for way in ways}


def quarter_bytes(sales: int) -> int:
    """Return a quarter of the memory of the state of a number of sales, or the minimum."""
    return max(sales * _STATE_BYTES // 4, LEAST_MEMORY_BYTES)


def _row_by_row(group: str, prefix: str, layout: Layout, how: str) -> list[Way]:
    run = partial(symmetric, of_sales=layout, of_customers=layout)
    return [
        Way(f"{prefix}rows", f"row by row, {how}", group, run),
        Way(f"{prefix}rows-trick", f"row by row, {how}, the article's trick", group, partial(run, trick=True)),
        Way(f"{prefix}sorted", f"each batch of 10,000 sorted, {how}", group, partial(run, is_sorted=True)),
        Way(
            f"{prefix}sorted-trick",
            f"each batch of 10,000 sorted, {how}, the article's trick",
            group,
            partial(run, is_sorted=True, trick=True),
        ),
    ]


def _structures() -> list[Way]:
    """Return the ways that answer the article's question: other structures for the side that is only read."""
    small = Layout(SMALL_MEMTABLE)
    chosen = {
        "skip": ("SkipList for both sides", small, small),
        "hash-small": ("HashSkipList for customers", small, Layout(has_hashed_memtable=True)),
        "skip-small": ("SkipList of 64 MB for customers", small, Layout()),
        "hash-both": (
            "HashSkipList for both sides",
            Layout(SMALL_MEMTABLE, has_hashed_memtable=True),
            Layout(has_hashed_memtable=True),
        ),
        "blocks-1k": ("blocks of 1 KB for customers", small, Layout(SMALL_MEMTABLE, block_bytes=1 << 10)),
        "blocks-16k": ("blocks of 16 KB for sales", Layout(SMALL_MEMTABLE, block_bytes=16 << 10), small),
        "blocks-both": (
            "blocks of 16 KB for sales and of 1 KB for customers",
            Layout(SMALL_MEMTABLE, block_bytes=16 << 10),
            Layout(SMALL_MEMTABLE, block_bytes=1 << 10),
        ),
    }
    return [
        Way(
            f"structures-{name}",
            title,
            "structures",
            partial(symmetric, trick=True, of_sales=ours, of_customers=theirs),
        )
        for name, (title, ours, theirs) in chosen.items()
    ]


def _batch_join(sales: pa.Table, customers: pa.Table, folder: Path) -> int:
    """Join at once, and write the answer."""
    joined: Any = jn.plan(sales, customers, jn.Equi(on="customer")).execute()
    folder.mkdir(exist_ok=True)
    pq.write_table(joined, folder / "answer.parquet")
    return int(joined.num_rows)


def maintained(
    sales: pa.Table, customers: pa.Table, spec: Any, folder: Path, memory: int | None, block_rows: int | None = None
) -> jn.ChangeJoin:
    """Return an empty join whose state is in RocksDB, in blocks of a number of rows."""
    setup, resources = ChangeSetup(spec, sales.schema, customers.schema), resources_here(memory)
    policy = MemoryPolicy.of(resources.memory_bytes)
    if block_rows is not None:
        policy = replace(policy, block_rows=block_rows, batch_rows=block_rows << 9)
    return ChangeJoin(setup, resources, store_in(folder / "state", setup, policy))


def _populated(
    sales: pa.Table, customers: pa.Table, folder: Path, memory: int | None = None, block_rows: int | None = None
) -> int:
    """Populate a join whose state is in RocksDB."""
    with maintained(sales, customers, jn.Equi(on="customer"), folder, memory, block_rows) as join:
        return sum(batch.num_rows for batch in join.populate(left=sales, right=customers))
