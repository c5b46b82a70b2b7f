"""Merges sorted runs: those on disk in the background, while epochs read and change them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import numpy as np

from juncture.errors import StateError
from juncture.incremental.changes.change_batch import ChangeBatch
from juncture.incremental.changes.identity import RowIdentity
from juncture.incremental.state.blocks import BlockRows
from juncture.incremental.state.stored_run import StoredRun
from juncture.kernels.array_types import Ints, Positions

OrderKey = tuple[int, int, int]
"""Key hash, first code and row hash."""


def mergeable(runs: Sequence[StoredRun], count: int) -> list[StoredRun]:
    """Return the runs to merge: ``count`` of about one size, or one with more deleted than living rows."""
    for run in runs:
        if 2 * run.living_rows < len(run):
            return [run]
    smallest = sorted(runs, key=len)[:count]
    if len(smallest) == count and len(smallest[-1]) <= count * len(smallest[0]):
        return smallest
    return []


@dataclass(frozen=True)
class Piece:
    """Rows in order, with the number of the run of each (or its sign), and its position there."""

    rows: BlockRows
    sources: Ints
    slots: Ints

    def some(self, rows: Positions) -> Piece:
        """Return some of the rows."""
        return Piece(self.rows.some(rows), self.sources[rows], self.slots[rows])


def merged_pieces(streams: Sequence[Iterator[Piece]]) -> Iterator[Piece]:
    """Yield the rows of sorted runs in order, in batches. Batches of runs have at least one row."""
    pieces: dict[int, Piece] = {}
    while True:
        for number, stream in enumerate(streams):
            if number not in pieces:
                piece = next(stream, None)
                if piece is not None:
                    pieces[number] = piece
        if not pieces:
            return
        # All rows up to the least of the last rows of the pieces are in memory.
        edge = min(order_key(piece.rows, len(piece.rows) - 1) for piece in pieces.values())
        parts = []
        for number, piece in list(pieces.items()):
            count = _up_to(piece.rows, edge)
            parts.append(piece.some(np.arange(count)))
            if count == len(piece.rows):
                del pieces[number]
            else:
                pieces[number] = piece.some(np.arange(count, len(piece.rows)))
        yield _in_order(parts)


def _pieces(run: StoredRun, number: int) -> Iterator[Piece]:
    for rows, slots in run.pieces():
        yield Piece(rows, np.full(len(rows), number), slots)


def difference(
    old: Sequence[Iterator[BlockRows]], new: Sequence[Iterator[BlockRows]], identity: RowIdentity
) -> Iterator[ChangeBatch]:
    """Yield the changes from old to new rows, each once, given runs of rows of one key in batches."""
    rest: list[BlockRows] = []
    for piece in merged_pieces([*(_signed(rows, -1) for rows in old), *(_signed(rows, 1) for rows in new)]):
        signed = piece.sources * piece.rows.weights
        rows = BlockRows.joined([*rest, BlockRows(piece.rows.batch, piece.rows.numbers, signed[None])])
        # Rows equal to the last one may follow.
        end = int(np.searchsorted(rows.row_hashes, rows.row_hashes[-1]))
        yield from _summed(rows.some(np.arange(end)), identity)
        rest = [rows.some(np.arange(end, len(rows)))]
    for rows in rest:
        yield from _summed(rows, identity)


def _signed(batches: Iterator[BlockRows], sign: int) -> Iterator[Piece]:
    for rows in batches:
        if len(rows):
            yield Piece(rows, np.full(len(rows), sign), np.arange(len(rows)))


def _summed(rows: BlockRows, identity: RowIdentity) -> Iterator[ChangeBatch]:
    """Yield the sums of equal rows that are not zero."""
    if not len(rows):
        return
    sums = identity.summed(rows.batch, rows.weights, rows.row_hashes[1:] == rows.row_hashes[:-1])
    changed = np.flatnonzero(sums)
    if len(changed):
        yield ChangeBatch(rows.batch, sums).some(changed)


def _codes(rows: BlockRows) -> Ints:
    first: Ints = rows.codes[0] if len(rows.codes) else np.zeros(len(rows), np.int64)
    return first


def order_key(rows: BlockRows, row: int) -> OrderKey:
    """Return the position of a row in the order on disk."""
    return int(rows.hashes[row]), int(_codes(rows)[row]), int(rows.row_hashes[row])


def _up_to(rows: BlockRows, edge: OrderKey) -> int:
    """Return the number of rows up to a position in the order."""
    key, code, row = np.uint64(edge[0]), edge[1], edge[2]
    codes = _codes(rows)
    within = (codes < code) | ((codes == code) & (rows.row_hashes <= row))
    return int(np.count_nonzero((rows.hashes < key) | ((rows.hashes == key) & within)))


def _in_order(parts: list[Piece]) -> Piece:
    joined = Piece(
        BlockRows.joined([part.rows for part in parts]),
        np.concatenate([part.sources for part in parts]),
        np.concatenate([part.slots for part in parts]),
    )
    if len(parts) == 1:
        return joined
    return joined.some(np.lexsort((joined.rows.row_hashes, _codes(joined.rows), joined.rows.hashes)))


class Merge:
    """The merge of some runs, which starts at once. Changes of the runs are tracked from then on."""

    def __init__(self, runs: Sequence[StoredRun], writer: Any) -> None:
        self.runs = list(runs)
        self.writer = writer
        self._targets = [np.full(len(run), -1, np.int32) for run in runs]
        self._snapshots = [run.snapshot() for run in runs]
        self._stopped = Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._work, name="juncture-merge", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the new run is written."""
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            written = 0
            for piece in merged_pieces([_pieces(run, number) for number, run in enumerate(self._snapshots)]):
                if self._stopped.is_set():
                    return
                living = piece.some(np.flatnonzero(piece.rows.weights))
                for number, target in enumerate(self._targets):
                    here = np.flatnonzero(living.sources == number)
                    target[living.slots[here]] = here + written
                self.writer.add(living.rows)
                written += len(living.rows)
        except Exception as error:  # Raised by `result`.
            self._error = error

    def result(self) -> Any:
        """Return the writer of the new run after the merge; raises an error if it failed."""
        self._thread.join()
        if self._error is not None:
            raise StateError(
                f"Runs on disk cannot be merged: {self._error}. Check the free disk space, and open the state again.",
                name="JN-STATE-WRITE",
            ) from self._error
        return self.writer

    def carry_over(self, run: StoredRun) -> None:
        """Apply the changes of the old runs since the merge started to the new one."""
        for source, target in zip(self.runs, self._targets, strict=True):
            slots = source.changed_slots()
            slots = slots[target[slots] >= 0]
            if len(slots):
                state = source.state_of(slots)
                run.change(target[slots].astype(np.int64), state)

    def stop(self) -> None:
        """Cancel the merge."""
        self._stopped.set()
        self._thread.join()
