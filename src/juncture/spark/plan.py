"""Plans of joins on Spark: opens the inputs, resolves the join, and runs the planning of its kind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from juncture.columnar.types import is_null_type
from juncture.errors import PlanError, spark_errors
from juncture.inputs.kinds import is_spark_frame, kind_of
from juncture.planner.plan import Plan
from juncture.planner.report import Measured
from juncture.planner.statistics import Resources, Stats
from juncture.runtime.progress import Report
from juncture.spark.asof.plan import AsofPlanning, match_report
from juncture.spark.equi.plan import EquiPlanning
from juncture.spark.exchange import BuiltJoin, restore_types
from juncture.spark.inequality.plan import InequalityPlanning
from juncture.spark.input.plain_scan import open_side
from juncture.spark.input.sides import FileSide, SparkSide, as_frames
from juncture.spark.planning import Planning, PlanRequest
from juncture.spark.schema import check_times, check_types
from juncture.spark.session.profile import measure
from juncture.spark.session.session import resources as resources_of
from juncture.spark.sql import computed_sides
from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES
from juncture.spec.where import Where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

PLANNINGS: dict[type, Callable[[PlanRequest], Planning]] = {
    Asof: AsofPlanning,
    Range: InequalityPlanning,
    Overlap: InequalityPlanning,
    Where: InequalityPlanning,
    Equi: EquiPlanning,
}
"""The planning class of each kind of join."""


@spark_errors()
def plan(
    spec: Any,
    left: Any,
    right: Any,
    *,
    algorithm: str = "auto",
    session: SparkSession | None = None,
    lazy: bool = False,
    stats: Stats | None = None,
) -> Plan:
    """Plan a join of DataFrames, Parquet files that tasks read, or open sides; `session` defaults to a DataFrame's."""
    session = session or next(table for table in (left, right) if kind_of(table, "left") == "spark").sparkSession
    resources = resources_of(session)
    left_side, right_side = (
        open_side(table, name, session, resources.cores) for table, name in zip((left, right), SIDES, strict=True)
    )
    join = _resolved(
        spec, (_schema_given(left, left_side), _schema_given(right, right_side)), (left_side.schema, right_side.schema)
    )
    check_times(left_side.spark_schema, right_side.spark_schema, session)
    join, left_side, right_side = computed_sides(join, left_side, right_side)
    check_types(join, left_side.spark_schema, right_side.spark_schema)
    return plan_resolved(join, left_side, right_side, resources, algorithm=algorithm, lazy=lazy, stats=stats)


def plan_resolved(
    join: Resolved,
    left: SparkSide,
    right: SparkSide,
    resources: Resources,
    *,
    algorithm: str = "auto",
    lazy: bool = False,
    stats: Stats | None = None,
) -> Plan:
    """Plan a resolved join of open inputs, which have all columns that it compares."""
    join, left_typed, right_typed = typed_sides(join, left, right)
    request = PlanRequest(
        join=join, left=left_typed, right=right_typed, user_stats=stats, resources=resources, lazy=lazy
    )
    # An equality join with aggregates is planned as a predicate join.
    planning = PLANNINGS[join.spec.joined_as](request)
    planning.check(algorithm)
    choice, built = planning.run(algorithm)
    # The result gets back the null types of the inputs, which `typed_sides` replaced.
    query = Query(restore_types(built.frame, join, left, right))
    jobs = (*planning.statistics.jobs, *built.jobs)
    if jobs:
        _log.info("Ran to plan a join on Spark: %s", "; ".join(jobs))
    return Plan(
        join=join,
        engine="spark",
        choice=choice,
        stats=planning.statistics.stats,
        resources=resources,
        jobs=jobs,
        details=built.details,
        _run=query.execute,
        _measure=query.measure,
        _replay=partial(_replayed, join, built) if built.tasks else None,
        _count_matches=partial(match_report, request.join, left_typed, right_typed, planning.partitions())
        if join.spec.ranks_matches
        else None,
    )


@spark_errors()
def _replayed(join: Resolved, built: BuiltJoin, partition: int) -> pa.Table:
    """Return the rows of one partition of a result, computed in this process."""
    schema = join.output_schema
    tables = [table.rename_columns(schema.names) for table in built.replayed(partition)]
    return pa.concat_tables(tables, promote_options="permissive") if tables else schema.empty_table()


@dataclass(frozen=True)
class Query:
    """A result that Spark computes at the next action, bound to its session."""

    frame: DataFrame

    def execute(self, _report: Report | None) -> DataFrame:
        """Return the result."""
        return self.frame

    @spark_errors()
    def measure(self, _report: Report | None, keep: bool) -> tuple[Measured, Any]:
        """Compute the result; return its measurements, and the result if `keep`."""
        return measure(self.frame), self.frame if keep else None

    def __reduce__(self) -> NoReturn:
        """Raise, since a plan is bound to its session."""
        raise PlanError(
            "Plans on Spark cannot be pickled or copied, since they need the session. Pass plan.join.spec instead, "
            "and plan it again where a session exists.",
            name="JN-PLAN-PICKLE",
        )


def _schema_given(table: Any, side: SparkSide) -> pa.Schema:
    """Return the schema of a table as the user passed it: files may have encodings that Spark lacks."""
    return side.given_schema if isinstance(side, FileSide) and not is_spark_frame(table) else side.schema


def _resolved(spec: Any, user_schemas: tuple[pa.Schema, pa.Schema], schemas: tuple[pa.Schema, pa.Schema]) -> Resolved:
    """Resolve a join against the user's schemas, over those of Spark's rows, which have no encodings."""
    join: Resolved = spec.resolve(*user_schemas)
    return (
        join if user_schemas == schemas else join.over(*map(_read_as, (join.left_schema, join.right_schema), schemas))
    )


def _read_as(resolved: pa.Schema, read: pa.Schema) -> pa.Schema:
    """Return a schema of the resolved join with the types of Spark's rows, except for computed and null columns."""
    types = {field.name: field.type for field in read if not is_null_type(field.type)}
    return pa.schema([field.with_type(types.get(field.name, field.type)) for field in resolved], read.metadata)


def typed_sides(join: Resolved, left: SparkSide, right: SparkSide) -> tuple[Resolved, SparkSide, SparkSide]:
    """Return a join and its inputs, with columns of the null type cast to the type that the join assumes."""
    if (join.left_schema, join.right_schema) == (left.schema, right.schema):
        return join, left, right
    # Tasks that read files cannot cast, but DataFrames can.
    join, left_side, right_side = as_frames(join, left, right)
    return join, left_side.typed(join.left_schema), right_side.typed(join.right_schema)
