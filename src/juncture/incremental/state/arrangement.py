"""The current rows of a side in sorted runs, which are searched for matches and equal rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.incremental.changes.change_batch import ChangeBatch
from juncture.incremental.changes.identity import RowIdentity
from juncture.incremental.state.blocks import BlockRows
from juncture.incremental.state.pages import Pages, loose_pieces, sorted_pieces
from juncture.incremental.state.run import Delta, Run, matches_in, merged
from juncture.kernels.array_types import Codes, Ints, IntTable, Mask, Positions
from juncture.kernels.equal_rows import share_equal
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.next_row import nth_neighbours
from juncture.spec.schema import Side

_ROWS_AT_ONCE = 1 << 14  # number of rows that are read at once when the states of all rows are read

_OF_ONE_SIZE = 8  # this many runs of about one size are merged, so each row is copied a logarithmic number of times
_SMALL_MERGE = 1 << 17  # up to this number of rows, runs are merged even if they are rarely searched
_SEARCH_OF_RUN = 64  # a search of a run takes as long as a merge needs to copy this number of rows,
_ROWS_OF_SEARCH = 4  # and one more for this many rows that are searched for


def interval_codes(codes: Ints) -> IntTable:
    """Return code lines by which rows between two limits are found."""
    return np.stack([codes, ~codes])


@dataclass(frozen=True)
class Slots:
    """Where rows of a delta are stored: positions in a run, rows of the delta, and the changes of their weights."""

    run: Run
    positions: Positions
    rows: Positions
    weights: Ints


Deltas = Mapping[Side, tuple[Delta, list[Slots]]]
"""The delta of each side of a join, and where its rows are stored."""


class Journal:
    """Undo log of an epoch."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def add(self, undo: Callable[[], None]) -> None:
        """Record the undo of a change."""
        self._undo.append(undo)

    def change(self, values: Ints, indices: Positions, by: Ints) -> None:
        """Add to some values of an array, at distinct indices."""
        before = values[indices]
        # The undo comes first, so that an interrupt in between is undone too.
        self._undo.append(lambda: values.__setitem__(indices, before))
        values[indices] = before + by

    def undo(self) -> None:
        """Undo all changes, the last one first."""
        while self._undo:
            self._undo.pop()()


