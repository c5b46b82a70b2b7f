"""The benchmark of joins of many tables to one spine."""

from __future__ import annotations

from juncture_benchmarks.benchmark import Benchmark, run_prepared
from juncture_benchmarks.features.page import write_features_page
from juncture_benchmarks.features.scenarios import make_scenario, scenario_names

__all__ = ["FEATURES"]

FEATURES = Benchmark(
    name="features",
    title="joins of many tables to one spine",
    scales={
        "full": "a spine of 1M rows, ten tables of 2M",
        "small": "a tenth of that",
        "tiny": "few rows, to see that it works",
    },
    published=["full"],
    scenarios=scenario_names,
    run=run_prepared(make_scenario),
    page=write_features_page,
)
"""Juncture in one pass, Juncture by single joins, and other libraries."""
