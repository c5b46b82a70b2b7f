"""The match report of a join of many tables to one spine on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import spark_errors
from juncture.local.many.run import about
from juncture.planner.explain.counts import explanations_of
from juncture.planner.many_report import ManyReport, TableReport
from juncture.planner.report import REASONS
from juncture.planner.statistics import Resources
from juncture.spark.exchange.exchange import collected
from juncture.spark.input.frame import SparkSide
from juncture.spark.many.query import ManyQuery
from juncture.spark.many.steps import Placed, Steps
from juncture.spark.plan import plan as plan_one
from juncture.spec.many import Right


@spark_errors()
def report_of(
    spine: Any, rights: Mapping[str, Right], side: SparkSide, steps: Steps, resources: Resources
) -> ManyReport:
    """Count the matched and unmatched rows of the spine for each table.

    `spine` and `rights` are the inputs as passed; tables that are joined alone share a partition here. Runs one job for
    all tables, and two for each as-of join that measure the distances of matches.
    """
    query = ManyQuery(side, steps, resources.memory_bytes)
    counts = collected(query.counts().groupBy("table", "figure").agg(F.sum("rows").alias("rows"))).to_pylist()
    figures: dict[str, dict[str, int]] = {}
    for row in counts:
        figures.setdefault(row["table"], {})[row["figure"]] = row["rows"]
    found = {
        each.table.name: _report(each, spine, rights, figures.get(each.table.name, {}), steps) for each in steps.tables
    }
    return ManyReport({name: found[name] for name in rights})


def _report(
    placed: Placed, spine: Any, rights: Mapping[str, Right], figures: Mapping[str, int], steps: Steps
) -> TableReport:
    table, leaked = placed.table, None if placed.table.check_available_at is None else figures.get("leaked", 0)
    if table.join.spec.ranks_matches:
        with about(table.name):
            plan = plan_one(table.join.spec, spine, rights[table.name].table, session=placed.side.session)
            return TableReport.of(plan.match_report(), leaked)
    right_rows = placed.stats.rows if placed in steps.sent else figures.get("right_rows", 0)
    return TableReport(
        left_rows=figures.get("left_rows", 0),
        right_rows=right_rows or 0,
        matched=figures.get("matched", 0),
        reasons={name: figures.get(name, 0) for name in REASONS if name != "beyond_tolerance"},
        leaked=leaked,
        explanations=explanations_of(table.join),
    )
