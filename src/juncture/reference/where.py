"""Predicate joins, by trying the predicate on every pair of rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from juncture.predicate.evaluate import matches as satisfied
from juncture.predicate.nodes import Column, walk
from juncture.reference.output import matched_rows
from juncture.reference.rows import keys, plain
from juncture.spec.schema import Side
from juncture.spec.where import ResolvedWhere

__all__ = ["where_join"]


def where_join(join: ResolvedWhere, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return a predicate join's rows.

    Parameters
    ----------
    join
        The spec, resolved against the two schemas.
    left, right
        The tables.

    Returns
    -------
    pyarrow.Table
        Left rows in their order, and the matches of each in right order; then, for ``right`` and ``full``, the right
        rows without a match, in their order.

    Notes
    -----
    Takes time in proportion to the product of the two row counts: for tests, not for use.
    """
    return matched_rows(join, left, right, _matches(join, left, right))


def _matches(join: ResolvedWhere, left: pa.Table, right: pa.Table) -> Iterator[list[int]]:
    """Yield, for each left row, the right rows with which the predicate is true."""
    ours, theirs = _read(join, left, "left"), _read(join, right, "right")
    right_keys = keys(right, join.right_by)
    for row, key in enumerate(keys(left, join.left_by)):
        repeated = ours.take(pa.array([row] * right.num_rows, pa.int64()))
        passed = satisfied(join.predicate, repeated, theirs).to_pylist()
        yield [
            other
            for other, (other_key, is_match) in enumerate(zip(right_keys, passed, strict=True))
            if is_match and key is not None and other_key == key
        ]


def _read(join: ResolvedWhere, table: pa.Table, side: Side) -> pa.Table:
    """Return the columns that the predicate reads, and one more: a table without columns has no rows either."""
    names = {part.name for part in walk(join.predicate) if isinstance(part, Column) and part.side == side}
    columns = {name: plain(table[name]) for name in names}
    return pa.table({**columns, " row": pa.array(range(table.num_rows), pa.int64())})
