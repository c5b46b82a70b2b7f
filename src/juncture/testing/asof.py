"""As-of joins by comparing every left row with every right row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cmp_to_key
from heapq import nsmallest
from typing import Any

import pyarrow as pa

from juncture.errors import DataError
from juncture.spec.asof import ResolvedAsof
from juncture.testing.output import matched_rows, with_computed
from juncture.testing.pairs import passing
from juncture.testing.rows import keys, on_values, sign, tie_order, unit_of, values


def asof_join(join: ResolvedAsof, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return an as-of join's rows: left rows in order, best match first, then unmatched right rows in order.

    Raises DataError for a tie under ``ties="error"``. Takes time in proportion to the product of the row counts.
    """
    left, right = with_computed(join, left, right)
    return matched_rows(join, left, right, _matches(join, left, right))


def _matches(join: ResolvedAsof, left: pa.Table, right: pa.Table) -> Iterator[list[int]]:
    """Yield, for each left row, its matching right rows, best first."""
    spec = join.spec
    left_on, right_on = order_values(join, left, right)
    left_keys = keys(left, join.left_by, nulls_equal=spec.nulls_equal)
    right_keys = keys(right, join.right_by, nulls_equal=spec.nulls_equal)
    asof_values, available_at = available_at_values(join, left, right)
    allowed = passing(join.where, left, right)
    tie_values = list(zip(*(values(right[name]) for name in join.tie_columns), strict=True))
    by_ties = tie_order(tie_values or [()] * right.num_rows)

    def closeness(on: Any, other_on: Any, distance: Any) -> tuple[Any, ...]:
        # Distances between floats are rounded, so they only decide between the two sides; within a side the
        # values themselves decide.
        is_ahead = other_on > on
        side = (is_ahead != (spec.prefer == "later"), other_on if is_ahead else -other_on)
        return (distance, *side) if spec.direction == "nearest" else side

    def rank(a: tuple[tuple[Any, ...], Any, int], b: tuple[tuple[Any, ...], Any, int]) -> int:
        return (
            sign(a[0], b[0])
            or sign(available_at[b[2]], available_at[a[2]])
            or (by_ties(a[2], b[2]) if spec.ties == "first" else by_ties(b[2], a[2]))
        )

    rows = zip(left_on, left_keys, limits(join, left), allowed, strict=True)
    for row, (on, key, limit, others) in enumerate(rows):
        if on is None or key is None or limit is None or asof_values[row] is None:
            yield []
            continue
        near: list[tuple[tuple[Any, ...], Any, int]] = []
        for other in others:
            other_on = right_on[other]
            if (
                other_on is None
                or right_keys[other] != key
                or available_at[other] is None
                or available_at[other] > asof_values[row]
            ):
                continue
            if (spec.direction == "backward" and other_on > on) or (spec.direction == "forward" and other_on < on):
                continue
            if other_on == on and not spec.allow_exact_matches:
                continue
            distance = 0 if other_on == on or not join.domain.has_distances else abs(on - other_on)
            if distance <= limit:
                near.append((closeness(on, other_on, distance), other_on, other))
        # One more than needed, to detect a broken tie.
        nearest = nsmallest(spec.matches + 1, near, key=cmp_to_key(rank))
        best, rest = nearest[: spec.matches], nearest[spec.matches :]
        if (
            spec.ties == "error"
            and rest
            and rest[0][1] == best[-1][1]
            and available_at[rest[0][2]] == available_at[best[-1][2]]
        ):
            raise DataError(f"Right rows tie for left row {row}, and ties='error'.", name="JN-TIE")
        yield [other for _, _, other in best]


def order_values(join: ResolvedAsof, left: pa.Table, right: pa.Table) -> tuple[list[Any], list[Any]]:
    """Return the order of the rows of both sides as numbers; None where a row matches nothing."""
    left_on = on_values(left[join.left_on])
    right_on = on_values(right[join.right_on])
    if join.domain.has_distances:
        return left_on, right_on
    order = sorted({value for value in (*left_on, *right_on) if value is not None})
    ranks = {value: rank for rank, value in enumerate(order)} | {None: None}
    return [ranks[value] for value in left_on], [ranks[value] for value in right_on]


def available_at_values(join: ResolvedAsof, left: pa.Table, right: pa.Table) -> tuple[list[Any], list[Any]]:
    """Return the ``available_at`` values of both sides. A right row matches from its value on; None never matches."""
    if join.available_at is None:
        return [0] * left.num_rows, [0] * right.num_rows
    return on_values(left[join.available_at.left]), on_values(right[join.available_at.right])


def limits(join: ResolvedAsof, left: pa.Table) -> list[Any]:
    """Return the greatest distance for each left row; None where nothing matches."""
    tolerance = join.tolerance
    if tolerance is None or tolerance.column is None:
        constant = math.inf if tolerance is None or tolerance.constant is None else tolerance.constant
        return [constant * unit_of(join.domain)] * left.num_rows
    return [None if value is None or value < 0 else value for value in on_values(left[tolerance.column])]
