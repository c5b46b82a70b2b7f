"""The kinds of join that run in-process: the function that runs each, and its planning input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from juncture.local.asof import join as asof
from juncture.local.asof.report import match_report
from juncture.local.computed import computing
from juncture.local.equi import join as equi
from juncture.local.inequality import join as inequality
from juncture.local.inequality.selectivity import likely_pairs
from juncture.planner.planning_input import JoinFeatures, PlanningInput
from juncture.planner.report import MatchReport
from juncture.planner.statistics import Resources, Stats
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.working_types import in_working_types
from juncture.spec.asof import Asof
from juncture.spec.condition import ResolvedInequality
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.resolved import Resolved
from juncture.spec.where import Where

Executor = Callable[[Any, Source, Source, Any, JoinContext], Iterator[pa.RecordBatch]]
"""Yields the rows of a join, batch by batch, in the order of the left rows.

Takes the resolved join, its two sides, the algorithm, and what the join may use.
"""

EXECUTORS: dict[type, Executor] = {
    Asof: computing(in_working_types(partial(asof.execute, by_number=equi.execute))),
    Range: computing(in_working_types(inequality.execute)),
    Overlap: computing(in_working_types(inequality.execute)),
    Where: computing(in_working_types(inequality.execute)),
    Equi: computing(in_working_types(equi.execute)),
}
"""What runs each kind of join, by the spec."""

REPORTS: dict[type, Callable[[Any, Source, Source, JoinContext], MatchReport]] = {Asof: match_report}
"""What counts the matches of a kind of join, by the spec."""


def planning_input(
    join: Resolved, stats: Stats, resources: Resources, sampled: tuple[pa.Table | None, pa.Table | None] = (None, None)
) -> PlanningInput:
    """Return what the choice of an algorithm depends on, given what is known and some rows of both sides."""
    features = JoinFeatures(has_keys=bool(join.left_by))
    if isinstance(join, ResolvedInequality):
        condition = join.condition
        pairs, how = likely_pairs(join, stats, *sampled)
        features = JoinFeatures(
            has_keys=bool(join.left_by or condition.equalities),
            inequalities=condition.inequalities,
            is_bounded=condition.is_bounded,
            pairs=pairs,
            pairs_how=how,
        )
    return PlanningInput(join=join, engine="local", stats=stats, resources=resources, features=features)
