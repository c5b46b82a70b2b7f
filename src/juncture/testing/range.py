"""Range joins by comparing every left row with every right row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from juncture.spec.range import Bound, ResolvedRange
from juncture.testing.aggregate import aggregated_rows
from juncture.testing.output import matched_rows, with_computed
from juncture.testing.rows import keys, on_values, unit_of


def range_join(join: ResolvedRange, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return a range join's rows: left rows in order, their matches by ``on``, then unmatched right rows in order.

    With aggregates, one row per left row. Takes time in proportion to the product of the row counts.
    """
    left, right = with_computed(join, left, right)
    matches = list(_matches(join, left, right))
    if join.aggregates:
        order = on_values(right[join.right_on])
        windows = {name: list(_matches(join.in_window(name), left, right)) for name in join.windows}
        if windows:
            matches = [sorted({*chain(*each)}) for each in zip(*windows.values(), strict=True)]
        return aggregated_rows(join, left, right, matches, order, windows)
    return matched_rows(join, left, right, matches)


def _matches(join: ResolvedRange, left: pa.Table, right: pa.Table) -> Iterator[list[int]]:
    """Yield, for each left row, the right rows in its window."""
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
