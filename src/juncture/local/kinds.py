"""The kinds of join that run in-process: what runs each, and what it tells the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from juncture.local.asof import join as asof
from juncture.local.equi import join as equi
from juncture.local.inequality import overlap, where
from juncture.local.inequality import range as ranges
from juncture.local.inequality.selectivity import likely_pairs
from juncture.planner.planning_input import JoinFeatures, PlanningInput
from juncture.planner.stats import Resources, Stats
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.working_types import in_working_types
from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap, ResolvedOverlap
from juncture.spec.range import Range, ResolvedRange
from juncture.spec.resolved import Resolved
from juncture.spec.where import ResolvedWhere, Where

__all__ = ["EXECUTORS", "Executor", "planning_input"]


Executor = Callable[[Any, Source, Source, Any, JoinContext], Iterator[pa.RecordBatch]]
"""Yields the rows of a join, batch by batch, in the order of the left rows.

Takes the resolved join, its two sides, the algorithm, and what the join may use.
"""

EXECUTORS: dict[type, Executor] = {
    Asof: in_working_types(partial(asof.execute, by_number=equi.execute)),
    Range: in_working_types(ranges.execute),
    Overlap: in_working_types(overlap.execute),
    Where: in_working_types(where.execute),
    Equi: in_working_types(equi.execute),
}
"""What runs each kind of join, by the spec."""


def planning_input(
    join: Resolved, stats: Stats, resources: Resources, sampled: tuple[pa.Table | None, pa.Table | None] = (None, None)
) -> PlanningInput:
    """Return what the choice of an algorithm depends on, given what is known and some rows of both sides."""
    features = _features(join)
    if isinstance(join, ResolvedRange | ResolvedOverlap | ResolvedWhere):
        pairs, how = likely_pairs(join, stats, *sampled)
        features = replace(features, pairs=pairs, pairs_how=how)
    return PlanningInput(join=join, engine="local", stats=stats, resources=resources, features=features)


def _features(join: Resolved) -> JoinFeatures:
    """Return what the conditions of a join bring rows together by."""
    if isinstance(join, ResolvedWhere):
        return where.Conditions.of(join).features
    has_keys = bool(join.left_by)
    if isinstance(join, ResolvedRange):
        is_bounded = join.lower is not None and join.upper is not None
        return JoinFeatures(has_keys=has_keys, inequalities=1, is_bounded=is_bounded)
    if isinstance(join, ResolvedOverlap):
        return JoinFeatures(has_keys=has_keys, inequalities=2, is_bounded=True)
    return JoinFeatures(has_keys=has_keys)
