"""The planning of an as-of join on Spark, its stages, the statistics of its inputs, and its match report.

With ``hash`` and ``range``, tasks read both sides once and split their rows into packets for partitions, which are
ranges of (key hash, ``on``) of even size by a sample. With ``hash`` all cuts fall between keys. With ``range`` a hot
key spans several partitions, and tasks also send the boundary rows that those need (`juncture.spark.tasks.asof`), in
the same pass.

With ``broadcast_left``, each task probes its right rows with the whole left side and sends its best candidates. The
shuffle brings the candidates of a left row together, and the best one matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import PlanError, spark_errors
from juncture.local.asof.report import FIGURES
from juncture.ordered.sql import sql_domain
from juncture.planner.algorithm import Algorithm, held_side
from juncture.planner.explain.meaning import explanations_of
from juncture.planner.report import REASONS, Distances, MatchReport
from juncture.planner.statistics import Resources, Stats
from juncture.runtime.progress import Report
from juncture.runtime.scan import extent_of
from juncture.spark.asof.sql import has_native, join_native, join_window
from juncture.spark.exchange import (
    BuiltJoin,
    LastTasks,
    ShuffledJoin,
    broadcast_side,
    finish,
    needed_right,
    packet_schemas,
    packets,
    partition_count,
    placeholders,
    shuffled,
    task_output,
)
from juncture.spark.frames import to_arrow
from juncture.spark.input.sides import FileSide, FrameSide, SparkSide, as_frames, reachable
from juncture.spark.planning import Planning, PlanRequest
from juncture.spark.schema import spark_schema
from juncture.spark.session.session import resources as resources_of
from juncture.spark.statistics import FOOTERS, Statistics, balanced_by
from juncture.spark.tasks.asof import (
    Carryover,
    ChooseCandidates,
    CountMatches,
    JoinAndMark,
    ProbeLeft,
    ScatterWithCarryover,
)
from juncture.spark.tasks.cuts import Cuts, Sample, balanced_cuts, even_cuts
from juncture.spark.tasks.join import JoinPartition, ResolveUnmatched
from juncture.spark.tasks.placement import Coding, Placement
from juncture.spec.asof import ResolvedAsof
from juncture.spec.condition import Limit, MatchInterval
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

LEFT_WEIGHT = 2.0
"""Cost of a left row if a right row costs 1: a task sorts left rows and writes them, but only streams right rows."""


def asof_placements(join: ResolvedAsof, coding: Coding) -> tuple[Placement, Placement]:
    """Return the placement of left and right rows."""
    left_limits, right_limits = (
        (Limit(on, upper=False), Limit(on, upper=True)) for on in (join.left_on, join.right_on)
    )
    interval = MatchInterval(left_limits, right_limits, join.domain)
    return (
        Placement("left", join.left_by, coding, interval, tuple(dict.fromkeys((*join.left_by, join.left_on)))),
        Placement("right", join.right_by, coding, interval, tuple(dict.fromkeys((*join.right_by, join.right_on)))),
    )


def asof_stages(
    join: ResolvedAsof, coding: Coding, cuts: Cuts, output: pa.Schema, resources: Resources
) -> ShuffledJoin:
    """Return the stages of the join's tasks, given the placement of rows and the result's schema."""
    in_packets, placements = join.for_tasks().over(*packet_schemas(join)), asof_placements(join, coding)
    memory_bytes = resources.memory_bytes
    stages = ShuffledJoin(join=join, placements=placements, cuts=cuts, memory_bytes=memory_bytes)
    if len(cuts.split_hashes) == 0:
        return replace(stages, joined=JoinPartition(in_packets, output=output, memory_bytes=memory_bytes))
    stages = replace(stages, scatter_right=partial(ScatterWithCarryover, carryover=Carryover(in_packets)))
    if join.how not in ("right", "full"):
        return replace(stages, joined=JoinPartition(in_packets, output=output, memory_bytes=memory_bytes))
    return replace(
        stages,
        marked=JoinAndMark(in_packets, placements[1], cuts, memory_bytes=memory_bytes),
        resolved=ResolveUnmatched(in_packets, output=output, memory_bytes=memory_bytes),
    )


class AsofStatistics(Statistics):
    """The statistics of the inputs of an as-of join."""

    def __init__(self, join: ResolvedAsof, left: SparkSide, right: SparkSide, user_stats: Stats | None) -> None:
        super().__init__(left, right, user_stats)
        self._join = join
        # Footers contain the minimum and maximum. Text and tuples (ranked domains) have no distances, so no extent.
        if isinstance(left, FileSide) and join.domain.has_distances:
            ends = left.footers.ends(join.left_on)
            if ends is not None:
                self.learn("left", FOOTERS, on_range=extent_of(ends, join.domain))

    def measure(self, name: Side) -> bool:
        """Measure strings and nested values of a side if their size is assumed; return whether a job ran."""
        if not isinstance(self.sides[name], FrameSide) or self.of(name).provenance.get("row_bytes") != "assumed":
            return False
        in_detail = True  # Include sizes and the range of `on`.
        self.learn_totals(name, to_arrow(self.totals({name: in_detail})))
        self.jobs.append(f"measured the {name} side")
        return True

    def narrow(self, name: Side, side: SparkSide) -> None:
        """Replace a side by one with fewer rows."""
        self.sides[name] = side
        if isinstance(side, FileSide):
            self.learn(name, FOOTERS, rows=side.footers.num_rows)

    def figures(self, name: Side, *, in_detail: bool) -> dict[str, Column]:
        """Return the aggregates that measure a side, with the range of ``on`` if `in_detail`."""
        figures = super().figures(name, in_detail=in_detail)
        if in_detail and self._join.domain.has_distances:
            [column] = self._join.position(name)
            on = self.column(name, self.sides[name].schema.names.index(column))
            usable = sql_domain(self._join.domain, []).present(on)
            figures |= {"least": F.min(usable), "greatest": F.max(usable)}
        return figures

    def learn_totals(self, name: Side, totals: pa.Table) -> None:
        """Record the figures of a side from `totals`."""
        super().learn_totals(name, totals)
        if f"{name}_least" in totals.column_names and self.of(name).on_range is None:
            ends = pa.concat_arrays([totals[f"{name}_{end}"].combine_chunks() for end in ("least", "greatest")])
            self.learn(name, "measured", on_range=extent_of(ends, self._join.domain))

    def sample(self, partitions: int) -> Sample:
        """Sample keys and ``on`` of both sides in one job. Call `count` before: samples need the numbers of rows."""
        placements = asof_placements(self._join, Coding.of(self._join))
        left, right = self.key_ranges(placements, partitions)
        for name, placement, sampled in zip(self.sides, placements, (left, right), strict=True):
            if placement.by:
                self.learn_keys(name, sampled.ranges.hashes, sampled.sampled_rows)
        return balanced_by(left, right, left_weight=LEFT_WEIGHT)


class AsofPlanning(Planning):
    """The planning of one as-of join."""

    statistics: AsofStatistics
    # A side that is small enough to broadcast is measured first, and limits the other one: mostly the left.
    _measured_sides = ("left",)

    def __init__(self, request: PlanRequest) -> None:
        super().__init__(request)
        check_table_order(request.join)
        self._native = has_native(request.left.session)
        self._sample: Sample | None = None
        self._learners |= {"text": self._measure_text, "sample": self._take_sample}
        self.statistics = AsofStatistics(request.join, request.left, request.right, request.user_stats)

    def _prepare(self) -> None:
        """Count, and exclude right rows that no left row can match."""
        super()._prepare()
        left = self.statistics.stats.left
        # A wrong `on_range` from the caller would exclude rows that match, so only measured ranges are used.
        if left.on_range is None or left.is_given("on_range") or self._join.how in ("right", "full"):
            return
        self._right, self._left_out = reachable(self._join, left.on_range, self._right)
        self.statistics.narrow("right", self._right)

    def _measure_text(self, algorithm: Algorithm) -> bool:
        """Measure the strings of the side to broadcast; return whether a job ran."""
        return self.statistics.measure(held_side(self._input(), algorithm))

    def _take_sample(self, _: Algorithm) -> bool:
        """Sample keys and order of both sides to balance partitions; return whether a job ran."""
        if self._sample is not None:
            return False
        self._sample = self.statistics.sample(self.partitions())
        return True

    def partitions(self) -> int:
        """Return the number of shuffle partitions, as far as it is known."""
        return partition_count(self.statistics.stats, self._resources, self._shuffle_partitions)

    def _broadcast_left(self, _: Algorithm) -> BuiltJoin:
        left, join, cores = self._left, self._join.for_tasks(), self._resources.cores
        memory_bytes = self._resources.memory_bytes
        table, jobs = broadcast_side(left, left.schema.names, "left")
        frame, feed = self._right.rows(needed_right(self._join).names, self._join.right_by)
        probe = ProbeLeft(feed, join, table, cores, memory_bytes=memory_bytes)
        output = task_output(self._schema)
        choose = ChooseCandidates(join, table, feed.schema, cores, memory_bytes=memory_bytes, output=output)
        # A partition without candidates must still return its left rows.
        sent = placeholders(left.session, cores).union(packets(frame, probe))
        return BuiltJoin.of([LastTasks(shuffled(sent, cores), choose, cores)], self._schema, jobs=jobs)

    def _shuffled(self, algorithm: Algorithm) -> BuiltJoin:
        count = self.partitions()
        if self._sample is None:
            cuts = even_cuts(count)
        else:
            cuts = balanced_cuts(self._sample, count, split_keys=algorithm.splits_keys)
        output = task_output(self._schema)
        stages = asof_stages(self._join, Coding.of(self._join), cuts, output, self._resources)
        tasks = stages.tasks(self._left, self._right)
        return BuiltJoin.of(tasks, self._schema, details=(("partitions", cuts.described),))

    def _in_one_window(self, _: Algorithm) -> BuiltJoin:
        return BuiltJoin(join_window(*as_frames(self._join, self._left, self._right)))

    def _natively(self, _: Algorithm) -> BuiltJoin:
        return BuiltJoin(join_native(*as_frames(self._join, self._left, self._right)))

    _builders: ClassVar = {
        "broadcast": Planning._broadcast,
        "broadcast_left": _broadcast_left,
        "hash": _shuffled,
        "range": _shuffled,
        "window": _in_one_window,
        "native": _natively,
    }


def check_table_order(join: Resolved) -> None:
    """Raise `PlanError` if ``ties`` depends on a table order, which Spark does not have."""
    if join.goes_by_table_order and join.spec.how not in ("semi", "anti"):
        raise PlanError(
            f"ties={join.spec.ties!r} needs an order of the right rows, but Spark tables have none. Pass order_by=, "
            "or remove ties=.",
            name="JN-TIES-ORDER",
        )


_QUANTILES = [0.5, 0.9, 0.99]
_QUANTILE_ACCURACY = 10_000


@spark_errors()
def match_report(
    join: ResolvedAsof, left: SparkSide, right: SparkSide, partitions: int, _report: Report | None
) -> MatchReport:
    """Count the matched and unmatched left rows of an as-of join, in one job.

    All rows of a key go to one task, which counts its left rows. The join's ``how`` and ``matches`` have no effect.
    With more than 10,000 distinct distances, quantiles are off by at most a ten-thousandth of the rows.
    """
    # Tasks receive all rows of both sides: a right row whose key is null is counted.
    full = replace(join, how="full", spec=replace(join.spec, how="full", matches=1))
    memory_bytes, schema = resources_of(left.session).memory_bytes, spark_schema(FIGURES)
    count = CountMatches(
        full.for_tasks().over(*packet_schemas(full)), output=task_output(schema), memory_bytes=memory_bytes
    )
    placements = asof_placements(full, Coding.of(full))
    stages = ShuffledJoin(
        join=full, placements=placements, cuts=even_cuts(partitions), memory_bytes=memory_bytes, joined=count
    )
    [tasks] = stages.tasks(left, right)
    return report_of(join, grouped_figures(finish(tasks.frame, tasks.stage, schema), ["figure"]))


def grouped_figures(frame: DataFrame, by: Sequence[str]) -> list[Row]:
    """Return the sums of figures from tasks, with the aggregates of their distances."""
    distance = F.col("distance")
    return (
        frame.groupBy(*by)
        .agg(
            F.sum("rows").alias("rows"),
            F.min(distance).alias("min"),
            F.percentile_approx(distance, _QUANTILES, _QUANTILE_ACCURACY).alias("quantiles"),
            F.max(distance).alias("max"),
        )
        .collect()
    )


def report_of(join: Resolved, figures: Iterable[Row]) -> MatchReport:
    """Return the report of a join from the sums of its figures."""
    rows = {row["figure"]: row for row in figures}
    counts = {name: int(row["rows"]) for name, row in rows.items()}
    by_reason = {name: counts.get(name, 0) for name in (*REASONS, "matched")}
    matched, distances = rows.get("matched"), None
    if join.domain is not None and matched is not None and matched["max"] is not None:
        p50, p90, p99 = map(float, matched["quantiles"])
        least, greatest = float(matched["min"]), float(matched["max"])
        distances = Distances(min=least, p50=p50, p90=p90, p99=p99, max=greatest, is_time=join.domain.is_time)
    return MatchReport(
        left_rows=sum(by_reason.values()),
        right_rows=counts.get("right_rows", 0),
        distances=distances,
        ties=counts.get("ties", 0) if join.spec.ranks_matches else None,
        leaked=counts.get("leaked"),
        explanations=explanations_of(join),
        **by_reason,
    )
