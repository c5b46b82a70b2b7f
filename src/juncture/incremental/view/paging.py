"""Which rows of a view are in memory, and which on disk: what does not fit goes there, and stays looked up by its keys.

All rows begin in memory. Once they take more than their share, those of the operators that hold most are written as
sorted runs, from which an epoch reads the blocks that it needs. The runs serve this process alone: when a view is
opened, its operators are filled anew from the rows of its sources.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.errors import StateError
from juncture.incremental.arrangement import Arrangement
from juncture.incremental.store.merging import Merge, mergeable
from juncture.incremental.store.pages import PageKeys, Pages, sorted_pieces
from juncture.incremental.store.stored_run import BlockCache, StoredRun
from juncture.kernels.array_types import Codes, Mask

if TYPE_CHECKING:
    from juncture.incremental.store.blocks import Index
    from juncture.incremental.view.store import ViewStore

_log = logging.getLogger(__name__)

_IN_MEMORY = 1 / 2
"""What rows in memory, groups and keys may take of it: when runs are merged, there are two of them."""

_KEPT = 1 / 4
"""What rows in memory take of it when the others have been written: the blocks that an epoch reads have to fit, too."""

_AT_ONCE = 1 / 16
"""What rows that come at once may take of it: they are there some times over."""

_CACHED = 1 / 8
_CHANGED = 1 / 8


@dataclass
class HeldRows:
    """Rows that an operator holds, and those of them that are on disk.

    Attributes
    ----------
    arrangement
        The rows.
    keys, keys_of
        Their keys, and what returns the codes of the keys of rows.
    lines
        How many lines of codes they have.
    hash_keys
        Has `keys` know the hashes by which rows lie on disk, if it did not before.
    runs
        Those on disk.
    """

    arrangement: Arrangement
    keys: PageKeys
    keys_of: Callable[[pa.RecordBatch], Codes]
    lines: int
    hash_keys: Callable[[], None] | None = None
    runs: list[StoredRun] = field(default_factory=list)

    @property
    def memory_bytes(self) -> int:
        """How much memory the rows take that are not on disk."""
        return sum(run.nbytes for run in self.arrangement.memory)

    def stored(self, written: tuple[Index, Mask] | None, files: ViewStore, cache: BlockCache) -> list[StoredRun]:
        """Return a run that was written, if it has rows."""
        if written is None:
            return []
        lines = self.lines, self.arrangement.lines
        return [StoredRun(written[0], self.arrangement.schema, lines, written[1], files, cache)]

    def look_up_in(self, runs: list[StoredRun]) -> None:
        """Have rows looked up in runs on disk, beside those in memory."""
        self.runs = runs
        if self.arrangement.pages is None:
            self.arrangement.pages = Pages(runs, self.keys, self.keys_of, self.arrangement.matching)
        self.arrangement.pages.stored = runs


class Paging:
    """Keeps the rows of a view within their share of the memory.

    Parameters
    ----------
    files
        Where rows go that do not fit.
    memory_bytes
        How much memory to take.
    held
        The rows that operators hold.
    others_bytes
        Returns how much memory all else takes that is held: groups, keys, and what is at hand.
    """

    def __init__(
        self, files: ViewStore, memory_bytes: int, held: Sequence[HeldRows], others_bytes: Callable[[], int]
    ) -> None:
        self._files = files
        self._memory_bytes = memory_bytes
        self._held = held
        self._others_bytes = others_bytes
        self._cache = BlockCache(int(memory_bytes * _CACHED))
        self._merge: tuple[HeldRows, Merge] | None = None

    @property
    def piece_bytes(self) -> int:
        """How many bytes of rows to take at once, if many come."""
        return int(self._memory_bytes * _AT_ONCE)

    def check(self) -> None:
        """Refuse to go on with what cannot go to disk.

        Raises
        ------
        StateError
            If groups and keys alone take more than the memory.
        """
        taken = self._others_bytes()
        if taken > self._memory_bytes:
            raise StateError(
                f"memory= leaves {self._memory_bytes:,} bytes, but the view's groups and keys take {taken:,} and cannot "
                "be spilled. The epoch was not applied. Open the view with more memory.",
                name="JN-MEMORY-LIMIT",
            )

    def settle(self) -> None:
        """Tidy up after an epoch: take over what has changed of rows on disk, and write what is too much in memory."""
        for held in self._held:
            if held.arrangement.pages is not None:
                held.arrangement.pages.settle()
        try:
            self._end_merge()
            others, rows = self._others_bytes(), sum(held.memory_bytes for held in self._held)
            if rows and others + rows > self._memory_bytes * _IN_MEMORY:
                self._write(others + rows)
            if sum(run.changed_bytes for held in self._held for run in held.runs) > self._memory_bytes * _CHANGED:
                self._keep()
        except StateError as error:
            # The epoch is kept, and so are its rows. The next one tries again.
            _log.warning("Rows stay in memory: %s", error)

    def drop(self) -> None:
        """Let go of what an epoch fetched that has failed."""
        for held in self._held:
            if held.arrangement.pages is not None:
                held.arrangement.pages.drop()

    def close(self) -> None:
        """Stop what is under way."""
        if self._merge is not None:
            self._merge[1].stop()
            self._merge = None

    def _write(self, taken: int) -> None:
        """Write rows of those operators that hold most in memory, until enough is left."""
        for held in sorted(self._held, key=lambda each: each.memory_bytes, reverse=True):
            size = held.memory_bytes
            if taken <= self._memory_bytes * _KEPT or not size:
                break
            if held.hash_keys is not None:
                held.hash_keys()
            written = [
                self._files.write(sorted_pieces(run, held.keys), is_sorted=True) for run in held.arrangement.memory
            ]
            fresh = [run for each in written for run in held.stored(each, self._files, self._cache)]
            held.look_up_in([*held.runs, *fresh])
            held.arrangement.memory = []
            taken -= size
        self._begin_merge()

    def _keep(self) -> None:
        """Have on disk what has changed of the rows there."""
        merging = [] if self._merge is None else self._merge[1].runs
        runs = [run for held in self._held for run in held.runs]
        self._files.keep_only([*runs, *(run for run in merging if run not in runs)])

    def _begin_merge(self) -> None:
        if self._merge is not None:
            return
        held, found = max(((each, mergeable(each.runs)) for each in self._held), key=lambda pair: len(pair[1]))
        if found:
            self._keep()
            self._merge = held, Merge(found, self._files.writer(is_sorted=True))

    def _end_merge(self) -> None:
        """Look rows up in a merged run, if one is done."""
        if self._merge is None or not self._merge[1].is_done:
            return
        (held, merge), self._merge = self._merge, None
        written = self._files.take_in(merge.result())
        fresh = held.stored(written, self._files, self._cache)
        for run in fresh:
            merge.carry_over(run)
        held.look_up_in([*(run for run in held.runs if run not in merge.runs), *fresh])
        self._keep()
        self._begin_merge()
