"""The benchmark of as-of joins."""

from __future__ import annotations

from juncture_benchmarks.asof.page import write_asof_page
from juncture_benchmarks.asof.scenarios import make_scenario, scenario_names
from juncture_benchmarks.benchmark import Benchmark, run_prepared
from juncture_benchmarks.datasets import SCALES

__all__ = ["ASOF"]

ASOF = Benchmark(
    name="asof",
    title="as-of joins",
    scales={
        "small": "1M by 10M rows; also hot keys, and Spark",
        "medium": "10M by 100M rows",
        "large": "50M by 500M rows, Juncture alone",
    },
    published=SCALES,
    scenarios=scenario_names,
    run=run_prepared(make_scenario),
    page=write_asof_page,
)
"""As-of joins of Juncture and other libraries."""
