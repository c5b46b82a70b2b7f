"""Two streams of files: each micro-batch is a file of either side, and the last one lets all rows go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["LAST_KEY", "SIDES", "Workload"]

SIDES = ("left", "right")
LAST_KEY = "the end"
"""The key of the rows that let all others go: Spark's own joins see no row without one."""
_SECOND = 1_000_000
_SECONDS = 60
"""Time span of a micro-batch."""
_BEYOND = 10
"""Spans between the last rows and all others: more than any window, also of several operators in sequence."""
_BEYOND_HELD = 2 * 24 * 60
_HELD_ROWS = 500_000
"""Number of rows of a large micro-batch, of both sides."""
_FIRST = 1_700_000_000
"""Time of the first file and row. Spark treats rows at the beginning of time as late."""


@dataclass(frozen=True)
class Workload:
    """Sizes and location of the streams.

    Attributes
    ----------
    folder
        Folder of the files.
    batches, rows, keys
        Number of micro-batches, of rows of both sides in each, and of keys.
    held_batches
        Number of large micro-batches before them, whose rows are kept, since rows may be as late as a day.
    """

    folder: Path
    batches: int
    rows: int
    keys: int
    held_batches: int = 0

    @property
    def delay(self) -> str:
        """The greatest delay of rows."""
        return "1d" if self.held_batches else "1s"

    def write(self) -> None:
        """Write the files, each with a time at which it appeared, by which Spark reads them in turn."""
        random = np.random.default_rng(7)
        for place, side in enumerate(SIDES):
            target = self.folder / side
            target.mkdir(parents=True, exist_ok=True)
            count = self.held_batches + self.batches
            for number in range(count + 1):
                table = self._rows(number, place, random) if number < count else self._last(target)
                path = target / f"{number:04}.parquet"
                pq.write_table(table, path)
                os.utime(path, (_FIRST + number, _FIRST + number))

    @staticmethod
    def _start(number: int) -> int:
        """Return the time at which a micro-batch starts, in microseconds."""
        return (_FIRST + number * _SECONDS) * _SECOND

    def _rows(self, number: int, place: int, random: np.random.Generator) -> pa.Table:
        """Return the rows of one file, which are in order but for half of the delay."""
        rows = _HELD_ROWS if number < self.held_batches else self.rows
        count = rows // len(SIDES)
        grown = np.sort(random.integers(0, _SECONDS * _SECOND, count)) + self._start(number)
        times = grown - random.integers(0, _SECOND // 2, count)
        keys = pa.array(random.integers(0, self.keys, count).astype(np.int32))
        names = pa.array([f"key {key:05}" for key in range(self.keys)])
        ids = np.arange(count) * len(SIDES) + place + number * _HELD_ROWS
        return pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "k": pa.DictionaryArray.from_arrays(keys, names).dictionary_decode(),
                f"{SIDES[place]}_id": pa.array(ids, pa.int64()),
                f"{SIDES[place]}_value": pa.array(random.random(count)),
            }
        )

    def _last(self, target: Path) -> pa.Table:
        """Return a row beyond all others, with a key that matches no row."""
        schema = pq.read_schema(target / "0000.parquet")
        beyond = _BEYOND if not self.held_batches else _BEYOND_HELD
        last = pa.array([self._start(self.held_batches + self.batches + beyond)], pa.timestamp("us", "UTC"))
        rest = (pa.nulls(1, field.type) for field in list(schema)[2:])
        return pa.table([last, pa.array([LAST_KEY]), *rest], schema=schema)

    def answer(self, spec: Any) -> tuple[int, int]:
        """Return how many rows a join has, and the sum of their right ids, by the join of tables in this process."""
        import juncture as jn

        tables = (pq.read_table(self.folder / side) for side in SIDES)
        left, right = (table.filter(pc.not_equal(table["k"], LAST_KEY)) for table in tables)
        joined = jn.plan(left, right, spec).execute()
        return joined.num_rows, sum(joined["right_id"].drop_null().to_pylist())
