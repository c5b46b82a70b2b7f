"""The benchmark of equality joins."""

from __future__ import annotations

from juncture_benchmarks.benchmark import Benchmark, run_prepared
from juncture_benchmarks.equi.page import write_equi_page
from juncture_benchmarks.equi.scenarios import make_scenario, scenario_names

__all__ = ["EQUI"]

EQUI = Benchmark(
    name="equi",
    title="equality joins",
    scales={"full": "as in the page", "tiny": "few rows, to see that it works"},
    published=["full"],
    scenarios=scenario_names,
    run=run_prepared(make_scenario),
    page=write_equi_page,
)
"""Equality joins of Juncture and other libraries."""
