"""Plans of joins of streams, which have no end: such plans neither measure the join nor count its matches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from juncture.errors import PlanError
from juncture.planner.decision import Choice, Estimate, Option
from juncture.planner.plan import Plan
from juncture.planner.statistics import SideStats, Stats
from juncture.spark.input.sides import SparkSide
from juncture.spark.plan import Query
from juncture.spark.schema import check_times, check_types
from juncture.spark.session.session import resources
from juncture.spec.resolved import Resolved, refuse_computed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNENDING = "no time is estimated, since a stream has no end"


def resolved_streams(spec: Any, sides: Sequence[SparkSide], what: str) -> Resolved:
    """Return a join whose columns Spark and streams support."""
    left, right = sides
    join: Resolved = spec.resolve(left.schema, right.schema)
    refuse_computed(join, what)
    check_times(left.spark_schema, right.spark_schema, left.session)
    check_types(join, left.spark_schema, right.spark_schema)
    return join


def endless_plan(
    join: Resolved,
    frame: DataFrame,
    session: SparkSession,
    *,
    algorithm: str,
    summary: str,
    reason: str,
    details: Iterable[tuple[str, str]],
) -> Plan:
    """Return the plan of a join by the only algorithm for it, whose result is ``frame``."""
    choice = Choice(
        algorithm=algorithm,
        reason=reason,
        options=(Option(algorithm=algorithm, summary=summary, remark=UNENDING),),
        output_rows=Estimate(value=None, source="streams have no end"),
        shuffle_bytes=None,
        task_bytes=None,
    )
    return Plan(
        join=join,
        engine="spark",
        choice=choice,
        stats=Stats(left=SideStats(), right=SideStats()),
        resources=resources(session),
        details=tuple(details),
        _run=Query(frame).execute,
        **_REFUSED,
    )


def without_end(plan: Plan) -> Plan:
    """Return a plan that refuses methods that read a stream to its end."""
    return replace(plan, **_REFUSED)


def _refuse(method: str, *_arguments: object) -> NoReturn:
    raise PlanError(
        f"{method}, but a stream does not end. Start a query on the result of execute(), and read the number of rows "
        "from its lastProgress.",
        name="JN-STREAM-ENDLESS",
    )


_REFUSED: dict[str, Any] = {
    "_measure": partial(_refuse, "analyze() runs a join to its end"),
    "_count_matches": partial(_refuse, "match_report() reads all left rows"),
}
