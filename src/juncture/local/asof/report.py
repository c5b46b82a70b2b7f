"""The match report of an in-process as-of join."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import plain
from juncture.columnar.order_encoding import StepCoder, TooWideError, steps_of
from juncture.local.asof.join import find
from juncture.planner.explain.counts import explanations_of
from juncture.planner.report import Distances, MatchReport
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import gather, select
from juncture.runtime.working_types import working
from juncture.spec.asof import ResolvedAsof


def match_report(join: ResolvedAsof, left: Source, right: Source, context: JoinContext) -> MatchReport:
    """Count what becomes of the left rows of an as-of join.

    Parameters
    ----------
    join
        The spec, resolved against the schemas of the inputs. Which rows it keeps, and how many for each left row, is
        without effect.
    left, right
        The inputs.
    context
        What the join may use.

    Raises
    ------
    DataError
        If a file cannot be read.

    Notes
    -----
    Costs a second search: the ``by`` and ``on`` columns are read again, others are not. Takes 32 bytes for each
    matched row beside the memory of the search.
    """
    join, left, right = working(join, left, right)
    plainest = replace(join, spec=replace(join.spec, how="left", matches=1, ties="greatest"))
    # Row groups that cannot match are read too: their keys are known all the same.
    found = find(plainest, left, right, "probe", context, count_ties=True, skip_parts=False)
    counts = found.report
    assert counts is not None
    pointers = found.pointers[:, 0]
    rows = np.flatnonzero(pointers >= 0)
    [left_on] = select(left, [join.left_on], rows, context)
    [right_on] = gather(right, [join.right_on], pointers[rows], context)
    # Without keys there is none to be unknown: the right side is just empty.
    unknown = counts.unknown_key if join.left_by else 0
    return MatchReport(
        left_rows=counts.left_rows,
        right_rows=counts.right_rows,
        matched=counts.matched,
        null_on=counts.null_on,
        null_key=counts.null_key,
        unknown_key=unknown,
        no_candidate=counts.no_candidate + counts.unknown_key - unknown,
        beyond_tolerance=counts.beyond_tolerance,
        ties=found.tied,
        distances=_distances(join, left_on, right_on) if len(rows) and not join.domain.is_ranked else None,
        explanations=explanations_of(plainest),
    )


def _distances(join: ResolvedAsof, left: pa.ChunkedArray, right: pa.ChunkedArray) -> Distances:
    """Measure how far pairs of values are apart, none of them null."""
    steps = np.sort(_steps_between(join, left, right))
    domain = join.domain
    unit = float(domain.step_ns) if domain.is_time else 10.0**-domain.scale
    minimum, p50, p90, p99, maximum = (
        float(steps[max(0, math.ceil(share * len(steps)) - 1)]) * unit for share in (0.0, 0.5, 0.9, 0.99, 1.0)
    )
    return Distances(min=minimum, p50=p50, p90=p90, p99=p99, max=maximum, is_time=domain.is_time)


def _steps_between(join: ResolvedAsof, left: pa.ChunkedArray, right: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return distances in steps of the domain: exact in 64 bits where that is possible, else rounded."""
    sides = [plain(side.combine_chunks()) for side in (left, right)]
    if join.domain.kind == "float":
        ours, theirs = (side.cast(pa.float64(), safe=False).to_numpy() for side in sides)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(ours == theirs, 0.0, np.abs(ours - theirs))
    coder = StepCoder.of(join)
    try:
        ours, theirs = (coder.encode(side)[0] for side in sides)
    except TooWideError:
        pairs = zip(*(steps_of(side, join.domain) for side in sides), strict=True)
        return np.array([float(abs(a - b)) for a, b in pairs if a is not None and b is not None])
    # Differences of 64-bit integers fit in 64 bits without a sign.
    return np.where(
        ours < theirs, theirs.view(np.uint64) - ours.view(np.uint64), ours.view(np.uint64) - theirs.view(np.uint64)
    )
