"""A run of rows on disk: which blocks to read, a cache of blocks, and changes that are not on disk yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import joined_pieces
from juncture.incremental.state.blocks import NUMBERS, BlockRows, Index, pack_states, unpack_block, unpack_states
from juncture.incremental.state.policy import ROW_BYTES
from juncture.kernels.array_types import Ints, IntTable, Mask, Words
from juncture.kernels.equal_rows import mark_blocks
from juncture.kernels.symmetric import UNLIMITED
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store


_ROWS_AT_ONCE = 1 << 14  # approximate number of rows that are read at once when all are read

_BLOCKS_OF_SAMPLE = 16  # blocks that are read to estimate the number of keys

_BYTES_A_STATE = 120  # memory of a changed state besides its bytes


@dataclass(frozen=True)
class LookupRanges:
    """Ranges of rows to look up."""

    hashes: Words  # of keys
    low: Ints  # the least first code
    high: Ints  # the greatest first code
    low_rows: Ints  # the least row hash at the least first code
    high_rows: Ints  # the greatest row hash at the greatest one
    others: IntTable  # for each code line but the first, the least code
    second: Ints | None = None  # complement of the least second code, by which a run's reach bounds the first code

    @classmethod
    def between(cls, hashes: Words, low: Ints, high: Ints) -> LookupRanges:
        """Return the ranges between two inclusive first codes."""
        count = len(hashes)
        here = np.flatnonzero(low <= high)
        none = np.zeros((0, len(here)), np.int64)
        ends = np.full(count, MIN_CODE)[here], np.full(count, MAX_CODE)[here]
        return cls(hashes[here], low[here], high[here], *ends, none)


Convert = Callable[[IntTable], IntTable]
"""Converts states of rows, with the weight in the first line, that were written with fewer lines than now."""


class BlockCache:
    """An LRU cache of blocks with limited memory."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._cached: OrderedDict[tuple[int, int], tuple[IntTable, pa.RecordBatch, int]] = OrderedDict()
        self.nbytes = 0

    def get(self, run: int, block: int) -> tuple[IntTable, pa.RecordBatch] | None:
        """Return a block if it is in the cache."""
        entry = self._cached.get((run, block))
        if entry is None:
            return None
        self._cached.move_to_end((run, block))
        return entry[0], entry[1]

    def put(self, run: int, block: int, numbers: IntTable, batch: pa.RecordBatch, size: int) -> None:
        """Add a block of ``size`` bytes, and evict the least recently used ones."""
        self._cached[run, block] = numbers, batch, size
        self.nbytes += size
        while self.nbytes > self._most_bytes:
            _, (_, _, freed) = self._cached.popitem(last=False)
            self.nbytes -= freed

    def clear(self) -> None:
        """Remove all blocks."""
        self._cached.clear()
        self.nbytes = 0


