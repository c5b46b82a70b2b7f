"""The match report of an in-process as-of join."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import plain
from juncture.kernels.array_types import Floats, Ints
from juncture.local.asof.join import find
from juncture.local.reasons import CodedKeys, Reasons, RowReport, counts_of, reasons_of
from juncture.planner.explain.meaning import explanations_of
from juncture.planner.report import Distances, MatchReport
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import gather, select
from juncture.runtime.working_types import working
from juncture.spec.asof import ResolvedAsof

FIGURES = pa.schema([("figure", pa.string()), ("distance", pa.float64()), ("rows", pa.int64())])


@dataclass(frozen=True)
class RowMatches:
    """What an as-of search found for each left row."""

    pointers: Ints  # the best match; -1 without one
    nearest: Ints  # the best right row at any distance; -1 without one
    reasons: Reasons  # why there is no match
    tied: int  # how many rows with a match have several best ones

    @classmethod
    def of(
        cls, join: ResolvedAsof, left: Source, right: Source, context: JoinContext, *, count_ties: bool
    ) -> RowMatches:
        """Return the matches of a join in working types; which rows it keeps, and how many, has no effect.

        Where ties are counted, they are not broken: any of the best rows is a match.
        """
        ties = "greatest" if count_ties or join.spec.ties == "error" else join.spec.ties
        plainest = replace(join, how="left", spec=replace(join.spec, how="left", matches=1, ties=ties))
        matches = find(plainest, left, right, context, count_ties=count_ties, seek_nearest=True)
        assert matches.nearest is not None
        pointers = matches.pointers[:, 0]
        keys = CodedKeys.of(join, left, context)
        is_beyond = matches.nearest >= 0
        reasons = reasons_of(join, pointers >= 0, keys, left, right, context, is_beyond=is_beyond)
        return cls(pointers, matches.nearest, reasons, matches.counts["tied"])


def match_counts(
    join: ResolvedAsof, left: Source, right: Source, context: JoinContext
) -> tuple[dict[str, int], Floats | None]:
    """Return how many left rows match, tie, or have each reason for no match, and the distance of each match.

    Costs a second search, which reads ``by`` and ``on`` again and takes 32 more bytes for each matched row.
    """
    join, left, right = working(join, left, right)
    rows = RowMatches.of(join, left, right, context, count_ties=True)
    matched = np.flatnonzero(rows.pointers >= 0)
    counts = {"matched": len(matched), "ties": rows.tied, **counts_of(rows.reasons)}
    return counts, distances_between(join, left, right, matched, rows.pointers[matched], context)


def match_report(join: ResolvedAsof, left: Source, right: Source, context: JoinContext) -> MatchReport:
    """Count what becomes of the left rows of an as-of join, whichever of them it keeps, as `match_counts`."""
    counts, distances = match_counts(join, left, right, context)
    return MatchReport(
        left_rows=left.num_rows,
        right_rows=right.num_rows,
        distances=_quantiles(join, distances),
        explanations=explanations_of(join),
        **counts,
    )


def figures_of(counts: Mapping[str, int], distances: Floats | None = None) -> pa.Table:
    """Return what sums up to a match report: a row for each match that has a distance, and one for each other count.

    The column ``figure`` is ``"matched"``, a reason or ``"ties"``, and ``rows`` are how many left rows that are.
    """
    matches = np.zeros(0) if distances is None else distances
    others = {name: count for name, count in counts.items() if distances is None or name != "matched"}
    return pa.table(
        {
            "figure": ["matched"] * len(matches) + list(others),
            "distance": pa.array(np.append(matches, [np.nan] * len(others)), from_pandas=True),
            "rows": [1] * len(matches) + list(others.values()),
        },
        schema=FIGURES,
    )


def row_report(join: ResolvedAsof, left: Source, right: Source, context: JoinContext) -> RowReport:
    """Return the best match of each left row, or why there is none, and how far its nearest right row is."""
    join, left, right = working(join, left, right)
    rows = RowMatches.of(join, left, right, context, count_ties=False)
    near = np.flatnonzero(rows.nearest >= 0)
    distances = np.full(left.num_rows, np.nan)
    near_distances = distances_between(join, left, right, near, rows.nearest[near], context)
    if near_distances is not None:
        distances[near] = near_distances
    return RowReport(rows.pointers, rows.reasons, distances)


def distances_between(
    join: ResolvedAsof, left: Source, right: Source, left_rows: Ints, right_rows: Ints, context: JoinContext
) -> Floats | None:
    """Return how far the ``on`` of pairs are apart: nanoseconds of times, else in its unit; None without distances."""
    if not join.domain.has_distances:
        return None
    if len(left_rows) == 0:
        return np.zeros(0)
    [left_on] = select(left, [join.left_on], left_rows, context)
    [right_on] = gather(right, [join.right_on], right_rows, context)
    steps = join.domain.distances(*(plain(side.combine_chunks()) for side in (left_on, right_on)))
    return steps.astype(np.float64) * float(join.domain.step * (10**9 if join.domain.is_time else 1))


def _quantiles(join: ResolvedAsof, distances: Floats | None) -> Distances | None:
    if distances is None or len(distances) == 0:
        return None
    distances = np.sort(distances)
    minimum, p50, p90, p99, maximum = (
        float(distances[max(0, math.ceil(share * len(distances)) - 1)]) for share in (0.0, 0.5, 0.9, 0.99, 1.0)
    )
    return Distances(min=minimum, p50=p50, p90=p90, p99=p99, max=maximum, is_time=join.domain.is_time)
