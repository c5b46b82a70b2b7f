"""Equality joins in-process: by hash tables or by sorting, in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal

import pyarrow as pa

from juncture.local.equi.external_sort_merge import ExternalMergeJoin
from juncture.local.equi.grace import GraceJoin
from juncture.local.equi.in_memory import stream_held
from juncture.local.equi.late import LateColumns, are_worth_holding
from juncture.local.output.batches import reporter
from juncture.local.pruning import within_keys
from juncture.planner.plan import Progress
from juncture.runtime.external_sort import ExternalSorter
from juncture.runtime.memory import MEMORY_BYTES, PARTS_UNDER_WAY
from juncture.runtime.row_ids import NumberedJoin
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpillFolder
from juncture.runtime.threads import Threads
from juncture.spec.equi import ResolvedEqui

__all__ = ["EquiAlgorithm", "stream"]

_HELD_PART = 3
"""All left rows may take one part of so many of the memory."""

_PIECE_PART = 6
"""Where they take more, pieces of the sides may take one of so many."""

_ORDERED_PART = 12
"""And rows that are brought into order one of so many. The rest is for what streams past, and for what allocators keep
of what was let go."""

EquiAlgorithm = Literal["hash", "parallel_hash", "grace", "sort_merge", "external_sort_merge"]


def stream(
    join: ResolvedEqui,
    left: Source,
    right: Source,
    *,
    algorithm: EquiAlgorithm = "hash",
    threads: int | None = None,
    spill: SpillFolder | None = None,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an equality join, batch by batch, in the order of the left rows.

    Parameters
    ----------
    join
        The spec, resolved against the two schemas.
    left, right
        The two sides.
    algorithm
        ``"hash"`` makes a table of the keys of the smaller side; ``"parallel_hash"`` one for each partition of them, so
        that all threads make tables at once; ``"sort_merge"`` sorts the right side, and the left one batch by batch,
        and walks through both. All three hold the right rows that can match. ``"grace"`` cuts both sides by the hash of
        the key into pieces on disk and joins these one by one; ``"external_sort_merge"`` sorts both sides on disk.
    threads
        How many; by default one for each core.
    spill
        Where to put what does not fit; by default in a folder of the join's own.
    memory_bytes
        How much the last two algorithms may hold; of the others, what is under way may take a part of it.
    progress
        Called as the work goes on, from the calling thread.

    Raises
    ------
    PlanError
        If a side has more rows than the algorithm can number.
    DataError
        If a file cannot be read.
    StateError
        If there is no room to spill.

    Notes
    -----
    Time O(L + R) and the output; for the sorting ones O(L log L + R log R). The first three hold the shown columns of
    the right rows that can match, 4 bytes more of each, and the distinct keys; the others what they are allowed to, and
    they write both sides to disk, where these exceed it, and the output too, which is put in the order of the left rows
    there. Rows of one key that do not fit in memory on either side are joined block by block. Row groups of the larger
    side are not read where, by the footer, no key of the smaller one can be.
    """
    with ExitStack() as stack:
        on_disk = algorithm in ("grace", "external_sort_merge")
        room_bytes = memory_bytes // (_PIECE_PART if on_disk else PARTS_UNDER_WAY)
        pool = stack.enter_context(Threads(threads, room_bytes=room_bytes))
        spill = spill or stack.enter_context(SpillFolder(memory_bytes=memory_bytes))
        left, right = within_keys(join, left, right, pool)
        if algorithm == "grace" or algorithm == "external_sort_merge":
            yield from _on_disk(NumberedJoin.of(join, left, right), algorithm, spill, memory_bytes, pool, progress)
        else:
            yield from stream_held(join, left, right, algorithm, pool, progress)


def _on_disk(
    numbered: NumberedJoin[ResolvedEqui],
    algorithm: EquiAlgorithm,
    spill: SpillFolder,
    memory_bytes: int,
    threads: Threads,
    progress: Progress | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join that is done in pieces, put in order."""
    late, room_bytes = None, memory_bytes // _PIECE_PART
    if algorithm == "grace" and are_worth_holding(numbered, memory_bytes // _HELD_PART):
        late, room_bytes = LateColumns(numbered, threads), memory_bytes // _HELD_PART
        numbered = late.narrow
    work = (GraceJoin if algorithm == "grace" else ExternalMergeJoin)(numbered, spill, room_bytes, threads)
    sorter = ExternalSorter(
        numbered.join.output_schema, numbered.number, spill, memory_bytes // _ORDERED_PART, threads, numbered.sample
    )
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in work.rows(progress):
            rows += batch.num_rows
            yield batch

    advance, done = reporter(progress, "output"), 0
    for batch in sorter.sort(counted()):
        for whole in [batch] if late is None else late.added_to(batch):
            yield from numbered.finished(whole)
        done += batch.num_rows
        advance(done, rows)
