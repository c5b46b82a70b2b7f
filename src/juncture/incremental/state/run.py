"""Sorted rows of a side: changes, and runs with weights and counts, in which matches are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, concatenated, joined_batches, raw_values, rows_at
from juncture.columnar.row_bytes import RowMemory
from juncture.incremental.changes.change_batch import ChangeBatch
from juncture.incremental.changes.identity import RowIdentity
from juncture.kernels.array_types import Codes, Ints, IntTable, Mask, Positions
from juncture.kernels.equal_rows import find_alike, order_ties
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.row_order import merge_runs, sort_rows
from juncture.kernels.symmetric import UNLIMITED, excess_of
from juncture.matching.candidates import first_codes, key_groups, matching_pairs
from juncture.ordered.arithmetic import MIN_CODE

if TYPE_CHECKING:
    from juncture.incremental.state.stored_run import StoredRun


_OF_WHOLE = 8  # a slice may retain the memory of the run if it has at least one in this many of its rows


@dataclass(frozen=True)
class Delta:
    """Changes of a side: distinct rows by key, first code and hash. Rows that can match nothing come first."""

    batch: pa.RecordBatch
    weights: Ints  # changes of weights, not zero
    keys: Codes
    codes: IntTable  # a line for each relation
    hashes: Ints

    @classmethod
    def of(cls, batch: pa.RecordBatch, weights: Ints, keys: Codes, codes: IntTable, hashes: Ints) -> Delta:
        """Return changes in order."""
        is_empty = keys == EMPTY
        if len(codes) and is_empty.any():
            codes = np.where(is_empty, 0, codes)
        order, keys, hashes = row_order(keys, codes, hashes)
        rows = rows_at(batch, order)
        return cls(rows, weights_of(weights, order), keys, np.take(codes, order, axis=1), hashes)

    @classmethod
    def joined(cls, parts: Sequence[Delta]) -> Delta:
        """Return all rows of some parts, at least one, in order."""
        return cls.of(*_concatenated(parts))

    @classmethod
    def probing(cls, keys: Codes, schema: pa.Schema) -> Delta:
        """Return keys, ascending, to look up their rows."""
        none = np.zeros(len(keys), np.int64)
        return cls(pa.RecordBatch.from_pylist([], schema), none, keys, none[None][:0], none)

    def summed(self, identity: RowIdentity) -> Delta:
        """Return changes with equal rows added up."""
        same = (self.hashes[1:] == self.hashes[:-1]) & (self.keys[1:] == self.keys[:-1])
        weights = identity.summed(self.batch, self.weights, same) if same.any() else self.weights
        return replace(self, weights=weights).some(np.flatnonzero(weights))

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def changes(self) -> ChangeBatch:
        """The rows with the changes of their weights."""
        return ChangeBatch(self.batch, self.weights)

    @cached_property
    def memory(self) -> RowMemory:
        """The memory layout of the rows."""
        return RowMemory.of(self.batch)

    @property
    def first(self) -> int:
        """The first row that can match."""
        return int(np.searchsorted(self.keys, 0))

    def some(self, rows: Positions) -> Delta:
        """Return some of the changes, in order."""
        return self if len(rows) == len(self) else self.at(rows)

    def at(self, rows: Positions) -> Delta:
        """Return the changes at some positions, in the order of these."""
        batch, codes = rows_at(self.batch, rows), np.take(self.codes, rows, axis=1)
        return Delta(batch, self.weights[rows], self.keys[rows], codes, self.hashes[rows])

    def as_run(self) -> Run:
        """Return the changes as a run. Deleted rows are found like inserted ones."""
        return Run(replace(self, weights=np.abs(self.weights)), np.zeros((0, len(self)), np.int64), 0)

    def find(self, runs: Sequence[Run]) -> Iterator[tuple[Run, Codes, Codes]]:
        """Yield the rows of the other side that these match: run, rows of the delta, positions in the run."""
        first = self.first
        keys, codes = self.keys[first:], np.ascontiguousarray(self.codes[:, first:])
        for run, rows, positions in matches_in(runs, keys, codes):
            yield run, rows + np.int32(first), positions


@dataclass
class DiskCopy:
    """The copy on disk of a run in memory."""

    run: StoredRun
    slots: npt.NDArray[np.int32]  # the position there of each row; -1 for rows that had no weight when it was written
    changed: Mask  # rows with other weights or counts since they were written or read


class Run:
    """Rows by key, first code and hash; rows that can match nothing come first.

    ``codes`` has one line for each relation; the first ``matching`` lines find matches. ``counts`` has lines that the
    operator uses. ``groups`` are the distinct keys, ascending, and ``starts`` their first rows, with the end.
    """

    def __init__(
        self,
        rows: Delta,
        counts: IntTable,
        matching: int,
    ) -> None:
        self.batch, self.weights, self.keys = rows.batch, rows.weights, rows.keys
        self.codes, self.hashes = rows.codes, rows.hashes
        self.counts = counts
        self.disk_copy: DiskCopy | None = None
        self.is_fetched = False  # whether the rows are in memory for one epoch only
        self._matching = matching
        self.groups, self.starts = key_groups(self.keys, self.codes)
        self._greatest = self.codes[0].max(initial=MIN_CODE) if matching else 0
        self._reach = excess_of(self.codes) if matching > 1 else UNLIMITED

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
    def rows(self) -> Delta:
        """All rows with their weights."""
        return Delta(self.batch, self.weights, self.keys, self.codes, self.hashes)

    def at(self, positions: Positions) -> Delta:
        """Return some rows with their weights."""
        codes = np.take(self.codes, positions, axis=1)
        weights, hashes = self.weights[positions], self.hashes[positions]
        return Delta(self.taken(positions), weights, self.keys[positions], codes, hashes)

    @property
    def living_rows(self) -> int:
        """Number of distinct rows with a weight."""
        return int(np.count_nonzero(self.weights))

    def mark_changed(self, positions: Positions) -> None:
        """Note that weights or counts of some rows change, so that their copy on disk is updated."""
        if self.disk_copy is not None:
            self.disk_copy.changed[positions] = True

    def update_disk_copy(self) -> bool:
        """Record changed weights and counts in the copy on disk; return False if there is none with all rows."""
        if self.disk_copy is None:
            return False
        copy = self.disk_copy
        rows = np.flatnonzero(copy.changed)
        slots = copy.slots[rows].astype(np.int64)
        if (slots < 0).any():
            return False
        if len(rows):
            order = np.argsort(slots)
            rows, slots = rows[order], slots[order]
            state = np.concatenate([self.weights[rows][None], np.take(self.counts, rows, axis=1)])
            copy.run.change(slots, state)
            copy.changed[rows] = False
        return True

    def alike(self, keys: Codes, codes: IntTable, hashes: Ints, remaining: Ints) -> tuple[Ints, Ints]:
        """Return pairs of remaining rows, and positions with the same key, first code and hash; keys have to ascend."""
        run = self.groups, self.starts, self.codes, self.hashes, self.weights
        room = len(keys)
        while True:
            rows, positions = np.empty(room, np.int64), np.empty(room, np.int64)
            count = find_alike(keys, codes, hashes, remaining, *run, rows, positions)
            if count <= room:
                return rows[:count], positions[:count]
            room = count

    def find(self, keys: Codes, codes: IntTable) -> Iterator[tuple[Codes, Codes]]:
        """Yield pairs of rows and positions that match, in blocks. Rows are by key and code, all with a key."""
        if self._matching and len(keys) and self._greatest < ~codes[0].max():
            return
        run = self.groups, self.starts, self.codes
        for rows, positions in matching_pairs(keys, codes, self._matching, *run, self._reach):
            living = weights_of(self.weights, positions) > 0
            yield (rows, positions) if living.all() else (rows[living], positions[living])

    def taken(self, positions: Positions) -> pa.RecordBatch:
        """Return the rows at some positions; a slice for many consecutive ones."""
        if len(positions) * _OF_WHOLE >= len(self) and _follow(positions):
            return self.batch.slice(int(positions[0]), len(positions))
        return rows_at(self.batch, positions)

    def rekeyed(self, mapping: Codes) -> None:
        """Map key codes to new ones, in the same order."""
        self.keys, self.groups = _mapped(self.keys, mapping), _mapped(self.groups, mapping)


def matches_in(runs: Iterable[Run], keys: Codes, codes: IntTable) -> Iterator[tuple[Run, Codes, Codes]]:
    """Yield rows of runs that ascending keys and their codes match: run, numbers of keys, positions in the run."""
    for run in runs:
        for rows, positions in run.find(keys, codes):
            if len(rows):
                yield run, rows, positions


def _follow(positions: Positions) -> bool:
    ends = positions[[0, -1]] if len(positions) else np.zeros(2, np.int64)
    return len(positions) == int(ends[1] - ends[0]) + 1 and bool((positions[1:] - positions[:-1] == 1).all())


def _mapped(keys: Codes, mapping: Codes) -> Codes:
    return np.where(keys == EMPTY, EMPTY, mapping[keys])


def weights_of(weights: Ints, rows: Positions) -> Ints:
    """Return the weights of some rows. For many rows, it is faster to check first whether all weights are one."""
    if 2 * len(rows) >= len(weights) and (weights == 1).all():
        return np.ones(len(rows), np.int64)
    result: Ints = weights[rows]
    return result


def row_order(keys: Codes, codes: IntTable, hashes: Ints) -> tuple[Codes, Codes, Ints]:
    """Return rows by key, first code and hash, those without a key first; their keys, and hashes."""
    order = key_order(keys, codes)
    keys, hashes = keys[order], hashes[order]
    order_ties(keys, codes[0][order] if len(codes) else first_codes(codes), hashes, order)
    return order, keys, hashes


def key_order(keys: Codes, codes: IntTable) -> Codes:
    """Return rows by key and first code, those without a key first."""
    first = first_codes(codes)
    empty = np.flatnonzero(keys == EMPTY).astype(np.int32)
    rows = np.flatnonzero(keys != EMPTY).astype(np.int32) if len(empty) else None
    order = np.empty(len(keys) - len(empty), np.int32)
    sort_rows(keys if rows is None else keys[rows], first if rows is None else first[rows], order)
    return order if rows is None else np.concatenate([empty, rows[order]])


def merged(runs: Sequence[Run], matching: int) -> Run:
    """Return the rows of some sorted runs, at least one, as one run."""
    rows = Delta(*_concatenated([run.rows for run in runs]))
    counts = np.concatenate([run.counts for run in runs], axis=1)
    order = np.empty(len(rows), np.int32)
    starts = np.cumsum([0, *(len(run) for run in runs)])
    order = order[: merge_runs(rows.keys, first_codes(rows.codes), rows.hashes, rows.weights, starts, order)]
    # The batch is sorted too, so that consecutive rows are close in memory.
    return Run(rows.at(order), np.take(counts, order, axis=1), matching)


def _concatenated(parts: Sequence[Delta]) -> tuple[pa.RecordBatch, Ints, Codes, IntTable, Ints]:
    return (
        joined_batches([part.batch for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.codes for part in parts], axis=1),
        np.concatenate([part.hashes for part in parts]),
    )


class RunConcatenator:
    """Concatenates runs with distinct keys, and sorts only if their keys do not ascend.

    Columns of fixed width are copied at once, so that the memory of each run is free for the next one.
    ``without_nulls`` marks columns without nulls; ``lines`` are the numbers of lines of codes and counts.
    """

    def __init__(
        self, rows: int, schema: pa.Schema, without_nulls: Sequence[bool], lines: tuple[int, int], matching: int
    ):
        self._schema = schema
        self._matching = matching
        self._keys = np.empty(rows, np.int32)
        self._weights, self._hashes = np.empty(rows, np.int64), np.empty(rows, np.int64)
        self._codes, self._counts = (np.empty((each, rows), np.int64) for each in lines)
        self._values = [
            np.empty(rows, f"i{field.type.bit_width // 8}") if has_all and _has_width(field.type) else None
            for field, has_all in zip(schema, without_nulls, strict=True)
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
        codes, counts = np.ascontiguousarray(self._codes[:, here]), np.ascontiguousarray(self._counts[:, here])
        rows = Delta(batch, self._weights[here], self._keys[here], codes, self._hashes[here])
        if self._rises:
            return Run(rows, counts, self._matching), np.arange(self._rows)
        order, _, _ = row_order(rows.keys, codes, rows.hashes)
        return Run(rows.at(order), np.take(counts, order, axis=1), self._matching), order.astype(np.int64)


def _has_width(data_type: pa.DataType) -> bool:
    return bool(pat.is_primitive(data_type)) and data_type.bit_width in (8, 16, 32, 64)
