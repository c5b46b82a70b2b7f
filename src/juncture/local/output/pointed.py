"""The output of a join whose matches are all known: the columns of the matched rows, and of those that it keeps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from juncture.columnar.types import is_fixed
from juncture.kernels.array_types import Ints, Mask
from juncture.kernels.asof import NOWHERE
from juncture.local.output.numbered import number_column, number_columns, unmatched_columns
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import SelectedSource, gather, select
from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved

_MATCH_BYTES = 16
"""What a match takes until the output is whole: the number of the right row, and the code of its ``on``."""
_POINTER_BYTES = 5  # what a gathered value takes beside itself: its position, and whether there is one
_KEPT = 3
"""How often a value of no fixed width is held while it is gathered: as it came, together with the others, in order."""


def output_row_bytes(join: ResolvedAsof, left: Source, right: Source, left_bytes: int, right_bytes: int) -> int:
    """Return about what a left row and its matches take while they become a table, given the bytes that are shown."""
    others = [name for name in join.output_names["right"] if not is_fixed(right.schema.field(name).type)]
    right_bytes += (_KEPT - 1) * right.plain_bytes_of(others) if others else 0
    pair_bytes = (
        _MATCH_BYTES + _POINTER_BYTES + left_bytes // max(left.num_rows, 1) + right_bytes // max(right.num_rows, 1)
    )
    return pair_bytes * (1 if join.spec.how in ("semi", "anti") else join.spec.matches)


def pairs_of(pointers: Ints, *, keep_unmatched: bool) -> tuple[Ints | None, Mask | None]:
    """Return the pairs of rows that pointers stand for: the left rows, and which of the pointers are the right rows.

    The left rows are None if they are all left rows, once each; the others are None if they are the first pointer of
    each left row. With `keep_unmatched`, a left row without a match is paired with -1.
    """
    if keep_unmatched and pointers.shape[1] == 1:
        return None, None
    here = pointers >= 0
    if keep_unmatched:
        here[:, 0] = True
    return np.repeat(np.arange(len(pointers), dtype=np.int64), here.sum(axis=1)), here


def row_pairs(join: Resolved, pointers: Ints) -> tuple[Ints, Ints]:
    """Return the pairs of rows that a join shows, less right rows without a match; -1 for no right row."""
    if join.how in ("semi", "anti"):
        rows = np.flatnonzero((pointers[:, 0] >= 0) == (join.how == "semi"))
        return rows, np.full(len(rows), NOWHERE, np.int64)
    left_rows, here = pairs_of(pointers, keep_unmatched=join.how in ("left", "full"))
    lefts = np.arange(len(pointers)) if left_rows is None else left_rows
    return lefts, pointers[:, 0] if here is None else pointers[here]


def show_pointed(
    join: ResolvedAsof,
    left: Source,
    right: Source,
    pointers: Ints,
    context: JoinContext,
    *,
    codes: Ints | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join: left rows in their order, then right rows without a match where they are kept.

    `pointers` are right row numbers for each left row, best first; -1 where there are no more. `codes` are those of the
    right rows' ``on``, so that it need not be read again.
    """
    with context.progress.during("payload"):
        table = _with_matches(join, left, right, pointers, codes, context)
    yield from table.to_batches()
    if join.how in ("right", "full"):
        yield from _unmatched_right(join, right, pointers)


def _with_matches(
    join: ResolvedAsof, left: Source, right: Source, pointers: Ints, codes: Ints | None, context: JoinContext
) -> pa.Table:
    """Return the left rows with their matches."""
    how = join.how
    if how in ("semi", "anti"):
        rows, _ = row_pairs(join, pointers)
        columns = select(left, join.output_names["left"], rows, context, "payload")
        columns += [number_column(rows) for _ in join.numbered]
        return pa.table(columns, schema=join.output_schema)
    left_rows, here = pairs_of(pointers, keep_unmatched=how in ("left", "full"))
    right_rows = pointers[:, 0] if here is None else pointers[here]
    from_codes = {}
    if codes is not None:
        on = codes[:, 0] if here is None else codes[here]
        data_type = join.right_schema.field(join.right_on).type
        from_codes[join.right_on] = pa.chunked_array([join.domain.restore(on, right_rows >= 0, data_type)])
    names = [name for name in join.output_names["right"] if name not in from_codes]
    gathered = dict(zip(names, gather(right, names, right_rows, context, "payload"), strict=True)) | from_codes
    selected = iter(select(left, join.output_names["left"], left_rows, context))
    columns = [next(selected) if column.side == "left" else gathered[column.source] for column in join.output]
    if join.numbered:
        lefts = np.arange(len(pointers)) if left_rows is None else left_rows
        columns += number_columns(join, lefts, right_rows)
    return pa.table(columns, schema=join.output_schema)


def _unmatched_right(join: Resolved, right: Source, pointers: Ints) -> Iterator[pa.RecordBatch]:
    free = np.ones(right.num_rows, np.bool_)
    free[pointers[pointers >= 0]] = False
    rows = np.flatnonzero(free)
    names = [column.source if column.side == "right" else column.filled_from for column in join.output]
    # Batches without columns would have no rows either.
    wanted = list(dict.fromkeys(name for name in names if name is not None)) or right.schema.names[:1]
    for start, batch in SelectedSource(right, rows).scan(wanted):
        numbers = rows[start : start + batch.num_rows]
        columns = unmatched_columns(join, join.output_schema, batch.num_rows, batch.column)
        columns += number_columns(join, np.full(len(numbers), -1), numbers)
        yield pa.RecordBatch.from_arrays(columns, schema=join.output_schema)