class Arrangement:
    """The current rows of a side. ``matching`` is the number of code lines that find matches, ``lines`` that of counts.

    With ``unique``, equal rows are stored in one slot.
    """

    def __init__(
        self, schema: pa.Schema, identity: RowIdentity, matching: int, lines: int = 0, *, unique: bool = False
    ) -> None:
        self.schema = schema
        self.memory: list[Run] = []
        self.pages: Pages | None = None
        self.identity = identity
        self.lines = lines
        self.matching = matching
        self._unique = unique
        self._removed = 0
        self._search_cost = 0  # cost of searches since the last large merge, in rows that a merge copies
        self.evicted_to = 0  # number of rows after the last eviction
        self.rows_least = 1 << 10  # up to this number of rows, final rows are not removed

    @property
    def rows(self) -> int:
        """Number of distinct rows, or a few more."""
        return sum(len(run) for run in self.memory) + (0 if self.pages is None else self.pages.rows)

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return sum(run.nbytes for run in self.memory) + (0 if self.pages is None else self.pages.nbytes)

    @property
    def runs(self) -> list[Run]:
        """The runs in memory: all rows, or those that are not on disk and the fetched ones."""
        return self.memory if self.pages is None else [*self.memory, *self.pages.fetched]

    def count_search(self, rows: int) -> None:
        """Count a search of the runs in memory for some rows, which a merge makes cheaper."""
        self._search_cost += max(0, len(self.memory) - 1) * (_SEARCH_OF_RUN + rows // _ROWS_OF_SEARCH)

    def matching_rows(self, delta: Delta) -> Iterator[tuple[Run, Codes, Codes]]:
        """Yield the rows that those of the other side match, as `Delta.find` does."""
        if self.pages is not None:
            first = delta.first
            self.pages.fetch_matches(delta.keys[first:], np.ascontiguousarray(delta.codes[:, first:]))
        self.count_search(len(delta))
        return delta.find(self.runs)

    def between(self, keys: Codes, low: Ints, high: Ints) -> Iterator[tuple[Run, Codes, Codes]]:
        """Yield rows of ascending keys between inclusive code limits: run, numbers of limits, positions in the run."""
        if self.pages is not None:
            self.pages.fetch_between(keys, low, high)
        self.count_search(len(keys))
        yield from matches_in(self.runs, keys, np.stack([~low, high]))

    def neighbours(self, keys: Codes, codes: Ints, nth: int, nearest: Ints, *, forward: bool) -> None:
        """Find the code of the nth row of each key from some codes on, or a nearer one: `nth_neighbours`."""
        self.count_search(len(keys))
        for run in self.memory:
            run_codes = np.ascontiguousarray(run.codes[0])
            nth_neighbours(keys, codes, run.groups, run.starts, run_codes, run.weights, nth, forward, nearest)
        if self.pages is not None:
            self.pages.neighbours(keys, codes, nth, nearest, forward=forward)

    def locate(self, delta: Delta) -> tuple[Delta, list[Slots], Ints]:
        """Return the delta without unmatched deletes, the stored rows that it changes, and unmatched deletes by row."""
        if not len(delta):
            return delta, [], delta.weights
        if not self.rows and (delta.weights > 0).all():
            return delta, [], np.zeros_like(delta.weights)
        wanted = np.abs(delta.weights) if self._unique else np.maximum(-delta.weights, 0)
        remaining = wanted.copy()
        slots: list[Slots] = []
        if self.pages is not None:
            rows = np.flatnonzero(remaining)
            codes = np.take(delta.codes, rows, axis=1)
            self.pages.fetch_equal(delta.keys[rows], codes, delta.hashes[rows])
        if remaining.any():
            self.count_search(len(delta))
        # The rows that were fetched last are probably those of this delta.
        for run in [*self.memory, *([] if self.pages is None else reversed(self.pages.fetched))]:
            if not remaining.any():
                break
            slots += self._slots(run, delta, remaining)
        missing = np.where(delta.weights < 0, remaining, 0)
        if not missing.any():
            return delta, slots, missing
        possible = replace(delta, weights=delta.weights + missing)
        nonzero = np.flatnonzero(possible.weights)
        number = np.full(len(delta), -1)
        number[nonzero] = np.arange(len(nonzero))
        return possible.some(nonzero), [replace(each, rows=number[each.rows]) for each in slots], missing

    def _slots(self, run: Run, delta: Delta, remaining: Ints) -> list[Slots]:
        """Return where a run has rows of a delta, and subtract them from ``remaining``."""
        rows, positions = run.alike(delta.keys, delta.codes, delta.hashes, remaining)
        if not len(rows):
            return []
        same = self.identity.same_at(delta.memory, rows, run.memory, positions)
        changes = np.empty(len(rows), np.int64)
        count = share_equal(rows, positions, same.view(np.uint8), delta.weights, run.weights, remaining, changes)
        return [Slots(run, positions[:count], rows[:count], changes[:count])] if count else []

    def change(self, delta: Delta, slots: Sequence[Slots], counts: IntTable, journal: Journal) -> None:
        """Apply what `locate` returned. ``counts`` are those of new rows."""
        fresh = delta.weights > 0
        for each in slots:
            each.run.mark_changed(each.positions)
            journal.change(each.run.weights, each.positions, each.weights)
            self._removed += 0 if each.run.is_fetched else len(each.positions)
            fresh[each.rows] = False
        new = np.flatnonzero(fresh)
        if not len(new):
            return
        added = delta.some(new)
        lines = np.take(counts, new, axis=1)
        before = self.memory
        journal.add(lambda: setattr(self, "memory", before))
        run = Run(replace(added, weights=added.weights.copy()), lines, self.matching)
        self.memory = [*before, run]

    def add(self, run: Run) -> None:
        """Add new rows."""
        self.memory = [*self.memory, run]

    def set_state(self, run: Run, positions: Positions, weights: Ints, counts: IntTable) -> None:
        """Set the weights and counts of some living rows of a run."""
        run.mark_changed(positions)
        run.weights[positions], run.counts[:, positions] = weights, counts
        self._removed += 0 if run.is_fetched else int(np.count_nonzero(weights == 0))

    def compact(self) -> None:
        """Merge runs of about one size, and runs that may have more deleted than living rows.

        A large merge waits until searches of several runs have cost as much, so rows that are never searched for, such
        as an answer that only grows, are copied once.
        """
        runs = self.memory
        if self._removed and 2 * self._removed >= sum(len(run) for run in runs):
            self._removed = 0
            runs = [run if run.weights.all() else merged([run], self.matching) for run in runs if run.weights.any()]
        while len(runs) >= _OF_ONE_SIZE:
            last = runs[-_OF_ONE_SIZE:]
            # A run that was merged once more than the others is not of their size.
            if any(2 * len(run) > _OF_ONE_SIZE * len(last[-1]) for run in last):
                break
            rows = sum(len(run) for run in last)
            if rows > _SMALL_MERGE:
                if self._search_cost < rows:
                    break
                self._search_cost -= rows
            try:
                runs = [*runs[:-_OF_ONE_SIZE], merged(last, self.matching)]
            except pa.ArrowException:
                # The rows do not fit one array of a column's type.
                break
        self.memory = runs

    @property
    def may_evict(self) -> bool:
        """Whether the rows have doubled since the last eviction, so that each row is read a limited number of times."""
        return self._rows_now() > 2 * self.evicted_to + self.rows_least

    def _rows_now(self) -> int:
        on_disk = 0 if self.pages is None else sum(run.living_rows for run in self.pages.stored)
        return sum(len(run) for run in self.memory) - self._removed + on_disk

    def evict(self, is_final: Callable[[pa.RecordBatch], Mask]) -> IntTable:
        """Remove final rows between two epochs, and return their counts."""
        counts = [np.zeros((self.lines, 0), np.int64)]
        for run in self.memory:
            rows = np.flatnonzero(is_final(run.batch) & (run.weights != 0))
            if len(rows):
                counts.append(np.take(run.counts, rows, axis=1))
                self.set_state(run, rows, np.zeros(len(rows), np.int64), counts[-1])
        self.compact()
        if self.pages is not None:
            counts += self.pages.evict(is_final)
            # What was read to find final rows.
            self.pages.drop()
        self.evicted_to = self._rows_now()
        return np.concatenate(counts, axis=1)

    def living(self) -> Iterator[ChangeBatch]:
        """Yield the rows with their positive weights."""
        for run in self.memory:
            here = np.flatnonzero(run.weights)
            if len(here):
                yield ChangeBatch(run.batch if len(here) == len(run) else run.taken(here), run.weights[here])
        for rows in [] if self.pages is None else self.pages.living():
            if len(rows):
                yield ChangeBatch(rows.batch, rows.weights)

    def in_order(self) -> list[Iterator[BlockRows]]:
        """Return the rows of each run in batches, by row hash, if there is at most one key and no order."""
        runs = [sorted_pieces(run, np.zeros(len(run.groups), np.uint64), _ROWS_AT_ONCE)[1] for run in self.memory]
        return runs if self.pages is None else [*runs, *(self.pages.in_order())]

    def states(self) -> Iterator[BlockRows]:
        """Yield the rows in batches, with their weights and counts."""
        for run in self.memory:
            yield from loose_pieces(run, _ROWS_AT_ONCE)
        if self.pages is not None:
            yield from self.pages.living()

    @property
    def keyed_rows(self) -> int:
        """Number of rows in memory, which have key codes."""
        return sum(len(run) for run in self.memory)

    def keys(self, count: int) -> Mask:
        """Return a mask of the first ``count`` key codes that a row in memory has."""
        used = np.zeros(count, np.bool_)
        for run in self.memory:
            used[run.groups[run.groups != EMPTY]] = True
        return used

    def rekey(self, mapping: Codes) -> None:
        """Map key codes to new ones."""
        for run in self.memory:
            run.rekeyed(mapping)
