"""Overlap joins by comparing every left row with every right row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from juncture.errors import DataError
from juncture.spec.overlap import Interval, ResolvedOverlap
from juncture.testing.aggregate import aggregated_rows
from juncture.testing.output import matched_rows, with_computed
from juncture.testing.rows import keys, on_values

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
    matches = _matches(join, left_intervals, right_intervals, keys(left, join.left_by), keys(right, join.right_by))
    if join.aggregates:
        return aggregated_rows(join, left, right, matches, [ends[0] if ends else None for ends in right_intervals])
    return matched_rows(join, left, right, matches)


def _matches(
    join: ResolvedOverlap,
    left_intervals: list[Ends | None],
    right_intervals: list[Ends | None],
    left_keys: list[Any],
    right_keys: list[Any],
) -> Iterator[list[int]]:
    """Yield, for each left row, the right rows that share a point with it."""
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
