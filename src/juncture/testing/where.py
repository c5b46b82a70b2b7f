"""Predicate and equality joins by comparing every pair of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np
import pyarrow as pa

from juncture.columnar.types import plain_type
from juncture.predicate.evaluate.evaluate import matches as satisfied
from juncture.predicate.language.nodes import Column, Node, walk
from juncture.spec.equi import ResolvedEqui
from juncture.spec.schema import Side
from juncture.spec.where import ResolvedWhere
from juncture.testing.aggregate import aggregated_rows
from juncture.testing.output import matched_rows, with_computed
from juncture.testing.rows import cell, keys

_PAIRS_AT_ONCE = 1 << 14


def where_join(join: ResolvedWhere, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return a predicate join's rows: left rows in order, their matches in right order, then unmatched right rows.

    With aggregates, one row per left row. Takes time in proportion to the product of the row counts.
    """
    return equi_join(join, left, right)


def equi_join(join: ResolvedEqui | ResolvedWhere, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return an equality join's rows: left rows in order, their matches in right order, then unmatched right rows.

    With aggregates, one row per left row. Takes time in proportion to the product of the row counts.
    """
    left, right = with_computed(join, left, right)
    matches = _matches(join, left, right)
    if isinstance(join, ResolvedWhere) and join.aggregates:
        return aggregated_rows(join, left, right, matches, [0] * right.num_rows)
    return matched_rows(join, left, right, matches)


def _matches(join: ResolvedEqui | ResolvedWhere, left: pa.Table, right: pa.Table) -> Iterator[list[int]]:
    """Yield, for each left row, the right rows with an equal key for which the predicate is true."""
    right_keys = keys(right, join.right_by, nulls_equal=join.nulls_equal)
    passed = passing(join.predicate, left, right)
    for key, others in zip(keys(left, join.left_by, nulls_equal=join.nulls_equal), passed, strict=True):
        yield [other for other in others if key is not None and right_keys[other] == key]


def passing(predicate: Node | None, left: pa.Table, right: pa.Table) -> Iterator[Sequence[int]]:
    """Yield, for each left row, the right rows for which a predicate (None: any) is true, regardless of keys."""
    if predicate is None:
        yield from repeat(range(right.num_rows), left.num_rows)
        return
    left_rows, right_rows = _read(predicate, left, "left"), _read(predicate, right, "right")
    count = right.num_rows
    at_once = max(1, _PAIRS_AT_ONCE // max(count, 1))
    for start in range(0, left.num_rows, at_once):
        rows = np.arange(start, min(start + at_once, left.num_rows))
        one, two = left_rows.take(np.repeat(rows, count)), right_rows.take(np.tile(np.arange(count), len(rows)))
        passed = satisfied(predicate, one, two).to_numpy(zero_copy_only=False)
        for each in passed.reshape(len(rows), count):
            yield np.flatnonzero(each).tolist()


def _read(predicate: Node, table: pa.Table, side: Side) -> pa.Table:
    """Return the columns that the predicate reads, and one more, since a table without columns has no rows."""
    names = {part.name for part in walk(predicate) if isinstance(part, Column) and part.side == side}
    columns = {name: _plain(table[name]) for name in names}
    return pa.table({**columns, " row": pa.array(range(table.num_rows), pa.int64())})


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the same values without an encoding, in types that Arrow's ``take`` supports."""
    data_type = plain_type(column.type)
    while isinstance(data_type, pa.BaseExtensionType):
        data_type = plain_type(data_type.storage_type)
    if data_type != column.type:
        column = pa.chunked_array([cell(column, row) for row in range(len(column))], data_type)
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return column.cast(views[data_type]) if data_type in views else column
