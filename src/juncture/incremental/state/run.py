"""A sorted run: rows of a side with weights, in which matches are found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, concatenated, joined_batches, raw_values, rows_at
from juncture.columnar.row_bytes import RowMemory
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.equal_rows import find_alike, order_ties
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.row_order import merge_runs, sort_rows
from juncture.kernels.symmetric import UNLIMITED, reach_of
from juncture.matching.candidates import first_codes, key_groups, matching_pairs
from juncture.ordered.arithmetic import MIN_CODE

if TYPE_CHECKING:
    from juncture.incremental.state.stored_run import StoredRun

Table = npt.NDArray[np.int64]

_OF_WHOLE = 8  # a slice may retain the memory of the run if it has at least one in this many of its rows


@dataclass
class DiskCopy:
    """The copy on disk of a run in memory."""

    run: StoredRun
    places: npt.NDArray[np.int32]  # the position there of each row; -1 for rows that had no weight when it was written
    changed: Mask  # rows with other weights or counts since they were written or read


class Run:
    """Rows by key, first code and hash; rows that can match nothing come first.

    ``codes`` has one line for each relation; the first ``matching`` lines find matches. ``counts`` has lines that the
    operator uses. ``groups`` are the distinct keys, ascending, and ``starts`` their first rows, with the end.
    """

    def __init__(
        self,
        batch: pa.RecordBatch,
        keys: Codes,
        codes: Table,
        weights: Ints,
        hashes: Ints,
        counts: Table,
        matching: int,
    ) -> None:
        self.batch = batch
        self.keys = keys
        self.codes = codes
        self.weights = weights
        self.hashes = hashes
        self.counts = counts
        self.disk_copy: DiskCopy | None = None
        self.is_fetched = False  # whether the rows are in memory for one epoch only
        self._matching = matching
        self.groups, self.starts = key_groups(keys, codes)
        self._greatest = codes[0].max(initial=MIN_CODE) if matching else 0
        self._reach = reach_of(codes) if matching > 1 else UNLIMITED

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def nbytes(self) -> int:
        """Memory of the rows."""
        arrays = (self.keys, self.codes, self.weights, self.hashes, self.counts, self.groups, self.starts)
        return int(self.batch.nbytes) + sum(array.nbytes for array in arrays)

    @cached_property
    def memory(self) -> RowMemory:
        """The memory layout of the rows."""
        return RowMemory.of(self.batch)

    @property
    def living_rows(self) -> int:
        """Number of distinct rows with a weight."""
        return int(np.count_nonzero(self.weights))

    def mark_changed(self, positions: npt.NDArray[np.signedinteger]) -> None:
        """Note that weights or counts of some rows change, so that their copy on disk is updated."""
        if self.disk_copy is not None:
            self.disk_copy.changed[positions] = True

    def update_disk_copy(self) -> bool:
        """Record changed weights and counts in the copy on disk; return False if there is none with all rows."""
        if self.disk_copy is None:
            return False
        copy = self.disk_copy
        rows = np.flatnonzero(copy.changed)
        places = copy.places[rows].astype(np.int64)
        if (places < 0).any():
            return False
        if len(rows):
            order = np.argsort(places)
            rows, places = rows[order], places[order]
            state = np.concatenate([self.weights[rows][None], np.take(self.counts, rows, axis=1)])
            copy.run.change(places, state)
            copy.changed[rows] = False
        return True

    def alike(self, keys: Codes, codes: Table, hashes: Ints, remaining: Ints) -> tuple[Ints, Ints]:
        """Return pairs of remaining rows, and positions with the same key, first code and hash; keys have to ascend."""
        held = self.groups, self.starts, self.codes, self.hashes, self.weights
        room = len(keys)
        while True:
            rows, positions = np.empty(room, np.int64), np.empty(room, np.int64)
            count = find_alike(keys, codes, hashes, remaining, *held, rows, positions)
            if count <= room:
                return rows[:count], positions[:count]
            room = count

    def find(self, keys: Codes, codes: Table) -> Iterator[tuple[Codes, Codes]]:
        """Yield pairs of rows and positions that match, in blocks. Rows are by key and code, all with a key."""
        if self._matching and len(keys) and self._greatest < ~codes[0].max():
            return
        held = keys, codes, self._matching, self.groups, self.starts, self.codes, self._reach
        for rows, positions in matching_pairs(*held):
            living = weights_of(self.weights, positions) > 0
            yield (rows, positions) if living.all() else (rows[living], positions[living])

    def taken(self, positions: npt.NDArray[np.signedinteger]) -> pa.RecordBatch:
        """Return the rows at some positions; a slice for many consecutive ones."""
        if len(positions) * _OF_WHOLE >= len(self) and _follow(positions):
            return self.batch.slice(int(positions[0]), len(positions))
        return rows_at(self.batch, positions)

    def rekeyed(self, mapping: Codes) -> None:
        """Map key codes to new ones, in the same order."""
        self.keys, self.groups = _mapped(self.keys, mapping), _mapped(self.groups, mapping)


def _follow(positions: npt.NDArray[np.signedinteger]) -> bool:
    ends = positions[[0, -1]] if len(positions) else np.zeros(2, np.int64)
    return len(positions) == int(ends[1] - ends[0]) + 1 and bool((positions[1:] - positions[:-1] == 1).all())


def _mapped(keys: Codes, mapping: Codes) -> Codes:
    return np.where(keys == EMPTY, EMPTY, mapping[keys])


def weights_of(weights: Ints, rows: npt.NDArray[np.signedinteger]) -> Ints:
    """Return the weights of some rows. For many rows, it is faster to check first whether all weights are one."""
    if 2 * len(rows) >= len(weights) and (weights == 1).all():
        return np.ones(len(rows), np.int64)
    found: Ints = weights[rows]
    return found


def row_order(keys: Codes, codes: Table, hashes: Ints) -> tuple[Codes, Codes, Ints]:
    """Return rows by key, first code and hash, those without a key first; their keys, and hashes."""
    order = key_order(keys, codes)
    keys, hashes = keys[order], hashes[order]
    order_ties(keys, codes[0][order] if len(codes) else first_codes(codes), hashes, order)
    return order, keys, hashes


def key_order(keys: Codes, codes: Table) -> Codes:
    """Return rows by key and first code, those without a key first."""
    first = first_codes(codes)
    empty = np.flatnonzero(keys == EMPTY).astype(np.int32)
    rows = np.flatnonzero(keys != EMPTY).astype(np.int32) if len(empty) else None
    order = np.empty(len(keys) - len(empty), np.int32)
    sort_rows(keys if rows is None else keys[rows], first if rows is None else first[rows], order)
    return order if rows is None else np.concatenate([empty, rows[order]])


def merged(runs: Sequence[Run], matching: int) -> Run:
    """Return the rows of some sorted runs, at least one, as one run."""
    batch = joined_batches([run.batch for run in runs])
    keys, hashes, weights = (
        np.concatenate(each) for each in zip(*((run.keys, run.hashes, run.weights) for run in runs), strict=True)
    )
    codes, counts = (
        np.concatenate(each, axis=1) for each in zip(*((run.codes, run.counts) for run in runs), strict=True)
    )
    order = np.empty(len(keys), np.int32)
    starts = np.cumsum([0, *(len(run) for run in runs)])
    order = order[: merge_runs(keys, first_codes(codes), hashes, weights, starts, order)]
    # The batch is sorted too, so that consecutive rows are close in memory.
    return Run(
        rows_at(batch, order),
        keys[order],
        np.take(codes, order, axis=1),
        weights[order],
        hashes[order],
        np.take(counts, order, axis=1),
        matching,
    )


class RunConcatenator:
    """Concatenates runs with distinct keys, and sorts only if their keys do not ascend.

    Columns of fixed width are copied at once, so that the memory of each run is free for the next one. ``whole`` marks
    columns without nulls; ``lines`` are the numbers of lines of codes and counts.
    """

    def __init__(self, rows: int, schema: pa.Schema, whole: Sequence[bool], lines: tuple[int, int], matching: int):
        self._schema = schema
        self._matching = matching
        self._keys = np.empty(rows, np.int32)
        self._weights, self._hashes = np.empty(rows, np.int64), np.empty(rows, np.int64)
        self._codes, self._counts = (np.empty((each, rows), np.int64) for each in lines)
        self._values = [
            np.empty(rows, f"i{field.type.bit_width // 8}") if has_all and _has_width(field.type) else None
            for field, has_all in zip(schema, whole, strict=True)
        ]
        self._pieces: list[list[pa.Array]] = [[] for _ in schema]
        self._rows = 0
        self._rises = True

    def add(self, run: Run) -> None:
        """Add a run."""
        if not len(run):
            return
        first, end = self._rows, self._rows + len(run)
        self._rises &= not first or bool(self._keys[first - 1] <= run.keys[0])
        self._keys[first:end], self._weights[first:end], self._hashes[first:end] = run.keys, run.weights, run.hashes
        self._codes[:, first:end], self._counts[:, first:end] = run.codes, run.counts
        for column, values, pieces in zip(run.batch.columns, self._values, self._pieces, strict=True):
            if values is None:
                pieces.append(column)
            else:
                values[first:end] = raw_values(column, values.dtype)
        self._rows = end

    def run(self) -> tuple[Run, Ints] | None:
        """Return all rows, and for each when it was added; raises `pyarrow.ArrowException` if they exceed one array."""
        if not self._rows:
            return None
        here = slice(self._rows)
        columns = [
            concatenated(pieces) if values is None else array_of(values[here], field.type)
            for field, values, pieces in zip(self._schema, self._values, self._pieces, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        lines = np.ascontiguousarray(self._codes[:, here]), np.ascontiguousarray(self._counts[:, here])
        numbers = self._keys[here], lines[0], self._weights[here], self._hashes[here], lines[1]
        if self._rises:
            return Run(batch, *numbers, self._matching), np.arange(self._rows)
        order, keys, hashes = row_order(self._keys[here], lines[0], self._hashes[here])
        batch = rows_at(batch, order)
        codes, counts = (np.take(each, order, axis=1) for each in lines)
        weights = self._weights[here][order]
        return Run(batch, keys, codes, weights, hashes, counts, self._matching), order.astype(np.int64)


def _has_width(data_type: pa.DataType) -> bool:
    return bool(pat.is_primitive(data_type)) and data_type.bit_width in (8, 16, 32, 64)
