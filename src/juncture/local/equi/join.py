"""Equality joins in-process: by hash tables or by sorting, in memory or on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from juncture.local.equi.in_memory import Search, can_swap, hashed, held_bytes, stream_held, stream_unordered
from juncture.local.equi.on_disk import external_merge_rows, grace_rows
from juncture.local.output.numbered import LateColumns, NumberedJoin
from juncture.local.prune import within_keys
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.sources import Source
from juncture.spec.equi import ResolvedEqui

_LEFT_SHARE = 1 / 3  # for all left rows, if they fit, so that only right ones go through the disk
_PIECE_SHARE = 1 / 6  # for pieces of the sides otherwise

_ORDER_SHARE = 1 / 12
"""For rows that are brought into order. The rest is for what allocators keep of what was let go."""

_UNORDERED_SHARE = _LEFT_SHARE + _ORDER_SHARE
"""For a side that is held, where no rows need be brought into order."""


def execute(
    join: ResolvedEqui, left: Source, right: Source, context: JoinContext, *, search: Search, swaps: bool = True
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an equality join, batch by batch, in the order of the left rows if the context requires it.

    `hashed` builds a table of the keys of the smaller side, or one for each partition of them, so that all threads
    build tables at once; `merged` sorts the right side, and the left one batch by batch, and merges both. `swaps` is
    whether a smaller left side may be buffered instead, if the rows need no order.

    Time O(L + R) and the output; by sorting O(L log L + R log R). Buffers the shown columns of the right rows that can
    match, 4 bytes more of each, and the distinct keys. Row groups of the larger side without a key of the smaller one,
    by the footer, are not read.
    """
    context = context.streaming(UNDER_WAY_SHARE)
    left, right = within_keys(join, left, right, context)
    if swaps and not context.in_order and left.num_rows < right.num_rows and can_swap(join):
        yield from stream_unordered(join, left, right, context)
    else:
        yield from stream_held(join, left, right, search, context)


def execute_grace(join: ResolvedEqui, left: Source, right: Source, context: JoinContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an equality join as `execute` does, with no more memory than the context allows.

    Both sides are split by the hash of the key into pieces on disk, which are joined one by one. If rows need no order
    and a side fits in memory while the other streams past it, it is buffered instead.

    Both sides are written to disk, if these exceed the memory, and the output too, which is sorted by the left rows
    there. Rows of one key that do not fit in memory on either side are joined block by block.
    """
    context = context.streaming(_PIECE_SHARE)
    left, right = within_keys(join, left, right, context)
    if not context.in_order and (rows := _unordered(join, left, right, context)) is not None:
        yield from rows
        return
    numbered, late = NumberedJoin.of(join, left, right), None
    room = int(context.memory.total_bytes * _LEFT_SHARE)
    fits = held_bytes(numbered.left) <= room < held_bytes(numbered.right)
    if fits and context.in_order and can_swap(numbered.join):
        context.memory.reserve("left rows", _LEFT_SHARE)
        late = LateColumns(numbered, context)
    yield from _in_pieces(numbered, grace_rows, context, late)


def execute_external_sort_merge(
    join: ResolvedEqui, left: Source, right: Source, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an equality join as `execute_grace` does, but sort both sides on disk."""
    context = context.streaming(_PIECE_SHARE)
    left, right = within_keys(join, left, right, context)
    yield from _in_pieces(NumberedJoin.of(join, left, right), external_merge_rows, context)


def _unordered(
    join: ResolvedEqui, left: Source, right: Source, context: JoinContext
) -> Iterator[pa.RecordBatch] | None:
    """Return the rows of a join in any order, if a side fits in memory past which the other can stream."""
    room = int(context.memory.total_bytes * _UNORDERED_SHARE)
    if held_bytes(right) <= room:
        return stream_held(join, left, right, hashed, context)
    if can_swap(join) and held_bytes(left) <= room:
        return stream_unordered(join, left, right, context)
    return None


def _in_pieces(
    numbered: NumberedJoin[ResolvedEqui],
    join_pieces: Callable[[NumberedJoin[ResolvedEqui], JoinContext], Iterator[pa.RecordBatch]],
    context: JoinContext,
    late: LateColumns[ResolvedEqui] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join that is done in pieces, put in order; left columns may come late."""
    memory = context.memory
    numbered = numbered if late is None else late.narrow
    share = _PIECE_SHARE if late is None else _LEFT_SHARE
    rows = join_pieces(numbered, context.within(memory.reserve("pieces of both sides", share)))
    if context.in_order:
        rows = numbered.in_order(rows, context.within(memory.reserve("output in order", _ORDER_SHARE)))
    for batch in rows:
        for part in [batch] if late is None else late.added_to(batch):
            yield from numbered.finished(part)
