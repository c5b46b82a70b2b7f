"""The join of a run, and its correct result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

from juncture_benchmarks.datasets.equi import EquiTables
from juncture_benchmarks.pairs import Answer, ints, kept_answer, weights

__all__ = ["IDS", "Task", "expected_answer"]

IDS = ("id", "id_right")
"""The columns that number the left and the right row of each row of the output."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """An inner join of two folders of Parquet files by ``key``.

    Attributes
    ----------
    left, right
        The folders.
    memory_bytes
        Memory limit, with results in batches; without a limit, the result is a table.
    """

    left: str
    right: str
    memory_bytes: int | None = None

    @staticmethod
    def of(tables: EquiTables, memory_bytes: int | None = None) -> Task:
        """Return the join of a generated pair of tables."""
        return Task(left=str(tables.left), right=str(tables.right), memory_bytes=memory_bytes)


def expected_answer(task: Task) -> Answer:
    """Find the right answer, or read it where an earlier call has left it.

    Keys are numbers, so the sums of the weights of each key's rows, left and right, are all that NumPy needs: it makes
    no pairs, and looks nothing up.
    """
    return kept_answer(Path(task.left).parent / "answer.json", lambda: _pairs_of_equal_keys(task))


def _pairs_of_equal_keys(task: Task) -> Answer:
    sides = [_totals(folder) for folder in (task.left, task.right)]
    count = min(totals.shape[1] for totals in sides)
    rows, *sums = (sides[0][:, :count] * sides[1][:, :count]).sum(axis=1).tolist()
    return Answer(rows=rows, sums=tuple(sums))


def _numbers_of(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return the numbers that keys are, or that stand in them as text behind a letter."""
    return ints(keys if pat.is_integer(keys.type) else pc.utf8_slice_codeunits(keys, 1))


def _totals(folder: str) -> npt.NDArray[np.int64]:
    """Return how many rows each key has, and the sums of their weights."""
    totals = np.zeros((3, 0), np.int64)
    for path in sorted(Path(folder).glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(columns=["key", "id"]):
            keys, ids = _numbers_of(batch["key"]), ints(batch["id"])
            more = np.bincount(keys, minlength=totals.shape[1])
            totals = np.pad(totals, ((0, 0), (0, len(more) - totals.shape[1])))
            totals[0] += more
            for which in range(2):
                np.add.at(totals[1 + which], keys, weights(ids, which))
    return totals
