"""How many rows a join should give, and how many bytes it should shuffle, each with how the figure was come by."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from juncture.kernels.array_types import Floats
from juncture.planner.planning_input import Estimate, Question
from juncture.planner.rules import SENT
from juncture.spec.asof import Asof
from juncture.spec.equi import ResolvedEqui
from juncture.spec.range import ResolvedRange

__all__ = [
    "Matches",
    "asof_matches",
    "covered_share",
    "equi_matches",
    "expected_rows",
    "expected_shuffle",
    "float_of",
    "near_matches",
]


@dataclass(frozen=True, kw_only=True)
class Matches:
    """What should match.

    Attributes
    ----------
    pairs
        How many pairs of rows; None if nobody knows.
    left, right
        How many rows of each side have a match; None if nobody knows.
    how
        How these figures were come by, or why there are none.
    """

    pairs: float | None = None
    left: float | None = None
    right: float | None = None
    how: str


def expected_rows(question: Question, matches: Matches) -> Estimate:
    """Return how many rows a join should give, given what should match.

    Examples
    --------
    Of 100 left rows 60 have a match, each with two right rows:

    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> from juncture.planner.stats import Resources
    >>> schema, resources = pa.schema([("k", pa.int64())]), Resources(cores=1, memory_bytes=1 << 30)
    >>> join = jn.Equi(on="k", how="left").resolve(schema, schema)
    >>> stats = jn.Stats(left=jn.SideStats(rows=100), right=jn.SideStats(rows=500))
    >>> question = Question(join=join, engine="local", stats=stats, resources=resources)
    >>> expected_rows(question, Matches(pairs=120, left=60, how="guessed")).value
    160
    """
    how, join = question.join.how, question.join
    left, right = question.stats.left.rows, question.stats.right.rows
    pairs = matches.left if join.aggregates or how == "semi" else matches.pairs
    if join.aggregates and how == "left" and left is not None:
        return Estimate(value=left, how="each left row once, with its aggregates")
    terms = [0.0 if how == "anti" else pairs]
    if how in ("left", "full", "anti"):
        terms.append(_others(left, matches.left))
    if how in ("right", "full"):
        terms.append(_others(right, matches.right))
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        return Estimate(value=None, how=matches.how)
    return Estimate(value=round(sum(known)), how=matches.how)


def _others(rows: int | None, matched: float | None) -> float | None:
    """Return how many rows of a side have no match."""
    return None if rows is None or matched is None else max(0.0, rows - matched)


def asof_matches(question: Question) -> Matches:
    """Return what should match in an as-of join: each left row one right row, as far as anyone can tell."""
    spec, rows = question.join.spec, question.stats.left.rows
    assert isinstance(spec, Asof)
    if rows is None:
        return Matches(how="nobody has counted the left rows")
    if spec.how == "anti":
        return Matches(how=f"at most the {rows:,} left rows: nobody has looked which have no match")
    if spec.how == "left" and spec.matches == 1:
        return Matches(pairs=rows, left=rows, how="each left row once")
    most = "one match" if spec.matches == 1 else f"{spec.matches} matches"
    right = question.stats.right.rows
    taken = None if right is None else min(right, rows * spec.matches)
    return Matches(pairs=rows * spec.matches, left=rows, right=taken, how=f"if each left row has {most}, the most")


def equi_matches(question: Question) -> Matches:
    """Return what should match in an equality join, if keys are spread evenly, and those of one side are in the other.

    Notes
    -----
    Source: Selinger and others, "Access path selection in a relational database management system", 1979.
    """
    assert isinstance(question.join, ResolvedEqui)
    left, right = question.stats.left, question.stats.right
    if left.rows is None or right.rows is None:
        return Matches(how="nobody has counted both sides")
    keys = [side.keys for side in (left, right) if side.keys is not None]
    if not keys:
        return Matches(how="nobody has looked at the keys")
    most = max(1, *keys)
    lost = (0, 0) if question.join.nulls_equal else (left.nulls or 0, right.nulls or 0)
    ours, theirs = max(0, left.rows - lost[0]), max(0, right.rows - lost[1])
    how = f"{ours:,} * {theirs:,} rows / {most:,} distinct keys"
    if question.join.predicate is not None:
        how += ", of which where= may leave out some"
    if left.keys is not None and right.keys is not None:
        fewest = min(left.keys, right.keys)
        matched = (ours * fewest / max(left.keys, 1), theirs * fewest / max(right.keys, 1))
        return Matches(pairs=ours * theirs / most, left=matched[0], right=matched[1], how=how)
    if question.join.how != "inner":
        return Matches(how="nobody has looked at the keys of both sides")
    return Matches(pairs=ours * theirs / most, how=how)


def near_matches(question: Question) -> Matches:
    """Return what should match in a join of rows that lie near each other: by a sample, or by a window's width."""
    left, right = question.stats.left, question.stats.right
    if left.rows is None or right.rows is None:
        return Matches(how="nobody has counted both sides")
    offer, join = question.offer, question.join
    if offer.pairs is not None:
        return _spread(offer.pairs, left.rows, right.rows, offer.pairs_how)
    if not isinstance(join, ResolvedRange) or not _is_constant(join):
        return Matches(how=offer.pairs_how)
    share, why = _window_share(join, left.extent, right.extent)
    if share is None:
        return Matches(how=why)
    keys, among = 1, ""
    if join.left_by:
        known = [side.keys for side in (left, right) if side.keys is not None]
        if not known:
            return Matches(how="nobody has looked at the keys")
        keys = max(1, *known)
        among = f" / {keys:,} distinct keys"
    how = f"{left.rows:,} * {right.rows:,} rows{among} * {share:.2g}, {why}"
    return _spread(left.rows * right.rows / keys * share, left.rows, right.rows, how)


