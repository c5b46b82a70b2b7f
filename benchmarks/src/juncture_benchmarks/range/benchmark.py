"""The benchmark of range and overlap joins."""

from __future__ import annotations

from juncture_benchmarks.benchmark import Benchmark, run_prepared
from juncture_benchmarks.range.page import write_range_page
from juncture_benchmarks.range.scenarios import make_scenario, scenario_names

__all__ = ["RANGE"]

RANGE = Benchmark(
    name="range",
    title="range and overlap joins",
    scales={"full": "as in the page", "tiny": "few rows, to see that it works"},
    published=["full"],
    scenarios=scenario_names,
    run=run_prepared(make_scenario),
    page=write_range_page,
)
"""Range and overlap joins of Juncture and other libraries."""
