"""Paging: rows of a view that exceed its memory are written to disk, where they are still found by key.

All rows start in memory. When rows exceed their share, those of the largest operators are written as sorted runs. An
epoch reads the blocks that it needs. Runs serve only this process: opening a view fills its operators again from the
rows of its sources.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.errors import StateError
from juncture.incremental.state.arrangement import Arrangement
from juncture.incremental.state.merging import Merge, mergeable
from juncture.incremental.state.pages import PageKeys, Pages, sorted_pieces
from juncture.incremental.state.stored_run import BlockCache, StoredRun
from juncture.kernels.array_types import Codes, Mask

if TYPE_CHECKING:
    from juncture.incremental.state.blocks import Index
    from juncture.incremental.state.store import Store

_log = logging.getLogger(__name__)


@dataclass
class SpillableRows:
    """The rows of an operator, in memory and in runs on disk, which are sorted by the hashes of ``keys``.

    ``hash_keys`` makes ``keys`` compute hashes. ``lines`` is the number of rows in the array of order codes.
    """

    arrangement: Arrangement
    keys: PageKeys
    keys_of: Callable[[pa.RecordBatch], Codes]
    lines: int
    hash_keys: Callable[[], None] | None = None
    runs: list[StoredRun] = field(default_factory=list)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the rows in memory."""
        return sum(run.nbytes for run in self.arrangement.memory)

    def stored(self, written: tuple[Index, Mask] | None, files: Store, cache: BlockCache) -> list[StoredRun]:
        """Return a written run as a list, which is empty without rows."""
        if written is None:
            return []
        lines = self.lines, self.arrangement.lines
        return [StoredRun(written[0], self.arrangement.schema, lines, written[1], files, cache)]

    def look_up_in(self, runs: list[StoredRun]) -> None:
        """Use these runs on disk, beside the rows in memory."""
        self.runs = runs
        if self.arrangement.pages is None:
            self.arrangement.pages = Pages(runs, self.keys, self.keys_of, self.arrangement.matching)
        self.arrangement.pages.stored = runs


class Paging:
    """Keeps a view within its memory. ``others_bytes`` returns the bytes that cannot be spilled."""

    def __init__(self, files: Store, spillable: Sequence[SpillableRows], others_bytes: Callable[[], int]) -> None:
        self._files = files
        self._policy = files.policy
        self._spillable = spillable
        self._others_bytes = others_bytes
        self._cache = BlockCache(self._policy.block_cache_bytes)
        self._merge: tuple[SpillableRows, Merge] | None = None

    @property
    def piece_bytes(self) -> int:
        """Bytes of rows to load at once."""
        return self._policy.piece_bytes

    def check(self) -> None:
        """Raise `StateError` if groups and keys alone exceed the memory."""
        taken = self._others_bytes()
        if taken > self._policy.total_bytes:
            raise StateError(
                f"memory= leaves {self._policy.total_bytes:,} bytes, but the view's groups and keys take {taken:,} and "
                "cannot be spilled. The last changes were not applied. Open the view with more memory.",
                name="JN-MEMORY-LIMIT",
            )

    def after_epoch(self) -> None:
        """Update rows on disk after an epoch, and write rows that exceed the memory."""
        for state in self._spillable:
            if state.arrangement.pages is not None:
                state.arrangement.pages.settle()
        try:
            self._end_merge()
            others, rows = (
                self._others_bytes(),
                sum(state.memory_bytes for state in self._spillable),
            )
            if rows and others + rows > self._policy.in_memory_bytes:
                self._write(others + rows)
            if sum(run.changed_bytes for state in self._spillable for run in state.runs) > self._policy.changed_bytes:
                self._keep()
        except StateError as error:
            # The epoch is committed and its rows are in memory. The next epoch tries again.
            _log.warning("Rows stay in memory: %s", error)

    def drop(self) -> None:
        """Discard the blocks that a failed epoch fetched."""
        for state in self._spillable:
            if state.arrangement.pages is not None:
                state.arrangement.pages.drop()

    def close(self) -> None:
        """Stop the merge in the background."""
        if self._merge is not None:
            self._merge[1].stop()
            self._merge = None

    def _write(self, taken: int) -> None:
        """Write rows of the operators with the most bytes in memory, until the rest fits."""
        for state in sorted(self._spillable, key=lambda each: each.memory_bytes, reverse=True):
            size = state.memory_bytes
            if taken <= self._policy.paged_bytes or not size:
                break
            if state.hash_keys is not None:
                state.hash_keys()
            written = [
                self._files.write(sorted_pieces(run, state.keys, self._policy.batch_rows), is_sorted=True)
                for run in state.arrangement.memory
            ]
            fresh = [run for each in written for run in state.stored(each, self._files, self._cache)]
            state.look_up_in([*state.runs, *fresh])
            state.arrangement.memory = []
            taken -= size
        self._begin_merge()

    def _keep(self) -> None:
        """Write the changed weights of rows on disk."""
        merging = [] if self._merge is None else self._merge[1].runs
        runs = [run for state in self._spillable for run in state.runs]
        self._files.keep_only([*runs, *(run for run in merging if run not in runs)])

    def _begin_merge(self) -> None:
        if self._merge is not None:
            return
        state, runs = max(
            ((each, mergeable(each.runs, self._policy.merged_runs)) for each in self._spillable),
            key=lambda pair: len(pair[1]),
        )
        if runs:
            self._keep()
            self._merge = state, Merge(runs, self._files.writer(is_sorted=True))

    def _end_merge(self) -> None:
        """Replace merged runs by their result, if a merge is done."""
        if self._merge is None or not self._merge[1].is_done:
            return
        (state, merge), self._merge = self._merge, None
        written = self._files.take_in(merge.result())
        fresh = state.stored(written, self._files, self._cache)
        for run in fresh:
            merge.carry_over(run)
        state.look_up_in([*(run for run in state.runs if run not in merge.runs), *fresh])
        self._keep()
        self._begin_merge()
