"""The match report of a join of many tables to one spine on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import spark_errors
from juncture.planner.explain.meaning import explanations_of
from juncture.planner.many_report import ManyReport, TableReport
from juncture.planner.report import REASONS
from juncture.planner.statistics import Resources
from juncture.spark.asof.report import distance_aggregates, distances_of
from juncture.spark.input.frame import SparkSide
from juncture.spark.many.query import ManyQuery
from juncture.spark.many.steps import Placed, Steps
from juncture.spec.asof import ResolvedAsof


@spark_errors()
def report_of(names: Sequence[str], side: SparkSide, steps: Steps, resources: Resources) -> ManyReport:
    """Count the matched and unmatched rows of the spine for each table, in one job.

    Tables that are joined alone share a partition here.
    """
    query = ManyQuery(side, steps, resources.memory_bytes)
    grouped = query.counts().groupBy("table", "figure")
    rows = grouped.agg(F.sum("rows").alias("rows"), *distance_aggregates(F.col("distance"))).collect()
    found = {
        each.table.name: _report(each, {r["figure"]: r for r in rows if r["table"] == each.table.name}, steps)
        for each in steps.tables
    }
    return ManyReport({name: found[name] for name in names})


def _report(placed: Placed, figures: Mapping[str, Row], steps: Steps) -> TableReport:
    join, counts = placed.table.join, {name: int(row["rows"]) for name, row in figures.items()}
    right_rows = placed.stats.rows if placed in steps.sent else counts.get("right_rows", 0)
    is_asof = isinstance(join, ResolvedAsof)
    distances = None
    if isinstance(join, ResolvedAsof) and counts.get("matched"):
        distances = distances_of(join, figures["matched"])
    return TableReport(
        left_rows=counts.get("left_rows", 0),
        right_rows=right_rows or 0,
        matched=counts.get("matched", 0),
        reasons={name: counts.get(name, 0) for name in REASONS if is_asof or name != "beyond_tolerance"},
        ties=counts.get("ties", 0) if is_asof else None,
        distances=distances,
        leaked=None if placed.table.check_available_at is None else counts.get("leaked", 0),
        explanations=explanations_of(join),
    )
