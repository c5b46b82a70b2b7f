"""The benchmark of the planner."""

from __future__ import annotations

from juncture_benchmarks.benchmark import Benchmark
from juncture_benchmarks.planner.grid import workloads
from juncture_benchmarks.planner.measure import run_workloads
from juncture_benchmarks.planner.page import planner_table, write_planner_page

__all__ = ["PLANNER"]

PLANNER = Benchmark(
    name="planner",
    title="what the planner chooses, beside every other algorithm that applies",
    scales={"full": "as in the page"},
    published=["full"],
    scenarios=lambda _: [each.name for each in workloads()],
    run=run_workloads,
    page=write_planner_page,
    table=planner_table,
)
"""The grid of workloads."""
