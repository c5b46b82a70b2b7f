"""The joined table: the columns of the matched rows, and of those without a match that the join keeps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.local.arrays import plain
from juncture.local.columns import encoded, gather, nulls, select
from juncture.local.scan import Source
from juncture.local.threads import Threads
from juncture.spec.asof import ResolvedAsof

__all__ = ["assemble", "pairs_of", "unmatched_right"]

Ints = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]


def pairs_of(pointers: Ints, *, keep_unmatched: bool) -> tuple[Ints | None, Ints]:
    """Return the pairs of rows that pointers stand for.

    Parameters
    ----------
    pointers
        Right row numbers for each left row, best first; -1 where there are no more.
    keep_unmatched
        Whether a left row without a match is paired with -1.

    Returns
    -------
    left_rows
        None if they are all left rows, once each.
    right_rows
        One for each.
    """
    here = pointers >= 0
    if keep_unmatched:
        if pointers.shape[1] == 1:
            return None, pointers[:, 0]
        here[:, 0] = True
    left_rows = np.repeat(np.arange(len(pointers), dtype=np.int64), here.sum(axis=1))
    return left_rows, pointers[here]


def unmatched_right(right_rows: int, pointers: Ints) -> Ints:
    """Return the right rows that no pointer names, ascending."""
    free = np.ones(right_rows, np.bool_)
    free[pointers[pointers >= 0]] = False
    return np.flatnonzero(free)


def assemble(
    join: ResolvedAsof,
    left: Source,
    right: Source,
    pointers: Ints,
    threads: Threads,
    progress: Progress | None = None,
) -> pa.Table:
    """Return the joined table.

    Parameters
    ----------
    join, left, right
        The join and its two sides.
    pointers
        Right row numbers for each left row, best first; -1 where there are no more.
    threads
        Who works.
    progress
        Called with the parts of the right side that are done, and those that hold matches.

    Returns
    -------
    pyarrow.Table
        Left rows in their order, then the right rows without a match where the join keeps them.
    """
    how = join.spec.how
    if how in ("semi", "anti"):
        rows = np.flatnonzero((pointers[:, 0] >= 0) == (how == "semi"))
        columns = select(left, [column.source for column in join.output], rows, threads, progress)
        return pa.table(columns, schema=join.output_schema)
    left_rows, right_rows = pairs_of(pointers, keep_unmatched=how in ("left", "full"))
    table = _pairs(join, left, right, left_rows, right_rows, threads, progress)
    if how in ("left", "inner"):
        return table
    return pa.concat_tables([table, _lonely(join, right, unmatched_right(right.num_rows, pointers), threads)])


def _pairs(
    join: ResolvedAsof,
    left: Source,
    right: Source,
    left_rows: Ints | None,
    right_rows: Ints,
    threads: Threads,
    progress: Progress | None,
) -> pa.Table:
    """Return the columns of both sides for pairs of rows."""
    theirs = [column.source for column in join.output if column.side == "right"]
    ours = [column.source for column in join.output if column.side == "left"]
    gathered = iter(gather(right, theirs, right_rows, threads, progress))
    selected = iter(select(left, ours, left_rows, threads))
    columns = [next(selected if column.side == "left" else gathered) for column in join.output]
    return pa.table(columns, schema=join.output_schema)


def _lonely(join: ResolvedAsof, right: Source, rows: Ints, threads: Threads) -> pa.Table:
    """Return right rows without a match, whose values stand in for the left columns that they would equal."""
    names = [column.source if column.side == "right" else column.filled_from for column in join.output]
    wanted = list(dict.fromkeys(name for name in names if name is not None))
    found = dict(zip(wanted, select(right, wanted, rows, threads), strict=True))
    columns = []
    for name, field in zip(names, join.output_schema, strict=True):
        if name is None:
            columns.append(pa.chunked_array([nulls(len(rows), field.type)]))
        elif found[name].type == field.type:
            columns.append(found[name])
        else:
            chunks = [encoded(plain(chunk), field.type) for chunk in found[name].chunks]
            columns.append(pa.chunked_array(chunks, field.type))
    return pa.table(columns, schema=join.output_schema)
