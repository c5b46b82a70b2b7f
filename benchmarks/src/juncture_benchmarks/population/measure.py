"""Measures ways to populate a join, each in a process of its own, and how it goes on from there."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import juncture as jn
from juncture.runtime.memory import peak_memory_bytes
from juncture_benchmarks.machine import load_average
from juncture_benchmarks.population.ways import all_ways, maintained, quarter_bytes, tables

__all__ = ["STEADY", "measured", "of_block_rows", "steady"]

_FEW = 10_000

SPECS: dict[str, Any] = {
    "equality": jn.Equi(on="customer"),
    "range": jn.Range(left_on="sale", right_on="region", by="customer", lower=None, upper=0),
    "as-of": jn.Asof(left_on="sale", right_on="region", by="customer"),
}
STEADY = list(SPECS)


def measured(name: str, sales: int) -> dict[str, Any]:
    """Return what a way took: seconds of CPU and of wall time, and how much memory it took besides the tables."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result: dict[str, Any] = pool.apply(_measured, (name, sales))
        return result


def _measured(name: str, sales: int, **more: Any) -> dict[str, Any]:
    ours, theirs = tables(sales)
    with _folder() as folder:
        # Compilation and imports happen before the measurement.
        (folder / "first").mkdir()
        all_ways(_FEW)[name].run(ours.slice(0, _FEW), theirs.slice(0, _FEW // 10), folder / "first")
        before = peak_memory_bytes()
        start, cpu = time.perf_counter(), _cpu_s()
        way = all_ways(sales)[name]
        (folder / "second").mkdir()
        pairs = way.run(ours, theirs, folder / "second", **more)
        return {
            "pairs": pairs,
            "cpu_s": _cpu_s() - cpu,
            "seconds": time.perf_counter() - start,
            "memory_bytes": peak_memory_bytes() - before,
            "disk_bytes": sum(path.stat().st_size for path in (folder / "second").rglob("*") if path.is_file()),
        }


def steady(name: str, sales: int, *, memory: int | None = None) -> dict[str, Any]:
    """Return what epochs take once a join is populated: of 10,000 changes each, and of one."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result: dict[str, Any] = pool.apply(_steady, (name, sales, memory))
        return result


def _steady(name: str, sales: int, memory: int | None, block_rows: int | None = None) -> dict[str, Any]:
    ours, theirs = tables(sales)
    spec = SPECS[name]
    with _folder() as folder:
        before = peak_memory_bytes()
        with maintained(ours, theirs, spec, folder, memory, block_rows) as join:
            join.populate(left=ours, right=theirs)
            many = [_epoch_s(join, changes) for changes in _changes(ours, theirs, epochs=20, size=10_000)]
            one, syncs = [], []
            with (folder / "beside").open("wb", buffering=0) as beside:
                for changes in _changes(ours, theirs, epochs=400, size=1):
                    one.append(_epoch_s(join, changes))
                    syncs.append(_sync_s(beside))
        cpu = np.array([each[0] for each in one])
        wall = np.array([each[1] for each in one])
        return {
            "changes_a_cpu_s": sum(rows for _, _, rows in many) / sum(each[0] for each in many),
            "many_most_s": max(each[1] for each in many),
            "one_cpu_s": float(np.median(cpu)),
            "one_cpu_p99_s": float(np.quantile(cpu, 0.99)),
            "one_s": float(np.median(wall)),
            "one_p99_s": float(np.quantile(wall, 0.99)),
            "sync_s": float(np.median(syncs)),
            "sync_p99_s": float(np.quantile(syncs, 0.99)),
            "load_average": load_average(),
            "memory_bytes": peak_memory_bytes() - before,
        }


def of_block_rows(rows: int, sales: int) -> dict[str, Any]:
    """Return the cost of a join with blocks of a number of rows, in a quarter of the memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        populated = pool.apply(_measured, ("larger-populate", sales), {"block_rows": rows})
        found = pool.apply(_steady, ("equality", sales, quarter_bytes(sales), rows))
        return {**populated, **{key: value for key, value in found.items() if key != "memory_bytes"}}


def _epoch_s(join: jn.ChangeJoin, changes: dict[str, pa.Table]) -> tuple[float, float, int]:
    """Return how long an epoch takes, of CPU and of wall time, and how many changes it has."""
    start, cpu = time.perf_counter(), _cpu_s()
    join.apply(**changes)
    return _cpu_s() - cpu, time.perf_counter() - start, sum(table.num_rows for table in changes.values())


def _sync_s(file: FileIO) -> float:
    """Return how long the disk takes for what an epoch writes, at the least: 4 KB more in a file, and its sync."""
    start = time.perf_counter()
    file.write(bytes(4096))
    os.fdatasync(file.fileno())
    return time.perf_counter() - start


def _changes(ours: pa.Table, theirs: pa.Table, epochs: int, size: int) -> Iterator[dict[str, pa.Table]]:
    """Yield epochs that change the last column of some rows, nine in ten of them sales, and others that undo that."""
    chance = np.random.default_rng(size)
    for _ in range(epochs // 2):
        changed = {}
        for side, table, share in (("left", ours, 0.9), ("right", theirs, 0.1)):
            rows = np.unique(chance.integers(0, table.num_rows, max(int(size * share / 2), int(side == "left"))))
            if len(rows):
                changed[side] = table.take(pa.array(rows))
        if size == 1:
            # An insert, and then a delete of the same row.
            yield {side: _weighted(rows, 1) for side, rows in changed.items()}
            yield {side: _weighted(rows, -1) for side, rows in changed.items()}
            continue
        other = {side: _moved(rows) for side, rows in changed.items()}
        for before, after in ((changed, other), (other, changed)):
            yield {side: pa.concat_tables([_weighted(before[side], -1), _weighted(after[side], 1)]) for side in changed}


def _moved(rows: pa.Table) -> pa.Table:
    """Return rows with another last column."""
    last = rows.num_columns - 1
    return rows.set_column(last, rows.field(last), pa.array(np.asarray(rows.column(last)) + 1))


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column("_weight", pa.array(np.full(rows.num_rows, weight)))


def _cpu_s() -> float:
    """Return the CPU time of this process and all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
