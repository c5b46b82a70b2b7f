"""Some rows of a side with their weights, sorted so that matches are found in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, concatenated, joined_batches, raw_values, rows_of
from juncture.columnar.row_memory import RowMemory
from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.equal_rows import find_alike, order_ties
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.row_order import sort_rows
from juncture.kernels.symmetric import UNLIMITED, reach_of
from juncture.streams.state.keyed import grouped, matches
from juncture.streams.state.segment import first_codes

Table = npt.NDArray[np.int64]

_LEAST = -(2**63)

_OF_WHOLE = 8
"""Part of the rows of a run of which a slice may keep the memory of the run."""


class Run:
    """Rows in the order of key, first code and hash; those that can match nothing come first."""

    is_fetched = False
    """Whether the rows are held elsewhere, and here for one epoch."""

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
        self._matching = matching
        self.groups, self.starts = grouped(keys, codes)
        self._greatest = codes[0].max(initial=_LEAST) if matching else 0
        self._reach = reach_of(codes) if matching > 1 else UNLIMITED

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def nbytes(self) -> int:
        """How much memory the rows take."""
        arrays = (self.keys, self.codes, self.weights, self.hashes, self.counts, self.groups, self.starts)
        return int(self.batch.nbytes) + sum(array.nbytes for array in arrays)

    @cached_property
    def memory(self) -> RowMemory:
        """Where the rows lie."""
        return RowMemory.of(self.batch)

    @property
    def living_rows(self) -> int:
        """How many distinct rows are there."""
        return int(np.count_nonzero(self.weights))

    def alike(self, keys: Codes, codes: Table, hashes: Ints, remaining: Ints) -> tuple[Ints, Ints]:
        """Return pairs of rows, of which something remains, and of positions that have their key, first code and hash.

        Their keys ascend.
        """
        held = self.groups, self.starts, self.codes, self.hashes, self.weights
        room = len(keys)
        while True:
            rows, positions = np.empty(room, np.int64), np.empty(room, np.int64)
            count = find_alike(keys, codes, hashes, remaining, *held, rows, positions)
            if count <= room:
                return rows[:count], positions[:count]
            room = count

    def find(self, keys: Codes, codes: Table) -> Iterator[tuple[Codes, Codes]]:
        """Yield the pairs of rows and positions that match, some at a time."""
        if self._matching and len(keys) and self._greatest < ~codes[0].max():
            return
        held = keys, codes, self._matching, self.groups, self.starts, self.codes, self._reach
        for rows, positions in matches(*held):
            living = weights_of(self.weights, positions) > 0
            yield (rows, positions) if living.all() else (rows[living], positions[living])

    def taken(self, positions: npt.NDArray[np.signedinteger]) -> pa.RecordBatch:
        """Return the rows at some positions; as they lie here, if they are many that follow each other."""
        if len(positions) * _OF_WHOLE >= len(self) and _follow(positions):
            return self.batch.slice(int(positions[0]), len(positions))
        return rows_of(self.batch, array_of(positions, pa.int32() if positions.dtype == np.int32 else pa.int64()))

    def rekeyed(self, mapping: Codes) -> None:
        """Take other codes for keys, in the same order."""
        self.keys, self.groups = _mapped(self.keys, mapping), _mapped(self.groups, mapping)


def _follow(positions: npt.NDArray[np.signedinteger]) -> bool:
    """Tell whether there are positions, each the next one."""
    ends = positions[[0, -1]] if len(positions) else np.zeros(2, np.int64)
    return len(positions) == int(ends[1] - ends[0]) + 1 and bool((positions[1:] - positions[:-1] == 1).all())


def _mapped(keys: Codes, mapping: Codes) -> Codes:
    return np.where(keys == EMPTY, EMPTY, mapping[keys])


def weights_of(weights: Ints, rows: npt.NDArray[np.signedinteger]) -> Ints:
    """Return the weights of some rows; of most of them, it takes less to see first whether all are one."""
    if 2 * len(rows) >= len(weights) and (weights == 1).all():
        return np.ones(len(rows), np.int64)
    found: Ints = weights[rows]
    return found


def row_order(keys: Codes, codes: Table, hashes: Ints) -> tuple[Codes, Codes, Ints]:
    """Return rows in the order of keys, first codes and hashes, those without a key first; their keys, and hashes."""
    order = key_order(keys, codes)
    keys, hashes = keys[order], hashes[order]
    order_ties(keys, codes[0][order] if len(codes) else first_codes(codes), hashes, order)
    return order, keys, hashes


def key_order(keys: Codes, codes: Table) -> Codes:
    """Return rows in the order of keys and first codes; those without a key come first."""
    first = first_codes(codes)
    empty = np.flatnonzero(keys == EMPTY).astype(np.int32)
    rows = np.flatnonzero(keys != EMPTY).astype(np.int32) if len(empty) else None
    order = np.empty(len(keys) - len(empty), np.int32)
    sort_rows(keys if rows is None else keys[rows], first if rows is None else first[rows], order)
    return order if rows is None else np.concatenate([empty, rows[order]])


def merged(runs: Sequence[Run], matching: int) -> Run:
    """Return the rows of some runs, of which there is at least one, as one."""
    batch = joined_batches([run.batch for run in runs])
    weights = np.concatenate([run.weights for run in runs])
    keys, hashes = (np.concatenate(each) for each in zip(*((run.keys, run.hashes) for run in runs), strict=True))
    codes, counts = (
        np.concatenate(each, axis=1) for each in zip(*((run.codes, run.counts) for run in runs), strict=True)
    )
    living = np.flatnonzero(weights).astype(np.int32)
    order, keys, hashes = row_order(keys[living], np.take(codes, living, axis=1), hashes[living])
    there = living[order]
    # Rows that lie in their order are near each other when they are taken.
    return Run(
        rows_of(batch, array_of(there, pa.int32())),
        keys,
        np.take(codes, there, axis=1),
        weights[there],
        hashes,
        np.take(counts, there, axis=1),
        matching,
    )


class EndToEnd:
    """Makes one run of runs of which none has a key of another: where their keys rise, they just follow each other.

    What has a fixed width is copied at once to where it goes, so that the memory of each run is free for the next one.
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

    def run(self) -> Run | None:
        """Return all rows, or None if there are none."""
        if not self._rows:
            return None
        here = slice(self._rows)
        columns = [
            concatenated(pieces) if values is None else array_of(values[here], field.type)
            for field, values, pieces in zip(self._schema, self._values, self._pieces, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        lines = np.ascontiguousarray(self._codes[:, here]), np.ascontiguousarray(self._counts[:, here])
        found = Run(
            batch, self._keys[here], lines[0], self._weights[here], self._hashes[here], lines[1], self._matching
        )
        return found if self._rises else merged([found], self._matching)


def _has_width(data_type: pa.DataType) -> bool:
    return bool(pat.is_primitive(data_type)) and data_type.bit_width in (8, 16, 32, 64)
