"""The match report of an as-of join on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import spark_errors
from juncture.local.asof.report import FIGURES
from juncture.planner.explain.meaning import explanations_of
from juncture.planner.report import REASONS, Distances, MatchReport
from juncture.runtime.progress import Report
from juncture.spark.asof.shuffle import asof_placements
from juncture.spark.exchange import ShuffledJoin, finish, packet_schemas, task_output
from juncture.spark.input.sides import SparkSide
from juncture.spark.schema import spark_schema
from juncture.spark.session.session import resources as resources_of
from juncture.spark.tasks.asof import CountMatches
from juncture.spark.tasks.cuts import even_cuts
from juncture.spark.tasks.placement import Coding
from juncture.spec.asof import ResolvedAsof

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
    rows = grouped_figures(finish(tasks.frame, tasks.stage, schema), ["figure"])
    figures = {row["figure"]: row for row in rows}
    counts = {name: int(row["rows"]) for name, row in figures.items()}
    found = {name: counts.get(name, 0) for name in (*REASONS, "matched")}
    return MatchReport(
        left_rows=sum(found.values()),
        right_rows=counts.get("right_rows", 0),
        distances=distances_of(join, figures.get("matched")),
        ties=counts.get("ties", 0),
        explanations=explanations_of(join),
        **found,
    )


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


def distances_of(join: ResolvedAsof, matched: Row | None) -> Distances | None:
    """Return the distances of matches from their aggregates; None if there are none."""
    if matched is None or matched["max"] is None:
        return None
    p50, p90, p99 = map(float, matched["quantiles"])
    least, greatest = float(matched["min"]), float(matched["max"])
    return Distances(min=least, p50=p50, p90=p90, p99=p99, max=greatest, is_time=join.domain.is_time)
