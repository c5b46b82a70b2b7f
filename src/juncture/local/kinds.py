"""The kinds of join that run in-process: the function that runs each, and its planning input."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.kernels.asof import NOWHERE
from juncture.local.asof import join as asof
from juncture.local.asof.report import match_report
from juncture.local.computed import with_computed
from juncture.local.equi import join as equi
from juncture.local.equi.in_memory import hashed, merged
from juncture.local.inequality import join as inequality
from juncture.local.inequality.selectivity import likely_pairs
from juncture.local.output.late import RowPairs
from juncture.planner.algorithm import JoinFeatures, PlanningInput
from juncture.planner.memory import held_bytes, room_bytes
from juncture.planner.report import MatchReport
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.working_types import restore_types, working
from juncture.spec.asof import Asof
from juncture.spec.condition import ResolvedInequality
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.resolved import Resolved
from juncture.spec.where import Where

_log = logging.getLogger(__name__)

Runner = Callable[[Any, Source, Source, JoinContext], Iterator[pa.RecordBatch]]
"""Yields the rows of a join of working types, batch by batch, in the order of the left rows."""

_INEQUALITY: Mapping[str, Runner] = {
    "binary_search": partial(inequality.execute, method=inequality.BINARY_SEARCH),
    "interval_tree": partial(inequality.execute, method=inequality.INTERVAL_TREE),
    "block_nested_loop": partial(inequality.execute, method=inequality.BLOCK_NESTED_LOOP),
    "nested_loop": partial(inequality.execute, method=inequality.NESTED_LOOP),
    "external_merge": inequality.execute_on_disk,
}

RUNNERS: Mapping[type, Mapping[str, Runner]] = {
    Asof: {"probe": partial(asof.execute, merges=False), "merge": partial(asof.execute, merges=True)},
    Range: _INEQUALITY,
    Overlap: _INEQUALITY,
    Where: _INEQUALITY,
    Equi: {
        "hash": partial(equi.execute, search=hashed),
        "parallel_hash": partial(equi.execute, search=partial(hashed, partitioned=True)),
        "grace": equi.execute_grace,
        "sort_merge": partial(equi.execute, search=merged, swaps=False),
        "external_sort_merge": equi.execute_external_sort_merge,
    },
}
"""What runs each algorithm of each kind of join, by the spec and the name of the planner's row."""


def execute(
    join: Resolved,
    left: Source,
    right: Source,
    algorithm: str,
    context: JoinContext,
    *,
    schema: pa.Schema | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join, batch by batch, in the order of the left rows, by one of the algorithms of its kind.

    `schema` is `Resolved.user_schema` of the input schemas, where it is known.
    """
    left, right = with_computed(left, join, "left"), with_computed(right, join, "right")
    rows = RUNNERS[join.spec.joined_as][algorithm](*working(join, left, right), context)
    yield from restore_types(rows, join.user_schema(left.schema, right.schema) if schema is None else schema)


def match(join: Resolved, left: Source, right: Source, algorithm: str, context: JoinContext) -> Iterator[RowPairs]:
    """Yield the left and the right row numbers of a join's rows, in its order; -1 where it keeps a row without a match.

    Parameters are as for `execute`. Columns of the output are not read.
    """
    for batch in execute(join.row_pairs(), left, right, algorithm, context):
        left_rows, *right_rows = (column.fill_null(NOWHERE).to_numpy() for column in batch.columns)
        yield left_rows, right_rows[0] if right_rows else np.full(len(left_rows), NOWHERE, np.int64)


_FITTING: Mapping[type, tuple[str, str]] = {
    Asof: ("probe", "probe"),
    Range: ("binary_search", "external_merge"),
    Overlap: ("interval_tree", "external_merge"),
    Where: ("interval_tree", "external_merge"),
    Equi: ("hash", "grace"),
}
"""What joins the rows of a task: if the right ones fit in memory, and if they do not."""


def fitting(join: Resolved, left: Source, right: Source, context: JoinContext) -> str:
    """Return the algorithm for rows of a task, where a plan has been made: it depends on the memory alone."""
    in_memory, on_disk = _FITTING[join.spec.joined_as]
    stats = SideStats(rows=right.num_rows, row_bytes=right.bytes_of(join.needed("right")) // max(right.num_rows, 1))
    size_bytes = held_bytes(join, "right", stats)
    algorithm = in_memory if size_bytes is None or size_bytes <= room_bytes(context.memory.total_bytes) else on_disk
    _log.debug("Join of %d left and %d right rows by %s", left.num_rows, right.num_rows, algorithm)
    if isinstance(join, ResolvedInequality) and algorithm == in_memory and not inequality.has_order(join):
        return "block_nested_loop"
    return algorithm


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
