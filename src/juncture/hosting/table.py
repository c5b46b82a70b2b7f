"""Joins of a stream with a table: every task has the whole table, and joins each micro-batch with it.

There is no state and no shuffle. The table is the one that existed at planning: a DataFrame is collected then, and
Parquet files that have changed since raise an error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from juncture.errors import PlanError
from juncture.hosting.refusals import UNENDING, refuse_to_count, refuse_to_measure
from juncture.inputs import is_stream, kind_of
from juncture.planner.plan import Plan
from juncture.planner.statistics import Stats
from juncture.spark.plan import plan as plan_of_tables
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ALGORITHM = "broadcast"


def plan_with_table(
    spec: Any,
    left: Any,
    right: Any,
    *,
    algorithm: str = "auto",
    session: SparkSession | None = None,
    lazy: bool = False,
    stats: Stats | None = None,
) -> Plan:
    """Plan a join of a stream with a table; the stream must be the left side."""
    if is_stream(right):
        raise PlanError(
            "The right table is a streaming DataFrame, but the left one is not, so each new right row would change "
            "earlier results. Pass the stream as the left table, or join inside foreachBatch, where each micro-batch "
            "is a table.",
            name="JN-STREAM-RIGHT",
        )
    _check(spec, algorithm, lazy=lazy, is_read=kind_of(right, "right") == "spark")
    planned = plan_of_tables(spec, left, right, algorithm=_ALGORITHM, session=session, stats=stats)
    return _unending(planned, "left", right)


def plan_of_left_table(spec: Any, left: Any, right: DataFrame) -> Plan:
    """Plan a join of a table with a stream, for ``how`` "inner" and "right", which each right row decides alone."""
    planned = plan_of_tables(spec, left, right, algorithm=f"{_ALGORITHM}_left")
    return _unending(planned, "right", left)


def _unending(planned: Plan, side: Side, table: Any) -> Plan:
    """Return a plan that says which side is a stream, and refuses methods that need an end."""
    options = tuple(
        replace(option, cost_s=None, remark=UNENDING) if option.algorithm == planned.algorithm else option
        for option in planned.choice.options
    )
    reason = f"the {side} side is a stream, which cannot be shuffled or buffered"
    return replace(
        planned,
        choice=replace(planned.choice, reason=reason, options=options),
        details=(*planned.details, *_words(side, table)),
        _measure=refuse_to_measure,
        _count_matches=refuse_to_count,
    )


def _check(spec: Any, algorithm: str, *, lazy: bool, is_read: bool) -> None:
    """Raise an error for joins that a stream with a table does not support."""
    if spec.how in ("right", "full"):
        kept = "inner" if spec.how == "right" else "left"
        raise PlanError(
            f"how={spec.how!r} returns unmatched right rows, but a stream has no end at which they are known. Pass "
            f"how={kept!r}, and find unmatched right rows with a join of tables.",
            name="JN-STREAM-HOW",
        )
    if algorithm not in ("auto", _ALGORITHM):
        raise PlanError(
            f"algorithm={algorithm!r} needs all left rows, but the left table is a stream. Pass algorithm='auto', "
            "which sends the right table to every task.",
            name="JN-ALGORITHM-UNSUITABLE",
        )
    if lazy and is_read:
        raise PlanError(
            "lazy=True does not allow Juncture to collect the right table, which every task of a stream needs. "
            "Remove lazy=, or pass the right table as a path to Parquet files, which tasks read themselves.",
            name="JN-LAZY-COLLECT",
        )


def _words(side: Side, table: Any) -> tuple[tuple[str, str], ...]:
    """Return the lines of `explain()` on the stream."""
    if kind_of(table, "left" if side == "right" else "right") == "spark":
        read = "as of planning; plan the join again to see newer rows"
    else:
        read = "read by each task from the files as of planning, which must not change"
    return (
        ("stream", f"the {side} side; each micro-batch is joined on its own, and its rows are final"),
        ("state", "none"),
        ("table", read),
    )
