"""What a join should give, shuffle on Spark, and hold in a task, each figure with its source."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from juncture.kernels.array_types import Floats
from juncture.planner.algorithm import Algorithm, PlanningInput, held_side
from juncture.planner.decision import Estimate
from juncture.planner.memory import HELD_ROW_BYTES, held_bytes
from juncture.planner.rules import TABLE_FACTOR
from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range, ResolvedRange
from juncture.spec.where import Where

_NOT_COUNTED = "a side is not counted"


@dataclass(frozen=True, kw_only=True)
class _Matches:
    pairs: float | None = None  # how many pairs of rows; None if that is not known
    left: float | None = None  # how many rows of each side have a match
    right: float | None = None  # none if that is not known
    how: str  # the source of these figures, or why there are none


def expected_rows(planning: PlanningInput) -> Estimate:
    """Return how many rows a join should give."""
    join, how = planning.join, planning.join.how
    matches = _MATCHES[join.spec.joined_as](planning)
    left, right = planning.stats.left.rows, planning.stats.right.rows
    pairs = matches.left if join.aggregates or how == "semi" else matches.pairs
    if join.aggregates and how == "left" and left is not None:
        return Estimate(value=left, source="each left row once, with its aggregates")
    terms = [0.0 if how == "anti" else pairs]
    if how in ("left", "full", "anti"):
        terms.append(_others(left, matches.left))
    if how in ("right", "full"):
        terms.append(_others(right, matches.right))
    counts = [term for term in terms if term is not None]
    if len(counts) < len(terms):
        return Estimate(value=None, source=matches.how)
    return Estimate(value=round(sum(counts)), source=matches.how)


def _others(rows: int | None, matched: float | None) -> float | None:
    """Return how many rows of a side have no match."""
    return None if rows is None or matched is None else max(0.0, rows - matched)


def _asof_matches(planning: PlanningInput) -> _Matches:
    """Return what should match in an as-of join: one right row for each left row."""
    spec: Asof = planning.join.spec
    rows = planning.stats.left.rows
    if rows is None:
        return _Matches(how="the left side is not counted")
    if spec.how == "anti":
        return _Matches(how=f"at most the {rows:,} left rows: those without a match are not sampled")
    if spec.how == "left" and spec.matches == 1:
        return _Matches(pairs=rows, left=rows, how="each left row once")
    most = "one match" if spec.matches == 1 else f"{spec.matches} matches"
    right = planning.stats.right.rows
    taken = None if right is None else min(right, rows * spec.matches)
    return _Matches(pairs=rows * spec.matches, left=rows, right=taken, how=f"if each left row has {most}, the most")


def _equi_matches(planning: PlanningInput) -> _Matches:
    """Return what should match in an equality join, if keys are spread evenly, and those of one side are in the other.

    Source: Selinger and others, "Access path selection in a relational database management system", 1979.
    """
    join, left, right = planning.join, planning.stats.left, planning.stats.right
    if left.rows is None or right.rows is None:
        return _Matches(how=_NOT_COUNTED)
    keys = [side.distinct_keys for side in (left, right) if side.distinct_keys is not None]
    if not keys:
        return _Matches(how="keys not sampled")
    most = max(1, *keys)
    lost = (0, 0) if join.nulls_equal else (left.null_rows or 0, right.null_rows or 0)
    left_rows, right_rows = max(0, left.rows - lost[0]), max(0, right.rows - lost[1])
    how = f"{left_rows:,} * {right_rows:,} rows / {most:,} distinct keys"
    if join.predicate is not None:
        how += ", less what where= excludes"
    if left.distinct_keys is not None and right.distinct_keys is not None:
        fewest = min(left.distinct_keys, right.distinct_keys)
        matched = (left_rows * fewest / max(left.distinct_keys, 1), right_rows * fewest / max(right.distinct_keys, 1))
        return _Matches(pairs=left_rows * right_rows / most, left=matched[0], right=matched[1], how=how)
    if join.how != "inner":
        return _Matches(how="keys of one side not sampled")
    return _Matches(pairs=left_rows * right_rows / most, how=how)


def _sampled_matches(planning: PlanningInput) -> _Matches:
    """Return what should match in an overlap or predicate join, by a sample."""
    left, right, features = planning.stats.left, planning.stats.right, planning.features
    if left.rows is None or right.rows is None:
        return _Matches(how=_NOT_COUNTED)
    if features.pairs is None:
        return _Matches(how=features.pairs_how)
    return _spread(features.pairs, left.rows, right.rows, features.pairs_how)


def _range_matches(planning: PlanningInput) -> _Matches:
    """Return what should match in a range join: by a sample, or by the width of windows that are alike."""
    join: Any = planning.join
    left, right = planning.stats.left, planning.stats.right
    if left.rows is None or right.rows is None or planning.features.pairs is not None or not _is_constant(join):
        return _sampled_matches(planning)
    share, why = _window_share(join, left.on_range, right.on_range)
    if share is None:
        return _Matches(how=why)
    keys, among = 1, ""
    if join.left_by:
        distinct_counts = [side.distinct_keys for side in (left, right) if side.distinct_keys is not None]
        if not distinct_counts:
            return _Matches(how="keys not sampled")
        keys = max(1, *distinct_counts)
        among = f" / {keys:,} distinct keys"
    how = f"{left.rows:,} * {right.rows:,} rows{among} * {share:.2g}, {why}"
    return _spread(left.rows * right.rows / keys * share, left.rows, right.rows, how)


_MATCHES: Mapping[type, Callable[[PlanningInput], _Matches]] = {
    Asof: _asof_matches,
    Equi: _equi_matches,
    Range: _range_matches,
    Overlap: _sampled_matches,
    Where: _sampled_matches,
}
"""What should match in each kind of join."""


def _spread(pairs: float, left: int, right: int, how: str) -> _Matches:
    """Return matches that fall on the rows of both sides by chance."""
    sides = [rows * -math.expm1(-pairs / rows) if rows else 0.0 for rows in (left, right)]
    return _Matches(pairs=pairs, left=sides[0], right=sides[1], how=how)


Extent = tuple[float, float] | None

_GREATEST = sys.float_info.max
_LARGE = 2.0**900

_POINTS = 1_001  # at how many points of the left range a window is taken


def _window_share(join: ResolvedRange, left: Extent, right: Extent) -> tuple[float | None, str]:
    """Return what share of the right rows is in a window, if rows lie evenly in their extent, and how this is known."""
    ends = [None if bound is None else bound.constant for bound in (join.lower, join.upper)]
    if left is None or right is None:
        if None in ends:
            return 0.5, "since windows are open on one side"
        return None, "ranges of on not known"
    # Whole steps are points of their own.
    step = 0.0 if join.domain.floating else 1.0
    shares = np.linspace(0.0, 1.0, _POINTS)
    points = float_of(left[0]) * (1.0 - shares) + float_of(left[1]) * shares
    # What is beyond all floats is infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        low = points + (-np.inf if ends[0] is None else float_of(ends[0])) - step / 2
        high = points + (np.inf if ends[1] is None else float_of(ends[1])) + step / 2
    extent = float_of(right[0]), float_of(right[1])
    return covered_share(low, high, extent, step), "the part of the right range of on that a window covers"


def float_of(number: Any) -> float:
    """Return a number as a float, rounded; the greatest or least one where it is beyond all of them."""
    try:
        rounded = float(number)
    except OverflowError:
        rounded = math.inf if number > 0 else -math.inf
    return max(-_GREATEST, min(_GREATEST, rounded))


def _is_constant(join: ResolvedRange) -> bool:
    """Return whether the windows of all left rows are alike."""
    return all(bound is None or bound.constant is not None for bound in (join.lower, join.upper))


def covered_share(first: Floats, last: Floats, extent: tuple[float, float], step: float = 0.0) -> float:
    """Return what share of an extent windows cover on average; a window with a NaN is empty.

    Values are at least `step` apart: each stands for the room around it, half a step to both sides.
    """
    least, greatest = extent[0] - step / 2, extent[1] + step / 2
    if greatest == least:
        return float(np.mean((first <= least) & (last >= greatest)))
    # No float is as large as the greatest and the least are far apart, or as a sum of such lengths.
    smaller = 1.0 if max(-least, greatest) < _LARGE else 1 / _LARGE
    length = greatest * smaller - least * smaller
    with np.errstate(over="ignore", invalid="ignore"):
        covered = np.minimum(last, greatest) * smaller - np.maximum(first, least) * smaller
    # What nothing covers counts 0, and so does what is not a number.
    return float(np.mean(np.where(covered > 0, covered, 0.0)) / length)


_TOGETHER_BYTES = 64 << 20
"""Up to so much Spark puts small partitions together, as long as there is one for each core."""

_SPARK_DECIDES = Estimate(value=None, source="Spark decides how to bring rows together")


def expected_shuffle(planning: PlanningInput, algorithm: Algorithm) -> Estimate | None:
    """Return how many bytes an algorithm should shuffle on Spark, before compression; None in-process."""
    if planning.engine != "spark":
        return None
    if algorithm.sends:
        return Estimate(value=0, source=f"the {algorithm.holds} side goes to every task, rows of the other stay")
    if algorithm.shuffles is None:
        return _SPARK_DECIDES
    left, right = planning.stats.left.bytes, planning.stats.right.bytes
    if left is None or right is None:
        return Estimate(value=None, source="a side is not counted")
    if algorithm.shuffles == "once":
        return Estimate(value=left + right, source="both sides once")
    copies = _copies(planning, algorithm)
    how = f"left rows {copies[0]:.1f} times, right rows {copies[1]:.1f} times"
    return Estimate(value=round(left * copies[0] + right * copies[1]), source=how)


def expected_task(planning: PlanningInput, algorithm: Algorithm) -> Estimate | None:
    """Return what an algorithm should make a task hold on Spark; None in-process."""
    if planning.engine != "spark":
        return None
    if algorithm.sends:
        return _sent(planning, algorithm)
    if algorithm.shuffles is None:
        return _SPARK_DECIDES
    return _in_python(planning, algorithm) if algorithm.in_python else _in_jvm(planning, algorithm)


def _sent(planning: PlanningInput, algorithm: Algorithm) -> Estimate:
    """Return what the side takes that goes to every task."""
    name = held_side(planning, algorithm)
    side = planning.stats.of(name)
    if algorithm.in_python:
        return _estimate(held_bytes(planning.join, name, side), f"the {name} side whole, in Python")
    table = None if side.bytes is None else side.bytes * TABLE_FACTOR
    return _estimate(table, f"a table of the {name} side whole, in the JVM, which all its tasks share")


def _in_python(planning: PlanningInput, algorithm: Algorithm) -> Estimate:
    """Return what a partition of both sides takes in Python."""
    left = held_bytes(planning.join, "left", planning.stats.left)
    right = held_bytes(planning.join, "right", planning.stats.right)
    total = None if left is None or right is None else left + right
    share = max(1 / planning.partitions, 0.0 if algorithm.splits_keys else planning.hottest_key_share)
    return _part(total, share, "in Python; the excess spills")


def _in_jvm(planning: PlanningInput, algorithm: Algorithm) -> Estimate:
    """Return what a partition takes in the JVM: of both sides sorted, or of one as a table."""
    left, right = planning.stats.left, planning.stats.right
    if left.bytes is None or right.bytes is None or left.rows is None or right.rows is None:
        return _estimate(None, "")
    copies = _copies(planning, algorithm)
    moved = left.bytes * copies[0] + right.bytes * copies[1]
    # Adaptive execution makes as many tasks of small partitions as there are cores.
    parallel_share = min(_TOGETHER_BYTES, moved / planning.resources.cores) / max(moved, 1)
    share = max(1 / planning.partitions, parallel_share)
    if algorithm.holds is not None:
        smaller = min(left.bytes, right.bytes)
        return _part(smaller * TABLE_FACTOR, share, "as a table in the JVM, of the smaller side only")
    # A row that is sorted takes as much besides as one that Python holds.
    sorted_bytes = (left.rows * copies[0] + right.rows * copies[1]) * HELD_ROW_BYTES
    return _part(moved + sorted_bytes, share, "sorted in the JVM; the excess spills")


def _copies(planning: PlanningInput, algorithm: Algorithm) -> tuple[float, float]:
    """Return how often a row of each side moves."""
    features = planning.features
    return (features.left_copies, features.right_copies) if algorithm.shuffles == "copies" else (1.0, 1.0)


def _part(total: float | None, share: float, where: str) -> Estimate:
    return _estimate(None if total is None else total * share, f"{share:.1%} of all rows, {where}")


def _estimate(figure: float | None, how: str) -> Estimate:
    if figure is None:
        return Estimate(value=None, source="what is held is not counted")
    return Estimate(value=round(figure), source=how)
