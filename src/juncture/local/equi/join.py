"""Equality joins in-process: by hash tables or by sorting, in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pyarrow as pa

from juncture.local.equi.external_sort_merge import ExternalMergeJoin
from juncture.local.equi.grace import GraceJoin
from juncture.local.equi.in_memory import held_bytes, stream_held
from juncture.local.equi.late import LateColumns
from juncture.local.equi.prune import within_keys
from juncture.local.equi.swapped import can_swap, stream_unordered
from juncture.runtime.context import JoinContext
from juncture.runtime.external_sort import ExternalSorter
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.row_ids import NumberedJoin
from juncture.runtime.sources import Source
from juncture.spec.equi import ResolvedEqui

_LEFT_SHARE = 1 / 3
"""For all left rows, if they fit, so that only right ones go through the disk."""

_PIECE_SHARE = 1 / 6
"""For pieces of the sides otherwise."""

_ORDER_SHARE = 1 / 12
"""For rows that are brought into order. The rest is for what allocators keep of what was let go."""

_UNORDERED_SHARE = _LEFT_SHARE + _ORDER_SHARE
"""For a side that is held, where no rows need be brought into order."""

EquiAlgorithm = Literal["hash", "parallel_hash", "grace", "sort_merge", "external_sort_merge"]


def execute(
    join: ResolvedEqui, left: Source, right: Source, algorithm: EquiAlgorithm, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an equality join, batch by batch, in the order of the left rows if the context requires it.

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
    context
        What the join may use. The first three hold what they have to.

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
    on_disk = algorithm in ("grace", "external_sort_merge")
    context = context.streaming(_PIECE_SHARE if on_disk else UNDER_WAY_SHARE)
    left, right = within_keys(join, left, right, context)
    if algorithm == "grace" and not context.in_order and (rows := _unordered(join, left, right, context)) is not None:
        yield from rows
    elif algorithm == "grace" or algorithm == "external_sort_merge":
        yield from _on_disk(NumberedJoin.of(join, left, right), algorithm, context)
    elif not context.in_order and algorithm != "sort_merge" and left.num_rows < right.num_rows and can_swap(join):
        yield from stream_unordered(join, left, right, context)
    else:
        yield from stream_held(join, left, right, algorithm, context)


def _unordered(
    join: ResolvedEqui, left: Source, right: Source, context: JoinContext
) -> Iterator[pa.RecordBatch] | None:
    """Return the rows of a join in any order, if a side fits in memory past which the other can stream."""
    room = int(context.memory.total_bytes * _UNORDERED_SHARE)
    if held_bytes(right) <= room:
        return stream_held(join, left, right, "hash", context)
    if can_swap(join) and held_bytes(left) <= room:
        return stream_unordered(join, left, right, context)
    return None


def _on_disk(
    numbered: NumberedJoin[ResolvedEqui], algorithm: EquiAlgorithm, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join that is done in pieces, put in order."""
    late, share, memory = None, _PIECE_SHARE, context.memory
    room = int(memory.total_bytes * _LEFT_SHARE)
    fits = (
        context.in_order and can_swap(numbered.join) and held_bytes(numbered.left) <= room < held_bytes(numbered.right)
    )
    if algorithm == "grace" and fits:
        memory.reserve("left rows", _LEFT_SHARE)
        late, share = LateColumns(numbered, context), _LEFT_SHARE
        numbered = late.narrow
    pieces = context.within(memory.reserve("pieces of both sides", share))
    work = (GraceJoin if algorithm == "grace" else ExternalMergeJoin)(numbered, pieces)
    if not context.in_order:
        for batch in work.rows():
            yield from numbered.finished(batch)
        return
    order = context.within(memory.reserve("output in order", _ORDER_SHARE))
    sorter = ExternalSorter(numbered.join.output_schema, numbered.number, order, numbered.sample)
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in work.rows():
            rows += batch.num_rows
            yield batch

    advance, done = context.progress.of("output"), 0
    for batch in sorter.sort(counted()):
        for whole in [batch] if late is None else late.added_to(batch):
            yield from numbered.finished(whole)
        done += batch.num_rows
        advance(done, rows)
