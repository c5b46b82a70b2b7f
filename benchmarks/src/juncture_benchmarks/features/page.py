"""The page on the benchmark of joins of many tables to one spine."""

from __future__ import annotations

from pathlib import Path

from juncture_benchmarks.features.scenarios import scenario_names
from juncture_benchmarks.harness import load_results
from juncture_benchmarks.report import write_page

__all__ = ["write_features_page"]

_PREFACE = """
Ten tables are joined to one spine: four by as-of joins, three by counts and sums over a window before each row, and
three by look-ups of a unique key. There are three keys, one of them text.

- Joins read Parquet files. Results are Arrow tables in memory. On Spark, rows are observed and discarded.
- Each run has a new process, which first joins tables of a hundredth of the size. Contestants take turns.
- All values are integers, so sums are exact. Every result is compared with NumPy. Times of wrong results are not shown.
- Polars and DuckDB have no fast join for these windows. They compute running counts and sums instead, and look them up
  at both ends of each window with an as-of join.
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
