"""Plans of joins on Spark: what is known of the inputs, the choice, and the query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from juncture.inputs import kind_of, paths_of
from juncture.planner.choose import choose
from juncture.planner.plan import Plan
from juncture.planner.question import Choice, Question
from juncture.planner.stats import Resources, Stats
from juncture.spark.asof import Built, build, partition_count
from juncture.spark.asof_native import has_native
from juncture.spark.extent import reachable
from juncture.spark.files import FileSide
from juncture.spark.near_plan import Kind, NearPlanning
from juncture.spark.overlap import overlap_pairs, overlap_places
from juncture.spark.partition import Sample
from juncture.spark.range import range_pairs, range_places
from juncture.spark.session import resources as resources_of
from juncture.spark.sides import FrameSide, Side
from juncture.spark.stats import Survey
from juncture.spark.where import where_pairs, where_places
from juncture.spec.asof import Asof, ResolvedAsof
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["plan_asof", "plan_overlap", "plan_range", "plan_where"]

_SENT = {"broadcast": "right", "broadcast_left": "left"}


def plan_asof(
    spec: Asof,
    left: Any,
    right: Any,
    *,
    algorithm: str = "auto",
    session: SparkSession | None = None,
    lazy: bool = False,
    stats: Stats | None = None,
) -> Plan:
    """Plan an as-of join of DataFrames, or of Parquet files that Spark's tasks read.

    Parameters
    ----------
    spec, left, right, algorithm, lazy, stats
        As for `juncture.plan`.
    session
        Whose tasks read files; that of a DataFrame if None.

    Raises
    ------
    SchemaError, PlanError, DataError
        As `juncture.plan` does.
    """
    session, ours, theirs, resources = _inputs(left, right, session)
    join = spec.resolve(ours.schema, theirs.schema)
    planning = _Planning(join, ours, theirs, stats, resources, lazy, has_native(session))
    choice, built = planning.run(algorithm)
    return Plan(
        join=join,
        engine="spark",
        choice=choice,
        stats=planning.survey.stats,
        resources=resources,
        jobs=(*planning.survey.jobs, *built.jobs),
        details=(*((("left out", planning.left_out),) if planning.left_out else ()), *built.details),
        run=lambda _: built.frame,
    )


def plan_range(
    spec: Range,
    left: Any,
    right: Any,
    *,
    algorithm: str = "auto",
    session: SparkSession | None = None,
    lazy: bool = False,
    stats: Stats | None = None,
) -> Plan:
    """Plan a range join. Parameters and errors are those of `plan_asof`."""
    return _plan_near(Kind(range_pairs, range_places), spec, left, right, algorithm, session, lazy, stats)


def plan_overlap(
    spec: Overlap,
    left: Any,
    right: Any,
    *,
    algorithm: str = "auto",
    session: SparkSession | None = None,
    lazy: bool = False,
    stats: Stats | None = None,
) -> Plan:
    """Plan an overlap join. Parameters and errors are those of `plan_asof`."""
    return _plan_near(Kind(overlap_pairs, overlap_places), spec, left, right, algorithm, session, lazy, stats)


def plan_where(
    spec: Where,
    left: Any,
    right: Any,
    *,
    algorithm: str = "auto",
    session: SparkSession | None = None,
    lazy: bool = False,
    stats: Stats | None = None,
) -> Plan:
    """Plan a predicate join. Parameters and errors are those of `plan_asof`."""
    return _plan_near(Kind(where_pairs, where_places), spec, left, right, algorithm, session, lazy, stats)


def _plan_near(
    kind: Kind,
    spec: Range | Overlap | Where,
    left: Any,
    right: Any,
    algorithm: str,
    session: SparkSession | None,
    lazy: bool,
    stats: Stats | None,
) -> Plan:
    session, ours, theirs, resources = _inputs(left, right, session)
    join = spec.resolve(ours.schema, theirs.schema)
    planning = NearPlanning(kind, join, ours, theirs, stats, resources, lazy)
    choice, built = planning.run(algorithm)
    return Plan(
        join=join,
        engine="spark",
        choice=choice,
        stats=planning.survey.stats,
        resources=resources,
        jobs=(*planning.survey.jobs, *built.jobs),
        details=built.details,
        run=lambda _: built.frame,
    )


def _inputs(left: Any, right: Any, session: SparkSession | None) -> tuple[SparkSession, Side, Side, Resources]:
    """Return the session, both inputs, and what may be used."""
    session = session or next(table for table in (left, right) if kind_of(table, "left") == "spark").sparkSession
    resources = resources_of(session)
    return session, _side(left, "left", session, resources), _side(right, "right", session, resources), resources


def _side(table: Any, name: Literal["left", "right"], session: SparkSession, resources: Resources) -> Side:
    if kind_of(table, name) == "path":
        return FileSide.of(session, paths_of(table), resources.cores)
    return FrameSide.of(table, name)


class _Planning:
    """The making of one plan, which looks at the inputs no closer than the choice needs."""

    def __init__(
        self,
        join: ResolvedAsof,
        left: Side,
        right: Side,
        given: Stats | None,
        resources: Resources,
        lazy: bool,
        native: bool,
    ) -> None:
        self.join, self.left, self.right = join, left, right
        self.resources = resources
        self.lazy = lazy
        self.native = native
        self.survey = Survey(join, left, right, given)
        self.left_out = ""

    def run(self, algorithm: str) -> tuple[Choice, Built]:
        """Choose and build. What turns out too large to be sent is not chosen again."""
        if not self.lazy and algorithm in ("auto", "hash", "range"):
            self.survey.count()
        extent = self.survey.stats.left.extent
        if extent is not None and self.join.spec.how not in ("right", "full"):
            self.right, self.left_out = reachable(self.join, extent, self.right)
            self.survey.narrow("right", self.right)
        choice = self._choose(algorithm)
        if choice.algorithm in _SENT and not self.lazy and algorithm == "auto":
            self.survey.measure("right" if choice.algorithm == "broadcast" else "left")
            choice = self._choose(algorithm)
        sample = None
        if choice.algorithm in ("hash", "range") and not self.lazy and algorithm != "hash":
            sample = self.survey.sample(self._partitions())
            choice = self._choose(algorithm)
        return choice, self._build(choice.algorithm, sample)

    def _choose(self, algorithm: str) -> Choice:
        question = Question(
            join=self.join,
            engine="spark",
            stats=self.survey.stats,
            resources=self.resources,
            direct=isinstance(self.left, FileSide) and isinstance(self.right, FileSide),
            lazy=self.lazy,
            native=self.native,
        )
        return choose(question, algorithm)

    def _partitions(self) -> int:
        return partition_count(self.survey.stats, self.resources, self.resources.cores)

    def _build(self, algorithm: str, sample: Sample | None) -> Built:
        return build(
            self.join,
            self.left,
            self.right,
            algorithm=algorithm,
            stats=self.survey.stats,
            resources=self.resources,
            sample=sample,
        )
