"""The benchmark of joins of streams."""

from __future__ import annotations

from juncture_benchmarks.benchmark import Benchmark
from juncture_benchmarks.stream.measure import run_scenarios, scenario_names
from juncture_benchmarks.stream.page import stream_table, write_stream_page

__all__ = ["STREAM"]

STREAM = Benchmark(
    name="stream",
    title="joins of streams",
    scales={"full": "as in the page"},
    published=["full"],
    scenarios=scenario_names,
    run=run_scenarios,
    page=write_stream_page,
    table=stream_table,
)