class StoredRun:
    """Rows on disk. ``lines`` are the numbers of lines of codes and counts. ``living_rows`` is None if all rows are.

    ``has_state`` marks blocks with a state on disk; in the others, each weight is 1 and each count 0. ``convert``
    converts states that were written with fewer lines.
    """

    def __init__(
        self,
        index: Index,
        schema: pa.Schema,
        lines: tuple[int, int],
        has_state: Mask,
        store: Store,
        cache: BlockCache,
        living_rows: int | None = None,
        convert: Convert | None = None,
    ) -> None:
        self.index = index
        self.has_state = has_state
        self.convert = convert
        self.changed: dict[int, bytes] = {}
        self.living_rows = index.rows if living_rows is None else living_rows
        self.changed_bytes = 0  # memory of changes that are not on disk yet
        self._changed_slots: list[Ints] | None = None
        self._schema = schema
        self._lines = lines
        self._numbers = NUMBERS + lines[0] if index.is_sorted else 0
        self._store = store
        self._cache = cache
        self._starts = np.concatenate([[0], np.cumsum(index.sizes)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def nbytes(self) -> int:
        """Memory of the index and of changes."""
        return self.index.nbytes + self._starts.nbytes + self.changed_bytes

    @cached_property
    def memory_bytes(self) -> int:
        """Approximate memory of all rows, from those of the first block."""
        rows, _ = self.read(np.zeros(1, np.int64))
        return int(len(self) * (rows.batch.nbytes / len(rows) + ROW_BYTES + rows.state.nbytes / len(rows)))

    def blocks_of(self, ranges: LookupRanges) -> Ints:
        """Return the blocks that may have rows in the ranges."""
        high = ranges.high
        if ranges.second is not None and self.index.reach != UNLIMITED:
            near = ranges.second <= MAX_CODE - self.index.reach
            high = np.where(near, np.minimum(high, np.where(near, ranges.second, 0) + self.index.reach), high)
        needed = np.zeros(len(self.index), np.uint8)
        mark_blocks(
            ranges.hashes,
            ranges.low,
            ranges.low_rows,
            np.ascontiguousarray(high),
            ranges.high_rows,
            ranges.others,
            self.index.hashes,
            self.index.firsts[2],
            self.index.firsts[1],
            self.index.most[: len(ranges.others)],
            needed,
        )
        return np.flatnonzero(needed)

    def read(self, blocks: Ints) -> tuple[BlockRows, Ints]:
        """Return the rows of some blocks, at least one, ascending, and their positions in the run."""
        chosen = [int(block) for block in blocks]
        contents = self._contents(chosen)
        states = self._states(chosen)
        numbers = np.concatenate([each for each, _ in contents], axis=1)
        sizes = self.index.sizes[blocks]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        slots = np.repeat(self._starts[blocks], sizes) + within
        return BlockRows(joined_pieces([batch for _, batch in contents]), numbers, states), slots

    def about_keys(self) -> float:
        """Return about how many keys the rows have, from how often the key changes within some blocks."""
        blocks = np.unique(np.linspace(0, len(self.index) - 1, _BLOCKS_OF_SAMPLE).astype(np.int64))
        hashes = self.read(blocks)[0].hashes
        changes = np.delete(hashes[1:] != hashes[:-1], np.cumsum(self.index.sizes[blocks])[:-1] - 1)
        return 1.0 + float(changes.mean() if len(changes) else 1.0) * (len(self) - 1)

    def pieces(self, first: int = 0, end: int | None = None) -> Iterator[tuple[BlockRows, Ints]]:
        """Yield all rows, or those of some blocks, in batches, with their positions."""
        end = len(self.index) if end is None else end
        step = max(1, _ROWS_AT_ONCE // int(self.index.sizes.max()))
        for begin in range(first, end, step):
            yield self.read(np.arange(begin, min(begin + step, end)))

    def snapshot(self) -> StoredRun:
        """Return the run as on disk, for another thread; track changes from now on."""
        self._changed_slots = []
        return StoredRun(
            self.index,
            self._schema,
            self._lines,
            self.has_state.copy(),
            self._store,
            BlockCache(0),
            convert=self.convert,
        )

    def changed_slots(self) -> Ints:
        """Return the positions of rows that have changed since the snapshot."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(self._changed_slots or [])]))

    def state_of(self, slots: Ints) -> IntTable:
        """Return the states of some rows, at least one, ascending."""
        chosen, positions = self._within(slots)
        return np.take(self._states(chosen.tolist()), positions, axis=1)

    def _within(self, slots: Ints) -> tuple[Ints, Ints]:
        """Return the blocks of some rows, ascending, and the positions of the rows in their concatenation."""
        blocks = np.searchsorted(self._starts, slots, side="right") - 1
        chosen, index = np.unique(blocks, return_inverse=True)
        sizes = self.index.sizes[chosen]
        return chosen, slots - self._starts[blocks] + (np.cumsum(sizes) - sizes)[index]

    def change(self, slots: Ints, state: IntTable) -> None:
        """Set the states of some rows."""
        if self._changed_slots is not None:
            self._changed_slots.append(slots)
        chosen, positions = self._within(slots)
        states = self._states(chosen.tolist())
        self.living_rows += int(np.count_nonzero(state[0])) - int(np.count_nonzero(states[0, positions]))
        states[:, positions] = state
        ends = np.cumsum(self.index.sizes[chosen])
        for block, packed in zip(chosen.tolist(), pack_states(states, ends), strict=True):
            previous = self.changed.get(block)
            self.changed_bytes += len(packed) + (_BYTES_A_STATE if previous is None else -len(previous))
            self.changed[block] = packed

    def saved(self) -> None:
        """Mark all changes as written to disk."""
        self.has_state[list(self.changed)] = True
        self.changed = {}
        self.changed_bytes = 0

    def _contents(self, blocks: list[int]) -> list[tuple[IntTable, pa.RecordBatch]]:
        run = self.index.number
        rows_of_blocks = {block: self._cache.get(run, block) for block in blocks}
        missing = [block for block, rows in rows_of_blocks.items() if rows is None]
        for block, content in zip(missing, self._store.blocks(run, missing), strict=True):
            numbers, batch = unpack_block(content, int(self.index.sizes[block]), self._numbers, self._schema)
            rows_of_blocks[block] = numbers, batch
            self._cache.put(run, block, numbers, batch, len(content))
        return [rows for rows in rows_of_blocks.values() if rows is not None]

    def _states(self, blocks: list[int]) -> IntTable:
        """Return writable states of the rows of some blocks, concatenated."""
        has_state = self.has_state[blocks].tolist()
        written = [block for block, has in zip(blocks, has_state, strict=True) if has and block not in self.changed]
        saved = dict(zip(written, self._store.states(self.index.number, written) if written else [], strict=True))
        contents = saved | {block: self.changed[block] for block in blocks if block in self.changed}
        sizes = self.index.sizes[blocks]
        starts = dict(zip(blocks, (np.cumsum(sizes) - sizes).tolist(), strict=True))
        none = self._current(np.array([1] + [0] * self._lines[1])[:, None])
        states = np.repeat(none, sizes.sum(), axis=1)
        for alike, state in unpack_states(contents, self.index.sizes):
            firsts = np.array([starts[block] for block in alike])
            here = firsts[:, None] + np.arange(state.shape[1] // len(alike))
            states[:, here.ravel()] = self._current(state)
        return states

    def _current(self, state: IntTable) -> IntTable:
        return state if self.convert is None else self.convert(state)
