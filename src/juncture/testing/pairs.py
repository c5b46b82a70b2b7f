"""Joins that return all matches of a left row, by comparing every pair of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.types import plain_type
from juncture.errors import DataError
from juncture.predicate.evaluate.evaluate import matches as satisfied
from juncture.predicate.language.nodes import Column, Node, walk
from juncture.spec.condition import ResolvedInequality
from juncture.spec.equi import ResolvedEqui
from juncture.spec.overlap import Interval, ResolvedOverlap
from juncture.spec.range import Bound, ResolvedRange
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side
from juncture.spec.where import ResolvedWhere
from juncture.testing.aggregate import aggregated_rows
from juncture.testing.output import matched_rows, with_computed
from juncture.testing.rows import cell, keys, on_values, unit_of


def _answer(
    join: Resolved,
    left: pa.Table,
    right: pa.Table,
    matches: Iterable[list[int]],
    order: list[Any],
    windows: Mapping[str, list[list[int]]] = MappingProxyType({}),
) -> pa.Table:
    """Return the matches of each left row, or the aggregates over them. ``order`` orders right rows before ties."""
    if isinstance(join, ResolvedInequality) and join.aggregates:
        return aggregated_rows(join, left, right, matches, order, windows)
    return matched_rows(join, left, right, matches)


def range_join(join: ResolvedRange, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return a range join's rows: left rows in order, their matches by ``on``, then unmatched right rows in order.

    With aggregates, one row per left row. Takes time in proportion to the product of the row counts.
    """
    left, right = with_computed(join, left, right)
    matches = list(_range_matches(join, left, right))
    windows = {name: list(_range_matches(join.in_window(name), left, right)) for name in join.windows}
    if windows:
        matches = [sorted({*chain(*each)}) for each in zip(*windows.values(), strict=True)]
    return _answer(join, left, right, matches, on_values(right[join.right_on]), windows)


def _range_matches(join: ResolvedRange, left: pa.Table, right: pa.Table) -> Iterator[list[int]]:
    left_keys, right_keys = keys(left, join.left_by), keys(right, join.right_by)
    left_on, right_on = on_values(left[join.left_on]), on_values(right[join.right_on])
    lowers = _offsets(join, join.lower, left, unbounded=-math.inf)
    uppers = _offsets(join, join.upper, left, unbounded=math.inf)
    for on, key, lower, upper in zip(left_on, left_keys, lowers, uppers, strict=True):
        is_empty = lower is None or upper is None or lower > upper
        if on is None or key is None or is_empty:
            yield []
            continue
        matches = [
            other
            for other, (other_on, other_key) in enumerate(zip(right_on, right_keys, strict=True))
            if other_on is not None
            and other_key == key
            and (join.lower is None or _is_before(on + lower, other_on, join.lower.closed))
            and (join.upper is None or _is_before(other_on, on + upper, join.upper.closed))
        ]
        yield sorted(matches, key=lambda other: right_on[other])


def _is_before(one: Any, other: Any, or_equal: bool) -> bool:
    return bool(one <= other if or_equal else one < other)


def _offsets(join: ResolvedRange, bound: Bound | None, left: pa.Table, *, unbounded: float) -> list[Any]:
    """Return the distance of an end for each left row, as `on_values`; None where nothing matches."""
    if bound is None:
        return [unbounded] * left.num_rows
    if bound.column is None:
        return [(bound.constant or 0) * unit_of(join.domain)] * left.num_rows
    return on_values(left[bound.column])


Ends = tuple[Any, Any]
"""A start and an end, each None where the interval is unbounded."""


def overlap_join(join: ResolvedOverlap, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return an overlap join's rows: left rows in order, their matches by start, then unmatched right rows in order.

    With aggregates, one row per left row. Raises DataError if an interval starts after its end. Takes time in
    proportion to the product of the row counts.
    """
    left, right = with_computed(join, left, right)
    left_intervals = _intervals("left", left, join.left_interval)
    right_intervals = _intervals("right", right, join.right_interval)
    matches = _overlap_matches(
        join, left_intervals, right_intervals, keys(left, join.left_by), keys(right, join.right_by)
    )
    return _answer(join, left, right, matches, [ends[0] if ends else None for ends in right_intervals])


def _overlap_matches(
    join: ResolvedOverlap,
    left_intervals: list[Ends | None],
    right_intervals: list[Ends | None],
    left_keys: list[Any],
    right_keys: list[Any],
) -> Iterator[list[int]]:
    rights = [
        (ends, key, row)
        for row, (ends, key) in enumerate(zip(right_intervals, right_keys, strict=True))
        if ends is not None
    ]
    if join.right_interval[0] is not None:
        rights.sort(key=lambda right: right[0][0])
    for interval, key in zip(left_intervals, left_keys, strict=True):
        yield [
            row
            for ends, other_key, row in rights
            if interval is not None
            and key is not None
            and other_key == key
            and _share_a_point(interval, ends, closed=join.closed == "both")
        ]


def _share_a_point(one: Ends, other: Ends, *, closed: bool) -> bool:
    """Return whether two intervals overlap on the continuous line."""
    pairs = [(one[0], other[1]), (other[0], one[1])] + ([] if closed else [one, other])
    return all(start is None or end is None or start < end or (closed and start == end) for start, end in pairs)


def _intervals(side: str, table: pa.Table, columns: Interval) -> list[Ends | None]:
    """Return the interval of each row; None where an end is null or NaN."""
    named = [None if name is None else on_values(table[name]) for name in columns]
    intervals: list[Ends | None] = []
    for row in range(table.num_rows):
        start, end = (None if cells is None else cells[row] for cells in named)
        if any(cells is not None and cells[row] is None for cells in named):
            intervals.append(None)
            continue
        if start is not None and end is not None and start > end:
            raise DataError(f"The interval of {side} row {row} starts after its end.", name="JN-INTERVAL-REVERSED")
        intervals.append((start, end))
    return intervals


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
    matches = _key_matches(join, left, right)
    return _answer(join, left, right, matches, [0] * right.num_rows)


def _key_matches(join: ResolvedEqui | ResolvedWhere, left: pa.Table, right: pa.Table) -> Iterator[list[int]]:
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
