"""Joins two Parquet files in a process of its own, and tells how much more memory that took than the process had.

What a process needs to join at all (libraries, compiled kernels, the code of both in memory) is there once it has
joined the first rows of both files, with so little memory that they went to disk.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import juncture as jn
from juncture.local.kinds import execute
from juncture.runtime.context import join_context
from juncture.runtime.memory import peak_memory_bytes
from juncture.runtime.parquet import ParquetSource

SPECS = {
    "asof": jn.Asof(on="at", by="key"),
    "range": jn.Range(on="at", by="key", lower=-40, upper=0),
    "range-agg": jn.Range(on="at", by="key", lower=-400, upper=0, agg={"at": ["mean", "max"], "text": "first"}),
    "overlap": jn.Overlap(left_interval=("at", "end"), right_interval=("at", "end"), by="key"),
    "where": jn.Where("l.at <= r.end AND r.at <= l.end AND l.key = r.key"),
    "equi": jn.Equi(on="row"),
}

FIRST_ROWS = 4_000


def beginning(path: str) -> str:
    """Write the first rows of a file to another one beside it."""
    rows = next(pq.ParquetFile(path).iter_batches(FIRST_ROWS))
    small = f"{path}-{FIRST_ROWS}"
    if not Path(small).exists():
        pq.write_table(pa.Table.from_batches([rows]), small, row_group_size=FIRST_ROWS // 8)
    return small


def taken(kind: str, algorithm: str, memory_bytes: int, left: str, right: str) -> tuple[int, int]:
    """Return how many rows a join of two files has, and how much more memory this process has had.

    For a process of its own.
    """
    spec = SPECS[kind]
    beginnings = [beginning(path) for path in (left, right)]
    sum(batch.num_rows for batch in jn.plan(*beginnings, spec, algorithm=algorithm, memory=memory_bytes).batches())
    sides = [ParquetSource([path]) for path in beginnings]
    join = spec.resolve(*(side.schema for side in sides))
    with join_context(memory_bytes=2_000_000) as context:
        for _ in execute(join, *sides, algorithm, context):
            pass
    # Sets the peak back to what is held now, where there is a /proc.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = peak_memory_bytes()
    plan = jn.plan(left, right, spec, algorithm=algorithm, memory=memory_bytes)
    count = sum(batch.num_rows for batch in plan.batches())
    return count, peak_memory_bytes() - before
