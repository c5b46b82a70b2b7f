"""The scenarios of the benchmark of joins of many tables to one spine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from juncture_benchmarks.features import local, spark
from juncture_benchmarks.features.task import TABLES, expected_answer, write_tables
from juncture_benchmarks.harness import Scenario
from juncture_benchmarks.pairs import check_against

__all__ = ["make_scenario", "scenario_names"]

_ROWS: dict[str, tuple[int, int]] = {
    "full": (1_000_000, 2_000_000),
    "small": (100_000, 200_000),
    "tiny": (2_000, 4_000),
}
"""Rows of the spine, and of each table."""

_TINY = 100
"""Divisor of the table sizes for warm-up."""


def scenario_names(_: str = "full") -> list[str]:
    """Return the names of all scenarios, which each scale has, in the order in which they run."""
    return ["local-ten", "spark-ten"]


def make_scenario(name: str, scale: str, data: Path, announce: Callable[[str], None]) -> Scenario:
    """Make a scenario, its tables and its right answer first."""
    spine, rows = _ROWS[scale]
    folder = data / f"features-{scale}"
    title = f"{len(TABLES)} tables of {rows:,} rows, a spine of {spine:,}"
    announce(f"{name}: preparing {title}")
    tasks = write_tables(folder / "whole", spine, rows), write_tables(folder / "tiny", spine // _TINY, rows // _TINY)
    expected = expected_answer(tasks[0])
    if name.startswith("spark-"):
        contestants = [spark.contestant(each, *tasks) for each in spark.NAMES]
    else:
        contestants = [local.contestant(each, *tasks) for each in local.JOINING]
    return Scenario(
        name=name,
        title=f"{'On Spark' if name.startswith('spark-') else 'In-process'}: {title}",
        facts={"spine_rows": spine, "right_rows": rows, "tables": len(TABLES)},
        contestants=tuple(contestants),
        check=check_against(expected),
    )
