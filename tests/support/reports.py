"""The match report by brute force."""

from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa

from juncture.planner.report import Distances, MatchReport
from juncture.spec.asof import ResolvedAsof
from juncture.testing.asof import limits
from juncture.testing.rows import keys, on_values

__all__ = ["expected_report"]


def expected_report(join: ResolvedAsof, left: pa.Table, right: pa.Table) -> MatchReport:
    left_on = on_values(left[join.left_on], join.domain)
    right_on = on_values(right[join.right_on], join.domain)
    left_keys, right_keys = keys(left, join.left_by), keys(right, join.right_by)
    usable = [(on, key) for on, key in zip(right_on, right_keys, strict=True) if on is not None and key is not None]
    counts, distances = Counter(), []
    for on, key, limit in zip(left_on, left_keys, limits(join, left), strict=True):
        of_key = [other for other, other_key in usable if other_key == key]
        there = [other for other in of_key if wanted(join, on, other)] if on is not None else []
        best = min(there, key=lambda other: (distance(on, other), other), default=None)
        if on is None:
            counts["null_on"] += 1
        elif key is None:
            counts["null_key"] += 1
        elif not of_key and join.left_by:
            counts["unknown_key"] += 1
        elif best is None:
            counts["nothing_there"] += 1
        elif limit is None or distance(on, best) > limit:
            counts["too_far"] += 1
        else:
            counts["matched"] += 1
            counts["ties"] += there.count(best) > 1
            distances.append(distance(on, best))
    names = ("matched", "null_on", "null_key", "unknown_key", "nothing_there", "too_far", "ties")
    return MatchReport(
        left_rows=left.num_rows,
        right_rows=right.num_rows,
        distances=quantiles(join, sorted(distances)) if distances else None,
        **{name: counts[name] for name in names},
    )


def wanted(join: ResolvedAsof, on, other) -> bool:
    if other == on:
        return join.spec.allow_exact_matches
    return join.spec.direction == "nearest" or (other < on) == (join.spec.direction == "backward")


def distance(on, other):
    return 0 if on == other else abs(on - other)


def quantiles(join: ResolvedAsof, distances: list) -> Distances:
    unit = join.domain.step_ns if join.domain.is_time else 10.0**-join.domain.scale
    shares = {"minimum": 0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "maximum": 1}
    values = {
        name: float(distances[max(0, math.ceil(share * len(distances)) - 1)]) * unit for name, share in shares.items()
    }
    return Distances(is_time=join.domain.is_time, **values)
