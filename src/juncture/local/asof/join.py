"""As-of joins in-process: which rows match, and the joined table."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from juncture.local.asof.search import MatchPointers, Prepared, Search
from juncture.local.output.late import RowPairs, show_late
from juncture.local.output.pointed import output_row_bytes, pairs_of, row_pairs, show_pointed
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.sources import Source
from juncture.runtime.spill import in_small_parts
from juncture.spec.asof import ResolvedAsof

_log = logging.getLogger(__name__)

_LEFT_SHARE = 0.3  # how much of the memory the left side takes, or a piece of it. The rest is for what goes by

_OUTPUT_SHARE = 0.5
"""How much of it the joined table may take that is made at once, when the left side is not held any more."""


def execute(
    join: ResolvedAsof, left: Source, right: Source, context: JoinContext, *, merges: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an as-of join, batch by batch, in the order of the left rows.

    Both sides are merged in order, or the right side streams past the sorted left side. The left side is buffered with
    its matches, or as much of it as fits at a time; the right side is read once for each such piece. Errors of
    ``ties="error"`` are raised before anything is yielded.

    Time O(P R + L log L) for P pieces. Row groups of the right side that no row of a piece can match are not read. If
    there are several pieces, all shown columns are written to disk, once or twice.
    """
    room_bytes = context.memory.reserve("left rows and their matches", _LEFT_SHARE).total_bytes
    left_bytes, right_bytes = (
        left.plain_bytes_of(join.output_names["left"]),
        right.plain_bytes_of(join.output_names["right"]),
    )
    output_bytes = left.num_rows * output_row_bytes(join, left, right, left_bytes, right_bytes)
    free_bytes = context.memory.total_bytes * _OUTPUT_SHARE - output_bytes
    # Shown columns of files are decoded in the same pass as the others, if there is room for them.
    near = left.buffering(join.output_names["left"]) if left_bytes <= free_bytes else left
    far = right.buffering(join.output_names["right"]) if merges and right_bytes <= free_bytes else right
    search = Search(join, near, far, context, merges=merges, keep_codes=join.right_on in join.output_names["right"])
    if left.num_rows * search.row_bytes <= room_bytes and free_bytes >= 0:
        matches = search.run(room_bytes)
        context.memory.release()
        context.memory.reserve("matches and output", _OUTPUT_SHARE)
        yield from show_pointed(join, near, far, matches.pointers, context, codes=matches.codes)
        return
    pairs = _piecewise(join, left, right, context, search.row_bytes, merges=merges)
    yield from show_late(join, pairs, left, right, context)


def find(
    join: ResolvedAsof,
    left: Source,
    right: Source,
    context: JoinContext,
    *,
    merges: bool = False,
    count_ties: bool = False,
    seek_nearest: bool = False,
    prepared: Prepared | None = None,
) -> MatchPointers:
    """Return the matches of each left row, and what happened.

    Which rows the join keeps does not matter, except that ``semi`` and ``anti`` need any one match. With `count_ties`,
    ties are counted instead of broken; with `seek_nearest`, the best right rows at any distance are returned, too.
    `prepared` returns the left side as codes of ``on``; by default it is read.
    """
    room_bytes = context.memory.reserve("left rows and their matches", _LEFT_SHARE).total_bytes
    search = Search(
        join, left, right, context, merges=merges, count_ties=count_ties, seek_nearest=seek_nearest, prepared=prepared
    )
    return search.run(room_bytes)


def match(join: ResolvedAsof, left: Source, right: Source, context: JoinContext) -> RowPairs:
    """Return the pairs of rows that match, found by ``"probe"``, in the order of the left rows, best first."""
    pointers = find(join, left, right, context).pointers
    left_rows, here = pairs_of(pointers, keep_unmatched=False)
    assert left_rows is not None
    return left_rows, pointers[here]


def _piecewise(
    join: ResolvedAsof, left: Source, right: Source, context: JoinContext, row_bytes: int, *, merges: bool
) -> Iterator[RowPairs]:
    """Yield the pairs of pieces of the left side."""
    context = context.streaming(UNDER_WAY_SHARE)
    room_bytes = context.memory.reserve("left rows and their matches", _LEFT_SHARE).total_bytes
    _log.debug("The left side does not fit: it is joined in pieces of %s rows", f"{max(1, room_bytes // row_bytes):,}")
    left = in_small_parts(left, join.needed("left"), max(1, room_bytes // row_bytes), context.spill)
    for first, matches in Search(join, left, right, context, merges=merges).pieces(room_bytes):
        left_rows, right_rows = row_pairs(join, matches.pointers)
        yield left_rows + first, right_rows
    # What fetches right rows reserves memory of its own.
    context.memory.release()
