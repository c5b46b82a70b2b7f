"""The page on the benchmark of joins of many tables to one spine."""

from __future__ import annotations

from pathlib import Path

from juncture_benchmarks.features.scenarios import scenario_names
from juncture_benchmarks.harness import load_results
from juncture_benchmarks.report import write_page

__all__ = ["write_features_page"]

_PREFACE = """
Ten tables are joined to the rows of one: four by as-of joins, three as counts and sums over a window that looks back,
and three by look-ups of a unique key. There are three keys, one of them text. Parquet goes in, and the whole table
comes out in memory; on Spark its rows are observed and thrown away.

Every run has a process of its own, which has first joined tables of a hundredth of the size in the same way.
Contestants take turns. All values are whole numbers, so that sums are exact everywhere, and every answer is compared
with one that NumPy has found in sorted arrays; a wrong one has no time here. Neither Polars nor DuckDB aggregates
over windows of another table by a join of its own that would end here, so they do it the fast way round: running
counts and sums, of which an as-of join takes one at each end of the window.
"""


def write_features_page(path: Path, results: Path) -> list[Path]:
    """Write the page and the plot from the results of all scenarios.

    Parameters
    ----------
    path
        The page.
    results
        The folder with ``features-full.json``.
    """
    kept = {each["name"]: each for each in load_results(results / "features-full.json")}
    scenarios = [kept[name] for name in scenario_names() if name in kept]
    return write_page(path, "Many tables, one spine, measured", _PREFACE.strip(), scenarios)