def _spread(pairs: float, left: int, right: int, how: str) -> Matches:
    """Return matches that fall on the rows of both sides by chance."""
    sides = [rows * -math.expm1(-pairs / rows) if rows else 0.0 for rows in (left, right)]
    return Matches(pairs=pairs, left=sides[0], right=sides[1], how=how)


Extent = tuple[float, float] | None

_GREATEST = sys.float_info.max
_LARGE = 2.0**900

_PLACES = 1_001
"""At how many places of the left extent a window is looked at."""


def _window_share(join: ResolvedRange, left: Extent, right: Extent) -> tuple[float | None, str]:
    """Return what share of the right rows is in a window, if rows lie evenly in their extent, and how this is known."""
    ends = [None if bound is None else bound.constant for bound in (join.lower, join.upper)]
    if left is None or right is None:
        if None in ends:
            return 0.5, "since windows are open on one side"
        return None, "nobody has looked from where to where the rows lie"
    # Whole steps are points of their own.
    step = 0.0 if join.domain.kind == "float" else 1.0
    shares = np.linspace(0.0, 1.0, _PLACES)
    places = float_of(left[0]) * (1.0 - shares) + float_of(left[1]) * shares
    # What is beyond all floats is infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        low = places + (-np.inf if ends[0] is None else float_of(ends[0])) - step / 2
        high = places + (np.inf if ends[1] is None else float_of(ends[1])) + step / 2
    extent = float_of(right[0]), float_of(right[1])
    return covered_share(low, high, extent, step), "the part of the right extent that a window covers"


def float_of(number: Any) -> float:
    """Return a number as a float, rounded; the greatest or least one where it is beyond all of them.

    Examples
    --------
    >>> float_of(10**400), float_of(-math.inf)
    (1.7976931348623157e+308, -1.7976931348623157e+308)
    """
    try:
        near = float(number)
    except OverflowError:
        near = math.inf if number > 0 else -math.inf
    return max(-_GREATEST, min(_GREATEST, near))


def _is_constant(join: ResolvedRange) -> bool:
    """Tell whether the windows of all left rows are alike."""
    return all(bound is None or bound.constant is not None for bound in (join.lower, join.upper))


def covered_share(first: Floats, last: Floats, extent: tuple[float, float], step: float = 0.0) -> float:
    """Return what share of an extent windows cover on average.

    Parameters
    ----------
    first, last
        The ends of the windows. NaN is an empty one.
    extent
        The least and the greatest value.
    step
        How far apart values are at least: each stands for the room around it, half a step to both sides.

    Examples
    --------
    >>> covered_share(np.array([0.0, 95.0]), np.array([10.0, 105.0]), (0.0, 100.0))
    0.075
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


_SHUFFLED = ("hash", "range", "shuffle_hash", "sort_merge", "window")


def expected_shuffle(question: Question, algorithm: str) -> Estimate | None:
    """Return how many bytes an algorithm should shuffle on Spark, before compression; None in-process."""
    if question.engine != "spark":
        return None
    if algorithm in SENT:
        return Estimate(value=0, how=f"the {SENT[algorithm]} side goes to every task, rows of the other stay")
    if algorithm not in (*_SHUFFLED, "bucket"):
        return Estimate(value=None, how="Spark decides how to bring rows together")
    left, right = question.stats.left.bytes, question.stats.right.bytes
    if left is None or right is None:
        return Estimate(value=None, how="nobody has counted both sides")
    if algorithm == "bucket":
        copies = question.offer.left_copies, question.offer.right_copies
        how = f"left rows {copies[0]:.1f} times, right rows {copies[1]:.1f} times"
        return Estimate(value=round(left * copies[0] + right * copies[1]), how=how)
    return Estimate(value=left + right, how="both sides once")
