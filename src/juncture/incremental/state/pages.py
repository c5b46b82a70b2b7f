"""The rows of a side on disk, and those that an epoch has fetched.

An epoch fetches the rows that it needs: each once, as a run in memory, which is searched and changed like any other.
After the epoch, changes of its rows are written back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa

from juncture.incremental.state.blocks import BlockRows
from juncture.incremental.state.run import Delta, DiskCopy, Run, row_order
from juncture.incremental.state.stored_run import LookupRanges, StoredRun
from juncture.kernels.array_types import Codes, Ints, IntTable, Mask, Words
from juncture.kernels.equal_rows import blocks_before, mark_rows
from juncture.kernels.next_row import nth_neighbours
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE

_BLOCKS_AT_ONCE = 256

_KEPT_ROWS = 1 << 19  # rows of one lookup in a run on disk that an epoch keeps at most, if it does not change them


class PageKeys(Protocol):
    """The keys of rows on disk."""

    def hashes(self, keys: Codes, /) -> Words:
        """Return the hashes of key codes, stable while rows exist; zero for `EMPTY`."""

    def forget(self) -> None:
        """Release the codes that no row in memory has, if they may be the majority."""


class Pages:
    """The rows of a side on disk. ``keys_of`` returns the key codes of rows."""

    def __init__(
        self, stored: list[StoredRun], keys: PageKeys, keys_of: Callable[[pa.RecordBatch], Codes], matching: int
    ) -> None:
        self.stored = stored
        self.fetched: list[Run] = []
        self.is_used = False  # whether rows were fetched
        self._keys = keys
        self._keys_of = keys_of
        self._matching = matching
        # For each run on disk, which of its rows were fetched. Zeros take no memory until they are used.
        self._is_fetched: dict[int, Mask] = {}

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(len(run) for run in self.stored)

    @property
    def nbytes(self) -> int:
        """Memory of indexes, changes and fetched rows."""
        return sum(run.nbytes for run in self.stored) + sum(run.nbytes for run in self.fetched)

    def fetch_matches(self, keys: Codes, codes: IntTable) -> None:
        """Fetch all rows that rows of the other side, which all have a key, may match."""
        self._fetch(self._matches(keys, codes))

    def pass_matches(self, keys: Codes, codes: IntTable) -> Iterator[Run]:
        """Fetch what `fetch_matches` does, but return many rows as runs that are not kept, beside the fetched ones."""
        ranges, many = self._matches(keys, codes), []
        hashes = np.unique(ranges.hashes)
        for stored in self.stored:
            blocks = stored.blocks_of(ranges)
            if int(stored.index.sizes[blocks].sum()) > _KEPT_ROWS:
                step = max(1, _KEPT_ROWS // int(stored.index.sizes.max()))
                # Rows that are fetched while these are read must still be passed.
                is_fetched = None if id(stored) not in self._is_fetched else self._is_fetched[id(stored)].copy()
                many += [(stored, blocks[at : at + step], hashes, is_fetched) for at in range(0, len(blocks), step)]
            elif len(blocks):
                self._take_in(stored, blocks, hashes)
        return (run for each in many for run, _ in self._read(*each))

    def _matches(self, keys: Codes, codes: IntTable) -> LookupRanges:
        hashes, count, lines = self._keys.hashes(keys), len(keys), self._matching
        ends = np.full(count, MIN_CODE), np.full(count, MAX_CODE)
        low = ~codes[0] if lines else ends[0]
        second = np.ascontiguousarray(codes[1]) if lines > 1 else None
        return LookupRanges(hashes, low, ends[1], *ends, ~codes[1:lines], second)

    def fetch_equal(self, keys: Codes, codes: IntTable, row_hashes: Ints) -> None:
        """Fetch all rows that may be equal to given ones."""
        first = codes[0] if len(codes) else np.zeros(len(keys), np.int64)
        none = np.zeros((0, len(keys)), np.int64)
        self._fetch(LookupRanges(self._keys.hashes(keys), first, first, row_hashes, row_hashes, none))

    def fetch_between(self, keys: Codes, low: Ints, high: Ints) -> None:
        """Fetch the rows of each key with first codes between two inclusive limits."""
        self._fetch(LookupRanges.between(self._keys.hashes(keys), low, high))

    def neighbours(self, keys: Codes, codes: Ints, nth: int, nearest: Ints, *, forward: bool) -> None:
        """Fetch rows until the nth neighbour of each code is among them: `nth_neighbours`."""
        hashes = self._keys.hashes(keys)
        for run in self.fetched:
            _search_run(run, keys, codes, nth, nearest, forward=forward)
        for stored in self.stored:
            blocks = _neighbour_blocks(stored, hashes, codes, forward=forward)
            rows = np.flatnonzero(blocks >= 0)
            while len(rows):
                new = self._take_in(stored, np.unique(blocks[rows]), np.unique(hashes[rows]))
                if new is not None:
                    _search_run(new, keys, codes, nth, nearest, forward=forward)
                blocks += 1 if forward else -1
                rows = rows[_may_be_nearer(stored, blocks[rows], hashes[rows], nearest[rows], forward=forward)]

    def write_back(self) -> None:
        """Record what an epoch has changed in fetched rows, and release them."""
        for run in self.fetched:
            run.update_disk_copy()
        self.drop()

    def drop(self) -> None:
        """Release fetched rows."""
        self.fetched = []
        self._is_fetched = {}

    def in_order(self) -> list[Iterator[BlockRows]]:
        """Return the rows with a weight of each run, in batches."""
        return [(rows.living() for rows, _ in stored.pieces()) for stored in self.stored]

    def evict(self, is_final: Callable[[pa.RecordBatch], Mask]) -> list[IntTable]:
        """Remove final rows, and return their counts. Merges release their space on disk."""
        counts = []
        for stored in self.stored:
            slots, states = [], []
            for rows, at in stored.pieces():
                here = np.flatnonzero(is_final(rows.batch) & (rows.weights != 0))
                slots.append(at[here])
                states.append(np.take(rows.state, here, axis=1))
            evicted = np.concatenate(slots)
            if len(evicted):
                state = np.concatenate(states, axis=1)
                counts.append(state[1:].copy())
                state[0] = 0
                stored.change(evicted, state)
        return counts

    def living(self) -> Iterator[BlockRows]:
        """Yield the rows with a weight, in batches."""
        yield from chain.from_iterable(self.in_order())

    def _fetch(self, ranges: LookupRanges) -> None:
        if not len(ranges.hashes):
            return
        hashes = np.unique(ranges.hashes)
        for stored in self.stored:
            blocks = stored.blocks_of(ranges)
            if len(blocks):
                self._take_in(stored, blocks, hashes)

    def _take_in(self, stored: StoredRun, blocks: Ints, hashes: Words) -> Run | None:
        """Fetch rows with some key hashes, ascending, from some blocks; return those that were not fetched yet."""
        self.is_used = True
        for run, slots in self._read(stored, blocks, hashes, self._is_fetched.get(id(stored))):
            if id(stored) not in self._is_fetched:
                self._is_fetched[id(stored)] = np.zeros(len(stored), np.bool_)
            self._is_fetched[id(stored)][slots] = True
            run.is_fetched = True
            self.fetched.append(run)
            return run
        return None

    def _read(
        self, stored: StoredRun, blocks: Ints, hashes: Words, is_fetched: Mask | None
    ) -> Iterator[tuple[Run, Ints]]:
        """Yield the living rows with some key hashes as one run, and their slots, if any are not known."""
        parts, slots_of_parts = [], []
        for first in range(0, len(blocks), _BLOCKS_AT_ONCE):
            rows, slots = stored.read(blocks[first : first + _BLOCKS_AT_ONCE])
            chosen = np.empty(len(rows), np.uint8)
            mark_rows(rows.hashes, hashes, chosen)
            wanted = chosen.view(np.bool_) & (rows.weights > 0)
            if is_fetched is not None:
                wanted &= ~is_fetched[slots]
            here = np.flatnonzero(wanted)
            if len(here):
                parts.append(rows if len(here) == len(rows) else rows.some(here))
                slots_of_parts.append(slots[here])
        if parts:
            some, taken = BlockRows.joined(parts), np.concatenate(slots_of_parts)
            parts.clear()
            yield run_of(some, self._keys_of(some.batch), self._matching, stored, taken), taken


def run_of(
    rows: BlockRows, keys: Codes, matching: int, stored: StoredRun | None = None, slots: Ints | None = None
) -> Run:
    """Return rows from disk as a run in memory. With ``slots``, it updates its copy in ``stored``."""
    if not _ascend(keys, rows):
        order, keys, _ = row_order(keys, rows.codes, rows.row_hashes)
        rows, slots = rows.some(order), None if slots is None else slots[order]
    # Copies, because the hashes of keys beside these numbers are not needed.
    delta = Delta(rows.batch, rows.weights, keys, rows.codes.copy(), rows.row_hashes.copy())
    run = Run(delta, rows.counts, matching)
    if stored is not None and slots is not None:
        run.disk_copy = DiskCopy(stored, slots.astype(np.int32), np.zeros(len(slots), np.bool_))
    return run


def _ascend(keys: Codes, rows: BlockRows) -> bool:
    """Return whether rows are known to be in the order of runs in memory, such as those of a single key."""
    hashes, later = rows.row_hashes, keys[1:] > keys[:-1]
    return not len(rows.codes) and bool((later | (keys[1:] == keys[:-1]) & (hashes[1:] >= hashes[:-1])).all())


def loose_pieces(run: Run, batch_rows: int) -> Iterator[BlockRows]:
    """Yield the living rows of a run in memory, unsorted, in batches."""
    none = np.zeros((0, len(run)), np.int64)
    for first in range(0, len(run), batch_rows):
        here = slice(first, first + batch_rows)
        state = np.concatenate([run.weights[here][None], run.counts[:, here]])
        yield BlockRows(run.batch.slice(first, batch_rows), none[:, here], state).living()


def sorted_pieces(run: Run, hashes: Words, batch_rows: int) -> tuple[Ints, Iterator[BlockRows]]:
    """Return the living rows of a run in the order on disk, by ``hashes`` of its groups: positions, and batches."""
    order = _stored_order(run, hashes)
    order = order[run.weights[order] != 0]
    by_row = np.repeat(hashes, np.diff(run.starts))

    def pieces() -> Iterator[BlockRows]:
        for first in range(0, len(order), batch_rows):
            here = order[first : first + batch_rows]
            numbers = [by_row[here].view(np.int64)[None], run.hashes[here][None], np.take(run.codes, here, axis=1)]
            state = [run.weights[here][None], np.take(run.counts, here, axis=1)]
            yield BlockRows(run.taken(here), np.concatenate(numbers), np.concatenate(state))

    return order, pieces()


def _stored_order(run: Run, hashes: Words) -> Ints:
    """Return the rows of a run in the order on disk, given the hash of each of its keys."""
    rank = np.argsort(hashes, kind="stable")
    ranked = hashes[rank]
    sizes = np.diff(run.starts)[rank]
    if len(ranked) > 1 and (ranked[1:] == ranked[:-1]).any():
        # Rows of different keys with the same hash are interleaved.
        by_code = (run.codes[0],) if len(run.codes) else ()
        return np.lexsort((run.hashes, *by_code, np.repeat(hashes, np.diff(run.starts))))
    return np.repeat(run.starts[:-1][rank] - np.cumsum(sizes) + sizes, sizes) + np.arange(len(run))


def _search_run(run: Run, keys: Codes, codes: Ints, nth: int, nearest: Ints, *, forward: bool) -> None:
    run_codes = np.ascontiguousarray(run.codes[0])
    nth_neighbours(keys, codes, run.groups, run.starts, run_codes, run.weights, nth, forward, nearest)


def _neighbour_blocks(stored: StoredRun, hashes: Words, codes: Ints, *, forward: bool) -> Ints:
    """Return the block from which to search for rows from some codes on; -1 for none."""
    # Rows before the first one of a block, or equal to it, are in the block before.
    edge = np.full(len(hashes), MIN_CODE if forward else MAX_CODE)
    first_blocks = _blocks_before(stored, hashes, codes, edge)
    return np.maximum(first_blocks, 0) if forward else first_blocks


def _blocks_before(stored: StoredRun, hashes: Words, codes: Ints, rows: Ints) -> Ints:
    index = stored.index
    blocks = np.empty(len(hashes), np.int64)
    blocks_before(hashes, codes, rows, index.hashes, index.firsts[2], index.firsts[1], blocks)
    return blocks


def _may_be_nearer(stored: StoredRun, blocks: Ints, hashes: Words, nearest: Ints, *, forward: bool) -> Mask:
    """Return whether blocks may have rows nearer than those that were found."""
    index = stored.index
    inside = (blocks >= 0) & (blocks < len(index))
    # In a backward search, the first row of the next block bounds the last rows of a block.
    edges = np.where(inside, blocks, 0) + (0 if forward else 1)
    edges = np.minimum(edges, len(index) - 1)
    codes = index.firsts[2][edges]
    nearer: Mask = inside & (index.hashes[edges] == hashes) & (codes < nearest if forward else codes > nearest)
    return nearer
