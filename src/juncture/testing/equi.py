"""Equality joins by comparing the key of every left row with that of every right row."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from juncture.spec.equi import ResolvedEqui
from juncture.spec.where import ResolvedWhere
from juncture.testing.computed import with_computed
from juncture.testing.output import matched_rows
from juncture.testing.rows import keys
from juncture.testing.where import passing, where_join


def equi_join(join: ResolvedEqui | ResolvedWhere, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return an equality join's rows: left rows in order, their matches in right order, then unmatched right rows.

    With aggregates, one row per left row. Takes time in proportion to the product of the row counts.
    """
    if isinstance(join, ResolvedWhere):
        return where_join(join, left, right)
    left, right = with_computed(join, left, right)
    return matched_rows(join, left, right, _matches(join, left, right))


def _matches(join: ResolvedEqui, left: pa.Table, right: pa.Table) -> Iterator[list[int]]:
    """Yield, for each left row, the right rows with an equal key for which the predicate is true."""
    left_keys, right_keys = (
        keys(table, names, nulls_equal=join.nulls_equal)
        for table, names in ((left, join.left_by), (right, join.right_by))
    )
    every = list(range(right.num_rows))
    passed = [every] * left.num_rows if join.predicate is None else passing(join.predicate, left, right)
    for key, others in zip(left_keys, passed, strict=True):
        yield [other for other in others if key is not None and right_keys[other] == key]
