"""The state of a join of changing tables, in memory and on disk, and when it moves between them.

While the rows of both sides fit in their share of memory, all are in memory, and the disk is only for recovery. A side
that does not fit is on disk, except for changes since the last checkpoint. Each epoch reads the blocks that it needs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from juncture.errors import StateError
from juncture.incremental.changes.result_changes import Changes
from juncture.incremental.operators.join_runtime import Deltas, JoinRuntime
from juncture.incremental.population import Parted
from juncture.incremental.state.arrangement import Delta, Journal, Place
from juncture.incremental.state.blocks import BlockRows, Index
from juncture.incremental.state.merging import Merge, mergeable
from juncture.incremental.state.pages import Pages, loose_pieces, run_of, sorted_pieces
from juncture.incremental.state.policy import ROW_BYTES
from juncture.incremental.state.records import Position
from juncture.incremental.state.run import Run
from juncture.incremental.state.stored_run import BlockCache, StoredRun
from juncture.kernels.array_types import Mask
from juncture.runtime.progress import Report
from juncture.spec.schema import SIDES, Side

if TYPE_CHECKING:
    from juncture.incremental.state.run_writer import RunWriter
    from juncture.incremental.state.store import Store

_log = logging.getLogger(__name__)


class StoredState:
    """The rows of both sides, and where they are stored."""

    def __init__(self, kept: JoinRuntime, store: Store) -> None:
        self.store = store
        self._kept = kept
        self._policy = store.policy
        self._cache = BlockCache(self._policy.block_cache_bytes)
        self._runs: dict[Side, list[StoredRun]] = {side: [] for side in SIDES}
        self._changed: dict[Side, bool] = dict.fromkeys(SIDES, False)
        self._merge: tuple[Side, Merge] | None = None

    def load(self) -> Position | None:
        """Load the state from the store, and return its position; None for a new join."""
        position = self.store.position()
        if position is None:
            return None
        found = {side: [self._stored(side, *each) for each in self.store.runs(side)] for side in SIDES}
        self._place(found)
        self._replay()
        if any(run not in found[side] for side in SIDES for run in self._runs[side]):
            self.checkpoint(position)
        return position

    def _place(self, found: Mapping[Side, list[StoredRun]]) -> None:
        """Load the rows of runs into memory, or prepare to look them up on disk."""
        paged = self._paged({side: sum(run.memory_bytes for run in runs) for side, runs in found.items()})
        for side, runs in found.items():
            if side in paged:
                self._runs[side] = self._sorted_runs(side, runs)
                self._page(side, self._runs[side])
            else:
                self._runs[side] = runs
                self._kept.arrangements[side].memory = list(self._in_memory(side, runs))

    def write(self, writers: Mapping[Side, RunWriter]) -> None:
        """Write the rows in memory, unsorted."""
        for side, arrangement in self._kept.arrangements.items():
            for run in arrangement.memory:
                for rows in loose_pieces(run, self._policy.batch_rows):
                    writers[side].add(rows)

    def begin(self, position: Position, writers: Mapping[Side, RunWriter]) -> None:
        """Commit the initial rows, which were written and are in memory."""
        found = {side: self.store.take_in(writers[side]) for side in SIDES}
        self._checkpoint(position, {side: self._taken_in(side, each) for side, each in found.items()})

    def keep(self, position: Position, deltas: Deltas, answer: list[pa.RecordBatch]) -> None:
        """Commit an epoch."""
        self._note(deltas)
        changed = {side: [(delta.batch, delta.weights)] for side, (delta, _) in deltas.items()}
        self.store.commit(position, changed, answer)

    @property
    def first_bytes(self) -> float:
        """Up to this size, initial rows are loaded at once. Rows without a key cannot be partitioned."""
        return self._policy.initial_bytes if self._kept.keys.are_any else math.inf

    def parted(self, report: Report | None) -> Parted:
        """Return what loads the initial rows in parts."""
        return Parted(self._kept, self.store.folder, self._policy, report)

    def writers(self, *, is_sorted: bool) -> dict[Side, RunWriter]:
        """Begin to write a run of each side."""
        return {side: self.store.writer(is_sorted=is_sorted) for side in SIDES}

    def take_in(self, position: Position, writers: Mapping[Side, RunWriter]) -> None:
        """Commit the initial rows, which were written and are not in memory."""
        found = {side: self.store.take_in(writers[side]) for side in SIDES}
        runs = {side: self._taken_in(side, each) for side, each in found.items()}
        rows = sum(len(run) for side in SIDES for run in runs[side])
        self.store.checkpoint(position, runs, rewritten_rows=rows)
        self._place(runs)

    def after_epoch(self, position: Position) -> None:
        """Compact after an epoch, and make a checkpoint if memory is full."""
        for arrangement in self._kept.arrangements.values():
            if arrangement.pages is not None:
                arrangement.pages.write_back()
        self._kept.compact()
        self._end_merge()
        if self.store.wants_checkpoint or self._is_full():
            try:
                self.checkpoint(position)
            except StateError as error:
                # The epoch is committed. The next one tries again.
                _log.warning("No checkpoint was made: %s", error)

    def drop(self) -> None:
        """Release rows that a failed epoch fetched."""
        for arrangement in self._kept.arrangements.values():
            if arrangement.pages is not None:
                arrangement.pages.drop()

    def checkpoint(self, position: Position) -> None:
        """Write the rows that are only in memory, so that recovery need not replay the changes."""
        self._checkpoint(position, dict(self._runs))

    def _checkpoint(self, position: Position, runs: dict[Side, list[StoredRun]]) -> None:
        sizes = {side: arrangement.nbytes for side, arrangement in self._kept.arrangements.items()}
        are_paged = {side for side in SIDES if self._kept.arrangements[side].pages is not None}
        paged = are_paged | self._paged(sizes)
        for side in SIDES:
            if side in are_paged:
                runs[side] = [*runs[side], *self._written(side)]
            elif self._changed[side] or (side in paged and not all(run.index.is_sorted for run in runs[side])):
                runs[side] = self._written(side, is_sorted=side in paged)
        rows = sum(len(run) for side in SIDES for run in runs[side])
        self.store.checkpoint(position, runs, rewritten_rows=rows)
        for run in (run for side in SIDES for run in runs[side]):
            run.saved()
        self._runs = runs
        self._changed = dict.fromkeys(SIDES, False)
        for side in paged:
            self._kept.arrangements[side].memory = []
            self._page(side, runs[side])
        for side in paged:
            if self._merge is None:
                self._begin_merge(side)

    # Merging

    def _begin_merge(self, side: Side) -> None:
        found = mergeable(self._runs[side], self._policy.merged_runs)
        if found:
            self._merge = side, Merge(found, self.store.writer(is_sorted=True))

    def _end_merge(self) -> None:
        """Use a merged run, if one is done. It is committed with the next checkpoint."""
        if self._merge is None or not self._merge[1].is_done:
            return
        (side, merge), self._merge = self._merge, None
        try:
            written = self.store.take_in(merge.result())
        except StateError as error:
            # The runs are unchanged. They are merged after another checkpoint.
            _log.warning("Runs on disk were not merged: %s", error)
            return
        new = self._taken_in(side, written)
        for run in new:
            merge.carry_over(run)
        self._runs[side] = [*(run for run in self._runs[side] if run not in merge.runs), *new]
        self._page(side, self._runs[side])

    def close(self) -> None:
        """Close the store, so that another process can open it."""
        if self._merge is not None:
            self._merge[1].stop()
        self.store.close()

    # Placement

    def _is_full(self) -> bool:
        arrangements = self._kept.arrangements.values()
        pages = [arrangement.pages for arrangement in arrangements if arrangement.pages is not None]
        held = sum(run.nbytes for arrangement in arrangements for run in arrangement.memory)
        most = self._policy.paged_bytes if pages else self._policy.in_memory_bytes
        return held + self._kept.keys.nbytes > most or (
            sum(each.changed_bytes for each in pages) > self._policy.changed_bytes
        )

    def _paged(self, sizes: Mapping[Side, int]) -> set[Side]:
        """Return the sides that do not fit in memory: the larger one, or both."""
        if sum(sizes.values()) <= self._policy.in_memory_bytes:
            return set()
        larger = max(SIDES, key=lambda side: sizes[side])
        rest = sum(size for side, size in sizes.items() if side != larger)
        return {larger} if rest <= self._policy.paged_bytes / 2 else set(SIDES)

    def _page(self, side: Side, runs: list[StoredRun]) -> None:
        arrangement = self._kept.arrangements[side]
        if arrangement.pages is None:
            keys_of = partial(self._kept.keys_of, side)
            arrangement.pages = Pages(runs, self._kept.keys, keys_of, arrangement.matching)
        else:
            arrangement.pages.stored = runs

    def _stored(self, side: Side, index: Index, has_state: Mask, living_rows: int | None = None) -> StoredRun:
        arrangement = self._kept.arrangements[side]
        lines = self._kept.nothing(side).codes.shape[0], arrangement.lines
        return StoredRun(index, arrangement.schema, lines, has_state, self.store, self._cache, living_rows)

    def _taken_in(self, side: Side, written: tuple[Index, Mask] | None) -> list[StoredRun]:
        return [] if written is None else [self._stored(side, *written)]

    def _in_memory(self, side: Side, runs: list[StoredRun]) -> Iterator[Run]:
        for run in runs:
            rows = BlockRows.joined([rows.living() for rows, _ in run.pieces()])
            if len(rows):
                keys, numbers = self._kept.numbers(side, rows.batch)
                yield run_of(BlockRows(rows.batch, numbers, rows.state), keys, self._kept.arrangements[side].matching)
        self._cache.clear()

    def _written(self, side: Side, *, is_sorted: bool = True) -> list[StoredRun]:
        """Write the rows of a side that are in memory; unsorted if they stay there."""
        written = [
            self.store.write(
                sorted_pieces(run, self._kept.keys.hashes(run.groups), self._policy.batch_rows)[1]
                if is_sorted
                else loose_pieces(run, self._policy.batch_rows),
                is_sorted=is_sorted,
            )
            for run in self._kept.arrangements[side].memory
        ]
        return [self._stored(side, *found) for found in written if found is not None]

    def _sorted_runs(self, side: Side, runs: list[StoredRun]) -> list[StoredRun]:
        """Return runs in which rows can be looked up, in place of unsorted ones."""
        found = [run for run in runs if run.index.is_sorted]
        parts: list[BlockRows] = []
        size = 0
        for rows in (rows.living() for run in runs if not run.index.is_sorted for rows, _ in run.pieces()):
            parts.append(rows)
            size += rows.batch.nbytes + ROW_BYTES * len(rows) + rows.state.nbytes
            if size > self._policy.sort_bytes:
                found += self._sorted_run(side, parts)
                parts, size = [], 0
        return [*found, *self._sorted_run(side, parts)]

    def _sorted_run(self, side: Side, parts: list[BlockRows]) -> list[StoredRun]:
        if not parts:
            return []
        rows = BlockRows.joined(parts)
        _, numbers = self._kept.numbers(side, rows.batch)
        self._kept.keys.forget()
        written = self.store.write([BlockRows.sorted(rows.batch, numbers, rows.state)], is_sorted=True)
        return self._taken_in(side, written)

    # Changes since the checkpoint

    def _note(self, deltas: Deltas) -> None:
        """Record which sides have changed."""
        for side in SIDES:
            other: Side = "right" if side == "left" else "left"
            counts = bool(self._kept.arrangements[side].lines and len(deltas[other][0]))
            self._changed[side] |= counts or bool(len(deltas[side][0]))

    def _replay(self) -> None:
        """Apply the changes since the last checkpoint."""
        deltas: dict[Side, tuple[Delta, list[Place]]] = {}
        for side, arrangement in self._kept.arrangements.items():
            logged = list(self.store.log(side))
            delta = self._kept.nothing(side)
            if logged:
                weights = np.concatenate([weights for _, weights in logged])
                batches = [batch for batch, _ in logged]
                delta = self._kept.summed_delta(side, batches, weights)
            delta, places, missing = arrangement.locate(delta)
            if missing.any():
                raise StateError(
                    f"The state is damaged: its log deletes {side} rows that do not exist. Restore its folder from a "
                    "copy, or populate a new one.",
                    name="JN-STATE-DAMAGED",
                )
            deltas[side] = delta, places
        self._kept.operator.apply(deltas, Journal(), Changes(are_wanted=False))
        self._note(deltas)
        for arrangement in self._kept.arrangements.values():
            if arrangement.pages is not None:
                arrangement.pages.write_back()
