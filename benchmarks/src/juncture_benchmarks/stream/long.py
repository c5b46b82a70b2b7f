"""Long streams, and as-of joins of streams beside the batch join: each in a process of its own."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import juncture as jn
from juncture_benchmarks.datasets import SCALES, write_asof
from juncture_benchmarks.datasets.stream import growing_table
from juncture_benchmarks.process import tree_bytes
from juncture_benchmarks.stream.contestants import CONDITION

__all__ = ["ASOF_BATCH", "LONG_BATCH", "LONG_ROWS", "asof_beside_batch", "in_process", "long_stream"]

LONG_ROWS, LONG_BATCH, ASOF_BATCH = 10_000_000, 4_096, 10_000
_KEYS = 64
_PARTS = 10


def in_process(measure: Callable[..., Any], *calls: tuple[Any, ...]) -> Iterator[Any]:
    """Yield what a function measures in a new process, called with some arguments after others."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        for arguments in calls:
            yield pool.submit(measure, *arguments).result()


def long_stream(rows: int) -> dict[str, Any]:
    """Return the CPU time, memory and state of a join of two long streams, after each tenth of them."""
    pa.set_cpu_count(1)
    left, right = (growing_table(rows, _KEYS, seed) for seed in (1, 2))
    order = jn.Order("a", delay=1)
    schema = left.schema
    first = [table.slice(0, 20 * LONG_BATCH) for table in (left, right)]
    _drain(
        jn.stream(schema, schema, jn.Where(CONDITION), left_order=order, right_order=order).run(*map(_batches, first))
    )
    join = jn.stream(schema, schema, jn.Where(CONDITION), left_order=order, right_order=order)
    parts: list[dict[str, Any]] = []
    given, count = 0, -(-rows // LONG_BATCH)

    def watched() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(_batches(left), 1):
            yield batch
            if number * _PARTS // count > (number - 1) * _PARTS // count:
                state = join.state
                parts.append(
                    {
                        "cpu_s": time.process_time() - began,
                        "memory_bytes": tree_bytes(os.getpid()),
                        "state_rows": state.left.rows + state.right.rows,
                        "state_bytes": state.left.bytes + state.right.bytes,
                    }
                )

    began = time.process_time()
    for batch in join.run(watched(), _batches(right)):
        given += batch.num_rows
    return {"cpu_s": time.process_time() - began, "rows": 2 * rows, "given": given, "parts": parts}


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as a stream has them: each batch is made when it comes, and gone after that."""
    for start in range(0, table.num_rows, LONG_BATCH):
        yield from table.slice(start, LONG_BATCH).to_batches()


def _drain(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def asof_beside_batch(scale: str, data: Path, repeat: int) -> dict[str, Any]:
    """Return what the as-of benchmark's tables take, sorted by time and in memory: as tables, and as streams."""
    left_rows, right_rows = SCALES[scale]
    tables = write_asof(data / scale, left_rows=left_rows, right_rows=right_rows)
    left, right = (pq.read_table(folder).sort_by("ts").combine_chunks() for folder in (tables.left, tables.right))
    spec = jn.Asof(on="ts", by="entity", coalesce=False)

    def batch() -> pa.Table:
        return jn.plan(left, right, spec).execute()

    def stream() -> pa.Table:
        join = jn.stream(left.schema, right.schema, spec, left_order=jn.Order("ts"), right_order=jn.Order("ts"))
        found = join.run(left.to_batches(ASOF_BATCH), right.to_batches(ASOF_BATCH))
        return pa.Table.from_batches(found, join.schema)

    answers: list[list[int]] = []
    costs: dict[str, list[tuple[float, float]]] = {"batch": [], "stream": []}
    for turn in range(repeat + 1):
        for name, run in (("batch", batch), ("stream", stream)):
            began = time.process_time(), time.perf_counter()
            table = run()
            if turn:
                costs[name].append((time.process_time() - began[0], time.perf_counter() - began[1]))
            else:
                sums = [pc.sum(table[name]).as_py() for name in ("ts", "ts_right")]
                answers.append([table.num_rows, *sums, table["ts_right"].null_count])
    found = {
        name: {"cpu_s": statistics.median(cpu for cpu, _ in each), "seconds": statistics.median(s for _, s in each)}
        for name, each in costs.items()
    }
    return {"rows": left_rows + right_rows, "costs": found, "is_equal": answers[0] == answers[1]}
