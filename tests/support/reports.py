"""The match report by brute force."""

from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa

from juncture.planner.explain.meaning import explanations_of
from juncture.planner.report import Distances, MatchReport
from juncture.spec.asof import ResolvedAsof
from juncture.testing.asof import available_at_values, limits, order_values
from juncture.testing.output import with_computed
from juncture.testing.pairs import passing
from juncture.testing.rows import keys, unit_of

__all__ = ["expected_report"]


def expected_report(join: ResolvedAsof, left: pa.Table, right: pa.Table) -> MatchReport:
    left, right = with_computed(join, left, right)
    left_on, right_on = order_values(join, left, right)
    left_keys, right_keys = (
        keys(table, names, nulls_equal=join.nulls_equal)
        for table, names in ((left, join.left_by), (right, join.right_by))
    )
    seen, known = available_at_values(join, left, right)
    rows = list(zip(right_on, right_keys, known, strict=True))
    has_on = [row for row in rows if row[0] is not None]
    usable = [row for row in has_on if None not in row]
    counts, distances = Counter(), []
    allowed = passing(join.where, left, right)
    for on, key, limit, sees, others in zip(left_on, left_keys, limits(join, left), seen, allowed, strict=True):
        has_key = any(other_key == key for _, other_key, _ in has_on)
        of_key = [rows[other][::2] for other in others if rows[other] in usable and rows[other][1] == key]
        there = [
            (other, since)
            for other, since in of_key
            if None not in (on, sees) and since <= sees and wanted(join, on, other)
        ]
        later = join.spec.prefer == "later"
        nearest = min(
            there, key=lambda row: (distance(on, row[0]), (row[0] > on) != later, -row[1]), default=(None, None)
        )
        best = nearest[0]
        if on is None:
            counts["null_on"] += 1
        elif key is None:
            counts["null_key"] += 1
        elif not has_key and join.left_by:
            counts["unknown_key"] += 1
        elif best is None:
            counts["no_candidate"] += 1
        elif limit is None or distance(on, best) > limit:
            counts["beyond_tolerance"] += 1
        else:
            counts["matched"] += 1
            counts["ties"] += there.count(nearest) > 1
            distances.append(distance(on, best))
    names = ("matched", "null_on", "null_key", "unknown_key", "no_candidate", "beyond_tolerance", "ties")
    return MatchReport(
        left_rows=left.num_rows,
        right_rows=right.num_rows,
        distances=quantiles(join, sorted(distances)) if distances and join.domain.has_distances else None,
        explanations=explanations_of(join),
        **{name: counts[name] for name in names},
    )


def wanted(join: ResolvedAsof, on, other) -> bool:
    if other == on:
        return join.spec.allow_exact_matches
    return join.spec.direction == "nearest" or (other < on) == (join.spec.direction == "backward")


def distance(on, other):
    return 0 if on == other else abs(on - other)


def quantiles(join: ResolvedAsof, distances: list) -> Distances:
    unit = unit_of(join.domain)
    shares = {"min": 0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1}
    values = {
        name: float(distances[max(0, math.ceil(share * len(distances)) - 1)] / unit) * float(unit)
        for name, share in shares.items()
    }
    return Distances(is_time=join.domain.is_time, **values)
