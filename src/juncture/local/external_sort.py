"""Batches sorted by an integer column, in memory as far as they fit, and in sorted runs on disk beyond that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.local.arrays import array_of, concatenated, raw_values, rows_of
from juncture.local.sorting import order_of
from juncture.local.spill import SpillFile, SpillFolder
from juncture.local.threads import Threads

__all__ = ["ExternalSorter", "joined_batches"]

Ints = npt.NDArray[np.int64]

_RUNS_MOST = 16
"""How many runs are merged at once. With more, what is at hand of each gets too small to be worth a step."""

_RUN_BYTES_MOST = 1 << 30
"""Arrow's strings hold less than twice as much in one piece."""

_BATCH_ROWS = 1 << 16


class ExternalSorter:
    """Sorts batches by one of their columns, stably.

    Parameters
    ----------
    schema, column
        Of the batches; the column holds integers of 64 bits, none of them null.
    spill
        Where to put what does not fit.
    memory_bytes
        How much to hold, that of sorting and merging included.
    threads
        Who sorts.

    Notes
    -----
    Each row is written once, and once more for every factor of 16 by which all rows exceed five times the memory
    (Knuth, The Art of Computer Programming 3, 5.4). What fits is never written.
    """

    def __init__(self, schema: pa.Schema, column: str, spill: SpillFolder, memory_bytes: int, threads: Threads) -> None:
        self._schema = schema
        self._position = schema.get_field_index(column)
        self._spill = spill
        # A run is taken into a new order, so that it is there twice for a while.
        self._run_bytes = max(1, min(memory_bytes // 3, _RUN_BYTES_MOST))
        self._threads = threads
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._runs: list[_Run] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch.

        Raises
        ------
        StateError
            If there is no room to spill.
        """
        if batch.num_rows == 0:
            return
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes > self._run_bytes:
            self._runs.append(self._written([self._sorted(self._held)], self._held_bytes))
            self._held, self._held_bytes = [], 0

    def sorted(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order. No batch may be added after that.

        Raises
        ------
        StateError
            If there is no room to spill.
        """
        last = self._sorted(self._held)
        self._held = []
        if not self._runs:
            yield from _slices(last, _BATCH_ROWS)
            return
        if last.num_rows:
            self._runs.append(self._written([last], self._held_bytes))
        del last
        while len(self._runs) > _RUNS_MOST:
            # Neighbours, so that equal rows keep their order; no more at once than it takes.
            count = min(_RUNS_MOST, -(-len(self._runs) // _RUNS_MOST))
            groups = [self._runs[first : first + count] for first in range(0, len(self._runs), count)]
            self._runs = [self._merged_into_one(group) for group in groups]
        yield from _gathered(self._merged(self._runs), _BATCH_ROWS, self._run_bytes // 4)

    def _sorted(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        """Return the rows of some batches as one, in order."""
        whole = joined_batches(batches or [_empty(self._schema)])
        values = raw_values(whole.column(self._position), np.int64)
        if bool((values[:-1] <= values[1:]).all()):
            return whole
        return rows_of(whole, array_of(order_of([values], self._threads), pa.int32()))

    def _written(self, batches: Iterable[pa.RecordBatch], size: int) -> _Run:
        """Write a run in batches so small that one of each of many runs fit."""
        file = self._spill.file(self._schema)
        rows: int | None = None
        for batch in batches:
            if rows is None:
                row_bytes = max(1, batch.nbytes // max(batch.num_rows, 1))
                rows = max(1, min(_BATCH_ROWS, max(self._run_bytes, size) // (_RUNS_MOST * row_bytes)))
            for piece in _slices(batch, rows):
                file.write(piece)
        file.finish()
        return _Run(file)

    def _merged_into_one(self, runs: list[_Run]) -> _Run:
        """Merge runs on disk."""
        if len(runs) == 1:
            return runs[0]
        merged = self._written(self._merged(runs), self._run_bytes)
        for run in runs:
            run.file.remove()
        return merged

    def _merged(self, runs: list[_Run]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of runs in order, those of earlier runs first among equal ones."""
        heads = [_Head(run.file.read_all(), self._position) for run in runs]
        while live := [head for head in heads if head.is_there()]:
            # Up to the value at which the first of the batches at hand ends, no other row can come between.
            value = min(head.last for head in live)
            below = joined_batches([head.take_below(value) for head in live])
            if below.num_rows:
                yield self._sorted([below])
            for head in live:
                while head.is_there() and head.first == value:
                    yield head.take_equal(value)


class _Run:
    """Sorted rows on disk."""

    def __init__(self, file: SpillFile) -> None:
        self.file = file


class _Head:
    """What of a run has been read, and not handed on."""

    def __init__(self, batches: Iterator[pa.RecordBatch], position: int) -> None:
        self._batches = batches
        self._position = position
        self._take(None)

    def is_there(self) -> bool:
        """Tell whether there are rows left, and read some."""
        while self._batch is None or self._batch.num_rows == 0:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._take(batch)
        return True

    @property
    def first(self) -> int:
        """The least value at hand."""
        return int(self._values[0])

    @property
    def last(self) -> int:
        """The greatest value at hand."""
        return int(self._values[-1])

    def take_below(self, value: int) -> pa.RecordBatch:
        """Hand on the rows at hand that are less than a value."""
        return self._cut(int(np.searchsorted(self._values, value, "left")))

    def take_equal(self, value: int) -> pa.RecordBatch:
        """Hand on the rows at hand that are at most a value."""
        return self._cut(int(np.searchsorted(self._values, value, "right")))

    def _cut(self, rows: int) -> pa.RecordBatch:
        assert self._batch is not None
        taken = self._batch.slice(0, rows)
        self._take(self._batch.slice(rows))
        return taken

    def _take(self, batch: pa.RecordBatch | None) -> None:
        self._batch = batch
        none = np.zeros(0, np.int64)
        self._values: Ints = none if batch is None else raw_values(batch.column(self._position), np.int64)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def joined_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of some batches, at least one, as one."""
    if len(batches) == 1:
        return batches[0]
    columns = [concatenated(arrays) for arrays in zip(*(batch.columns for batch in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def _slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _gathered(batches: Iterable[pa.RecordBatch], rows: int, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield small batches together, up to so many rows or bytes."""
    held: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= rows or size >= size_bytes:
            yield joined_batches(held)
            held, count, size = [], 0, 0
    if held:
        yield joined_batches(held)
