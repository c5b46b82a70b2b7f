"""The tables of a maintained query: rows in memory, on disk, or both, and when they move.

Each row is in one run. A checkpoint writes the runs that are only in memory, and the weights and counts that changed in
the others, so it costs time in proportion to the changes since the last one. Opening a query reads the indexes of its
runs. Rows that are looked up are read from disk, and tables that fit in memory are loaded when they are first used.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.errors import StateError
from juncture.incremental.state.arrangement import Arrangement
from juncture.incremental.state.blocks import BlockRows
from juncture.incremental.state.merging import Merge, OrderKey, mergeable, order_key
from juncture.incremental.state.pages import PageKeys, Pages, run_of, sorted_pieces
from juncture.incremental.state.records import Checkpoint, Position
from juncture.incremental.state.run import DiskCopy, Run, merged
from juncture.incremental.state.stored_run import BlockCache, Convert, StoredRun
from juncture.kernels.array_types import Codes, Ints, IntTable, Mask, Words
from juncture.runtime.memory import release_unused

if TYPE_CHECKING:
    from juncture.incremental.state.blocks import Index
    from juncture.incremental.state.run_writer import RunWriter
    from juncture.incremental.state.store import Store

_log = logging.getLogger(__name__)

_ROWS_PER_CHANGE = 8  # a checkpoint is made when the tables have this many rows for each change of the log, or fewer

_REPLAYED_ROWS_MOST = 1 << 12  # a query that is closed with a longer log makes a checkpoint, so that it is opened fast


_SMALL_ROWS = 1 << 14  # up to this number of rows, a table is loaded when a query is opened


@dataclass
class StateTable:
    """An arrangement that may be stored."""

    arrangement: Arrangement
    keys: PageKeys  # the hashes of key codes, by which rows are in order on disk
    keys_of: Callable[[pa.RecordBatch], Codes]  # the key codes of rows
    key_hashes: Callable[[Run], Words]  # the hashes of the keys of a run in memory, in the order of its ``groups``
    code_lines: int = 0  # number of lines of order codes
    convert: Callable[[], Convert | None] = lambda: None  # converts mutable state that an earlier epoch wrote
    notes: Callable[[], Any] = lambda: None  # further JSON data of the operator
    recall: Callable[[Any], None] = lambda _notes: None  # accepts the notes again
    loaded: Callable[[], None] = lambda: None  # called after rows were loaded into memory
    numbers_of: Callable[[pa.RecordBatch], tuple[Codes, IntTable]] | None = None

    def all_notes(self) -> Any:
        """Return JSON data of the operator and of evictions."""
        evicted_to = self.arrangement.evicted_to
        return {**(self.notes() or {}), "evicted_to": evicted_to} if evicted_to else self.notes()

    def recall_all(self, notes: Any) -> None:
        """Accept the notes again."""
        self.arrangement.evicted_to = (notes or {}).get("evicted_to", 0)
        self.recall(notes)

    @property
    def stored(self) -> list[StoredRun]:
        """The runs on disk whose rows are not in memory."""
        return [] if self.arrangement.pages is None else self.arrangement.pages.stored

    @property
    def memory_bytes(self) -> int:
        """Bytes of the rows in memory."""
        return sum(run.nbytes for run in self.arrangement.memory)

    def drop(self) -> None:
        """Release rows that were read from disk."""
        if self.arrangement.pages is not None:
            self.arrangement.pages.drop()

    def copy(self, table: StateTable) -> None:
        """Copy the rows in memory of an equal table, whose keys have other codes."""
        self.recall(table.notes())
        for run in table.arrangement.memory:
            state = np.concatenate([run.weights[None], run.counts])
            rows = BlockRows(run.batch, np.concatenate([[run.hashes, run.hashes], run.codes]), state).living()
            self.arrangement.add(run_of(rows, self.keys_of(rows.batch), self.arrangement.matching))
        self.loaded()

    def look_up_in(self, runs: list[StoredRun]) -> None:
        """Look up rows in these runs on disk, besides the rows in memory."""
        if self.arrangement.pages is None and runs:
            self.arrangement.pages = Pages([], self.keys, self.keys_of, self.arrangement.matching)
        if self.arrangement.pages is not None:
            self.arrangement.pages.stored = runs


class StateTables:
    """The tables of one query in a store. ``others_bytes`` returns the bytes of memory that are not rows of tables."""

    def __init__(self, store: Store, tables: Mapping[str, StateTable], others_bytes: Callable[[], int]) -> None:
        self._store = store
        self.policy = store.policy
        self.errors = store.errors
        self._tables = tables
        self._others_bytes = others_bytes
        self._cache = BlockCache(self.policy.block_cache_bytes)
        self._merge: tuple[StateTable, Merge] | None = None
        self._appended: dict[Arrangement, list[tuple[RunWriter, OrderKey]]] = {}
        self._has_new_runs = False  # whether rows were written again that are committed in other runs

    @property
    def changed_bytes(self) -> int:
        """Bytes of changed weights and counts of rows on disk."""
        return sum(run.changed_bytes for run in self._runs())

    def open(self, names: Mapping[str, str] | None = None) -> None:
        """Read the indexes of the committed runs, and load small tables.

        If the store has another query, ``names`` has the names there of the tables that both queries have.
        """
        if names is None:
            self._check_names()
            names = {name: name for name in self._tables}
        notes = self._store.notes()
        for name, stored_name in names.items():
            table = self._tables[name]
            table.recall_all(notes.get(stored_name))
            runs = [self._stored(table, *each) for each in self._store.runs(stored_name)]
            table.look_up_in([run for run in runs if run.index.is_sorted])
            if sum(len(run) for run in table.stored) <= _SMALL_ROWS and self._has_room(table):
                self._load(table)
            for run in runs:
                if not run.index.is_sorted:
                    self._load_unsorted(table, run)

    def _check_names(self) -> None:
        """Raise `StateError` if the stored tables are others. Their names describe the plan of the query."""
        stored = self._store.notes()
        if stored and stored.keys() != self._tables.keys():
            name = min(stored.keys() ^ self._tables.keys())
            raise StateError(
                f"Folder {self._store.folder} was written by a version of Juncture that plans this query in another "
                f"way ({name}). Populate a new folder, or open it with the version of Juncture that wrote it.",
                name="JN-STATE-VERSION",
            )

    def check(self) -> None:
        """Raise `StateError` if what cannot be on disk exceeds the memory."""
        taken = self._others_bytes()
        if taken > self.policy.total_bytes:
            raise StateError(
                f"memory= leaves {self.policy.total_bytes:,} bytes, but keys and the first rows of ORDER BY take "
                f"{taken:,} and cannot be on disk. The last changes were not applied. Open the view with more memory.",
                name="JN-MEMORY-LIMIT",
            )

    def after_piece(self) -> None:
        """Write rows that exceed the memory, before the first epoch is committed."""
        self._write_back()
        self._end_merge()
        if self._is_full():
            self._write()
            self._spill(self.policy.paged_bytes)
        if self.changed_bytes > self.policy.changed_bytes:
            self._save()
        self._begin_merge()

    def after_epoch(self, position: Position | None) -> None:
        """Update rows on disk, and checkpoint if the log is long or memory full; without a position, never commit."""
        self._write_back()
        try:
            self._end_merge()
            self._load_used()
            if position is None:
                return
            is_needed = self._has_new_runs or self.changed_bytes > self.policy.changed_bytes
            if is_needed or self._store.wants_checkpoint or self._is_full():
                self.checkpoint(position)
        except StateError as error:
            # The epoch is committed and its rows are in memory. The next epoch tries again.
            _log.warning("No checkpoint was made: %s", error)

    def drop(self) -> None:
        """Release the rows that a failed epoch read."""
        for table in self._tables.values():
            table.drop()

    def release(self, position: Position) -> None:
        """Commit all rows, and release them from memory."""
        self.checkpoint(position)
        self.close(None)
        self._spill(0)

    def checkpoint(self, position: Position, commit: Callable[[Checkpoint], None] | None = None) -> None:
        """Commit all rows, so that opening the query need not replay the changes until now. Spill if memory is full.

        ``commit`` replaces `Store.checkpoint`.
        """
        is_full = self._is_full()
        runs = self._write()
        notes = {name: table.all_notes() for name, table in self._tables.items()}
        # Runs that were merged in memory are written again, so checkpoints become rarer as tables grow.
        rows = sum(table.arrangement.rows for table in self._tables.values())
        (commit or self._store.checkpoint)(Checkpoint(position, runs, notes, rows // _ROWS_PER_CHANGE))
        self._has_new_runs = False
        for run in self._runs():
            run.saved()
        if is_full:
            self._spill(self.policy.paged_bytes)
        self._begin_merge()

    def close(self, position: Position | None) -> None:
        """Stop the merge in the background, and commit the rows of a position if opening would replay many changes."""
        if position is not None and self._store.logged_rows > _REPLAYED_ROWS_MOST:
            try:
                self.checkpoint(position)
            except StateError as error:
                # All epochs are in the log.
                _log.warning("No checkpoint was made: %s", error)
        if self._merge is not None:
            self._merge[1].stop()
            self._merge = None

    def finish_merges(self) -> None:
        """Wait for the merge in the background."""
        if self._merge is not None:
            self._merge[1].result()

    # Memory

    def _write_back(self) -> None:
        for table in self._tables.values():
            if table.arrangement.pages is not None:
                table.arrangement.pages.write_back()

    def _is_full(self) -> bool:
        taken = self._memory_bytes
        return taken > self.policy.in_memory_bytes and any(table.memory_bytes for table in self._tables.values())

    def _spill(self, most_bytes: int) -> None:
        """Release rows in memory that are on disk too, the largest tables first, until the rest fits."""
        for table in sorted(self._tables.values(), key=lambda each: each.memory_bytes, reverse=True):
            if self._memory_bytes <= most_bytes or not table.memory_bytes:
                break
            copies = [run.disk_copy.run for run in table.arrangement.memory if run.disk_copy is not None]
            table.arrangement.memory = []
            table.look_up_in([*table.stored, *copies])
            table.keys.forget()
        release_unused()

    def _load_used(self) -> None:
        """Load the tables on disk that epochs have read, if they fit in memory."""
        used = [table for table in self._tables.values() if table.arrangement.pages and table.arrangement.pages.is_used]
        for table in sorted(used, key=lambda each: each.arrangement.rows):
            if not self._has_room(table):
                break
            self._load(table)

    def _has_room(self, table: StateTable) -> bool:
        size = sum(run.memory_bytes for run in table.stored)
        return self._memory_bytes + size <= self.policy.paged_bytes

    @property
    def _memory_bytes(self) -> int:
        """Bytes of all rows in memory, and of what cannot be on disk."""
        return self._others_bytes() + sum(table.memory_bytes for table in self._tables.values())

    def _load(self, table: StateTable) -> None:
        arrangement = table.arrangement
        if arrangement.pages is None or (self._merge is not None and self._merge[0] is table):
            return
        for stored in table.stored:
            pieces = list(stored.pieces())
            rows, slots = BlockRows.joined([rows for rows, _ in pieces]), np.concatenate([here for _, here in pieces])
            living = np.flatnonzero(rows.weights)
            if len(living):
                rows, slots = (rows, slots) if len(living) == len(rows) else (rows.some(living), slots[living])
                run = run_of(rows, table.keys_of(rows.batch), arrangement.matching, stored, slots)
                arrangement.memory = [run, *arrangement.memory]
        arrangement.pages = None
        self._cache.clear()
        table.loaded()

    def _load_unsorted(self, table: StateTable, stored: StoredRun) -> None:
        """Load a run whose rows cannot be looked up, or if it exceeds the memory, sort it in pieces."""
        assert table.numbers_of is not None
        fits = self._memory_bytes + stored.memory_bytes <= self.policy.in_memory_bytes
        rows = math.inf if fits else max(1, self.policy.sort_bytes * len(stored) // stored.memory_bytes)
        for loose, slots in _gathered(stored, rows):
            keys, numbers = table.numbers_of(loose.batch)
            loose_rows = BlockRows(loose.batch, numbers, loose.state)
            run = run_of(loose_rows, keys, table.arrangement.matching, stored if fits else None, slots)
            if fits:
                table.arrangement.memory = [*table.arrangement.memory, run]
            elif len(run):
                self._write_run(table, run)
                assert run.disk_copy is not None
                table.look_up_in([*table.stored, run.disk_copy.run])
                table.keys.forget()
                self._has_new_runs = True
        self._cache.clear()

    # Runs

    def _runs(self) -> list[StoredRun]:
        copies = [run.disk_copy for table in self._tables.values() for run in table.arrangement.memory]
        stored = [run for table in self._tables.values() for run in table.stored]
        return [*stored, *(copy.run for copy in copies if copy is not None)]

    def writer(self, *, is_sorted: bool) -> RunWriter:
        """Begin to write a run for `take_in`. If it is not sorted, all of its rows have to be in memory."""
        return self._store.writer(is_sorted=is_sorted)

    def take_in(self, arrangement: Arrangement, writer: RunWriter, copied: tuple[Run, Ints] | None = None) -> None:
        """Add a written run. ``copied`` is the run in memory that has its rows, and their positions on disk."""
        table = self._table(arrangement)
        written = self._store.take_in(writer)
        if written is None:
            return
        stored = self._stored(table, *written)
        if copied is None:
            table.look_up_in([*table.stored, stored])
        else:
            run, slots = copied
            run.disk_copy = DiskCopy(stored, slots.astype(np.int32), np.zeros(len(run), np.bool_))

    def append(self, arrangements: Iterable[Arrangement]) -> None:
        """Write the rows in memory at the end of runs for `finish_append`, and release them. They have other keys."""
        self._write_back()
        for arrangement in arrangements:
            table = self._table(arrangement)
            runs = (
                arrangement.memory
                if len(arrangement.memory) < 2
                else [merged(arrangement.memory, arrangement.matching)]
            )
            writers = self._appended.setdefault(arrangement, [])
            for run in runs:
                for rows in sorted_pieces(run, table.key_hashes(run), self.policy.batch_rows)[1]:
                    if not writers or order_key(rows, 0) < writers[-1][1]:
                        writers.append((self._store.writer(is_sorted=True), order_key(rows, 0)))
                    self._store.add(writers[-1][0], rows)
                    writers[-1] = writers[-1][0], order_key(rows, len(rows) - 1)
            arrangement.memory = []
            table.keys.forget()
        release_unused()

    def finish_append(self) -> None:
        """Let the runs of `append` be looked up."""
        for arrangement, writers in self._appended.items():
            for writer, _ in writers:
                self.take_in(arrangement, writer)
        self._appended = {}

    def _table(self, arrangement: Arrangement) -> StateTable:
        return next(each for each in self._tables.values() if each.arrangement is arrangement)

    def _write(self) -> dict[str, list[StoredRun]]:
        """Write the rows that are only in memory, and return the runs on disk of each table.

        If memory is full, rows in unsorted runs are written again, because these have to stay in memory.
        """
        runs: dict[str, list[StoredRun]] = {}
        is_full = self._is_full()
        for name, table in self._tables.items():
            arrangement = table.arrangement
            copied = [
                run
                for run in arrangement.memory
                if run.update_disk_copy() and not (is_full and run.disk_copy and not run.disk_copy.run.index.is_sorted)
            ]
            fresh = [run for run in arrangement.memory if run not in copied]
            if len(fresh) > 1:
                with suppress(pa.ArrowException):
                    # Unless the rows do not fit one array of a column's type, they become one run.
                    fresh = [merged(fresh, arrangement.matching)]
            for run in fresh:
                self._write_run(table, run)
            arrangement.memory = [*copied, *fresh]
            copies = [run.disk_copy.run for run in arrangement.memory if run.disk_copy is not None]
            runs[name] = [*table.stored, *copies]
        return runs

    def _write_run(self, table: StateTable, run: Run) -> None:
        order, pieces = sorted_pieces(run, table.key_hashes(run), self.policy.batch_rows)
        written = self._store.write(pieces, is_sorted=True)
        run.disk_copy = None
        if written is not None:
            slots: npt.NDArray[np.int32] = np.full(len(run), -1, np.int32)
            slots[order] = np.arange(len(order), dtype=np.int32)
            run.disk_copy = DiskCopy(self._stored(table, *written), slots, np.zeros(len(run), np.bool_))

    def _stored(self, table: StateTable, index: Index, has_state: Mask, living_rows: int | None = None) -> StoredRun:
        arrangement = table.arrangement
        lines = table.code_lines, arrangement.lines
        convert = table.convert()
        return StoredRun(
            index, arrangement.schema, lines, has_state, self._store, self._cache, living_rows, convert=convert
        )

    def _save(self) -> None:
        """Write the changed states of runs that are not committed, and remove runs that are not used."""
        merging = [] if self._merge is None else self._merge[1].runs
        runs = self._runs()
        self._store.keep_only([*runs, *(run for run in merging if run not in runs)])

    # Merging

    def _begin_merge(self) -> None:
        """Begin to merge runs, whose changed states are on disk."""
        if self._merge is not None:
            return
        table, runs = max(
            ((each, mergeable(each.stored, self.policy.merged_runs)) for each in self._tables.values()),
            key=lambda pair: len(pair[1]),
        )
        if runs:
            if any(run.changed for run in runs):
                self._save()
            self._merge = table, Merge(runs, self._store.writer(is_sorted=True))

    def _end_merge(self) -> None:
        """Replace merged runs by their result, if a merge is done. It is committed with the next checkpoint."""
        if self._merge is None or not self._merge[1].is_done:
            return
        (table, merge), self._merge = self._merge, None
        written = self._store.take_in(merge.result())
        fresh = [] if written is None else [self._stored(table, *written)]
        for run in fresh:
            merge.carry_over(run)
        table.look_up_in([*(run for run in table.stored if run not in merge.runs), *fresh])


def _gathered(stored: StoredRun, most_rows: float) -> Iterator[tuple[BlockRows, Ints]]:
    """Yield the living rows of a run and their positions in it, in pieces of about a number of rows."""
    parts: list[tuple[BlockRows, Ints]] = []
    rows = 0
    for piece, slots in stored.pieces():
        living = np.flatnonzero(piece.weights)
        parts.append((piece.some(living), slots[living]))
        rows += len(living)
        if rows >= most_rows:
            yield BlockRows.joined([each for each, _ in parts]), np.concatenate([here for _, here in parts])
            parts, rows = [], 0
    if rows:
        yield BlockRows.joined([each for each, _ in parts]), np.concatenate([here for _, here in parts])
