"""The experiment: sizes of batches, numbers of keys and sizes of tables, joined by everyone in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from juncture_benchmarks.datasets.stream import growing_table
from juncture_benchmarks.stream.contestants import Contestant, Sides, contestants

__all__ = ["BATCHES", "KEYS", "ROWS", "Cell", "cells", "measure_cell"]

BATCHES = (128, 512, 2_048, 4_096)
KEYS = (8, 64, 1_024)
ROWS = (8_192, 16_384, 32_768, 65_536)


@dataclass(frozen=True)
class Cell:
    """One combination."""

    batch_rows: int
    keys: int
    rows: int

    @property
    def name(self) -> str:
        """The scenario's name."""
        return f"local-grid-{self.keys}-{self.batch_rows}-{self.rows}"

    @property
    def title(self) -> str:
        """The scenario's title."""
        return f"{self.keys:,} keys, batches of {self.batch_rows:,}, {self.rows:,} rows a side"


def cells() -> list[Cell]:
    """Return all combinations."""
    return [Cell(batch, keys, rows) for keys in KEYS for batch in BATCHES for rows in ROWS]


def measure_cell(cell: Cell, repeat: int) -> list[dict[str, Any]]:
    """Return what everyone took: CPU seconds, of the scan alone and of scan and join, medians of some runs."""
    left, right = (growing_table(cell.rows, cell.keys, seed) for seed in (1, 2))
    with TemporaryDirectory(prefix="stream-") as folder:
        sides = Sides(left, right, cell.batch_rows, Path(folder))
        sides.write()
        taking_part = contestants()
        found: dict[str, list[tuple[float, float]]] = {each.name: [] for each in taking_part}
        answers: dict[str, tuple[int, int]] = {}
        for turn in range(repeat + 1):
            for each in taking_part:
                # The first turn warms up; what takes long is run once.
                if each.is_quadratic and turn != 1:
                    continue
                cost, answer = _run(each, sides)
                answers.setdefault(each.name, answer)
                if turn:
                    found[each.name].append(cost)
    batches = 2 * -(-cell.rows // cell.batch_rows)
    return [
        {
            "contestant": each.name,
            "title": each.title,
            "ours": each.name == "juncture",
            "status": "ok" if answers[each.name] == answers["juncture"] else "wrong answer",
            "reason": "",
            "median": _median(found[each.name], batches),
            "answer": {"rows": answers[each.name][0], "sum": answers[each.name][1]},
            "runs": [{"cpu_s": cpu, "scan_cpu_s": scan} for cpu, scan in found[each.name]],
        }
        for each in taking_part
    ]


def _median(costs: list[tuple[float, float]], batches: int) -> dict[str, float]:
    own = statistics.median(cpu - scan for cpu, scan in costs)
    return {"cpu_s": own, "batch_us": own / batches * 1e6}


def _run(contestant: Contestant, sides: Sides) -> tuple[tuple[float, float], tuple[int, int]]:
    """Return the CPU seconds of the join and of what it only reads, and the answer boiled down."""
    cpu_s, batches = _timed(contestant.join(sides))
    scan_s = 0.0 if contestant.scan is None else _timed(contestant.scan(sides))[0]
    return (cpu_s, scan_s), _answer(batches)


def _timed(run: partial[Iterator[Any]] | Any) -> tuple[float, list[pa.RecordBatch]]:
    # CPU time, in which neither idle threads count nor others who use the machine.
    began = time.process_time()
    batches = list(run())
    return time.process_time() - began, batches


def _answer(batches: list[pa.RecordBatch]) -> tuple[int, int]:
    """Return how many rows there are, and a sum over them that one wrong row would change."""
    rows = total = 0
    for batch in batches:
        mixed = np.zeros(batch.num_rows, np.uint64)
        for number in (1, 3):
            mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + batch.column(number).to_numpy().astype(np.uint64)
        mixed ^= batch.column(0).to_numpy().astype(np.uint64) << np.uint64(50)
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
        rows += batch.num_rows
        total += int(mixed.sum(dtype=np.uint64))
    return rows, total % 2**64
