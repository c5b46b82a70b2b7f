"""Runs one Spark task of a join by itself, and tells how much more memory that took than the process had.

The task gets the packets of one partition, which are made as it asks for them, as Spark sends them. What a process
needs to join at all is there once the same task has joined the first rows of both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

import juncture as jn
from juncture.planner.statistics import Resources
from juncture.runtime.memory import peak_memory_bytes
from juncture.spark.asof.plan import asof_stages
from juncture.spark.exchange import needed_right
from juncture.spark.inequality.plan import inequality_placements, inequality_stages
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.feed import BatchFeed
from juncture.spark.tasks.placement import Coding

TEXT_BYTES = 4_000
BATCH_ROWS = 250

SPECS = {
    "asof": jn.Asof(on="at", by="key"),
    "range": jn.Range(on="at", by="key", lower=-40, upper=0),
    "range-agg": jn.Range(on="at", by="key", lower=-20, upper=0, agg={"at": ["mean", "max"], "text": "first"}),
    "overlap": jn.Overlap(left_interval=("at", "end"), right_interval=("at", "end"), by="key"),
    "where": jn.Where("l.at <= r.end AND r.at <= l.end AND l.key = r.key"),
}

NO_CUTS = Cuts(np.empty(0, np.uint64), np.empty(0, np.int64))


def batches(seed: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of a side, in no order."""
    chance = np.random.default_rng(seed)
    for _ in range(0, rows, BATCH_ROWS):
        at = chance.integers(0, 40 * rows, BATCH_ROWS)
        letters = chance.integers(97, 123, BATCH_ROWS * TEXT_BYTES, np.uint8)
        offsets = np.arange(BATCH_ROWS + 1, dtype=np.int32) * TEXT_BYTES
        yield pa.record_batch(
            {
                "at": at,
                "end": at + chance.integers(1, 40, BATCH_ROWS),
                "key": chance.integers(0, 2, BATCH_ROWS),
                "text": pa.Array.from_buffers(
                    pa.string(), BATCH_ROWS, [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
                ),
            }
        )


def run(kind: str, memory_bytes: int, left_rows: int, right_rows: int) -> int:
    """Return how many rows a task makes of so many of both sides."""
    spec, schema = SPECS[kind], next(batches(0, BATCH_ROWS)).schema
    join = spec.resolve(schema, schema)
    output = pa.schema([(f"c{place}", field.type) for place, field in enumerate(join.output_schema)])
    if kind == "asof":
        stages = asof_stages(join, Coding.of(join), NO_CUTS, output, Resources(cores=1, memory_bytes=memory_bytes))
    else:
        stages = inequality_stages(
            join, inequality_placements(join), NO_CUTS, output, Resources(cores=1, memory_bytes=memory_bytes)
        )
    needed = needed_right(join)

    def arriving() -> Iterator[pa.RecordBatch]:
        yield from stages.scatter("left", BatchFeed(schema, chunk_rows=BATCH_ROWS))(batches(1, left_rows))
        right = (batch.select(needed.names) for batch in batches(2, right_rows))
        yield from stages.scatter("right", BatchFeed(needed, chunk_rows=BATCH_ROWS))(right)

    return sum(batch.num_rows for batch in stages.joined(arriving()))


def taken(kind: str, memory_bytes: int, left_rows: int, right_rows: int) -> tuple[int, int]:
    """Return how many rows a task makes of so many of both sides, and how much more memory this process has had.

    For a process of its own.
    """
    # With so little memory that they go to disk.
    run(kind, 2_000_000, 750, 750)
    # Sets the peak back to what is held now, where there is a /proc.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = peak_memory_bytes()
    rows = run(kind, memory_bytes, left_rows, right_rows)
    return rows, peak_memory_bytes() - before
