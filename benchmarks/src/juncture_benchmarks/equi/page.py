"""The page on the benchmark of equality joins."""

from __future__ import annotations

from pathlib import Path

from juncture_benchmarks.equi.scenarios import scenario_names
from juncture_benchmarks.harness import load_results
from juncture_benchmarks.report import write_page

__all__ = ["write_equi_page"]

_PREFACE = """
Two tables are joined by a text key of ten characters, or by a 64-bit integer. The smaller table has each of its keys
once. The larger table has random keys, and the smaller table has half of them. Neither table is sorted.

- Joins read Parquet files. Results are Arrow tables in memory. With a memory limit, results are batches whose rows are
  summed. On Spark, rows are observed and discarded.
- Each run has a new process, which first joins tables of 1% of the size. Times exclude imports and compilation.
- Contestants take turns. Every result is compared with a NumPy computation. Times of wrong results are not shown.
- Peak memory counts the resident pages of all processes, which may peak at different times. *Before* is the part that
  libraries and compiled code used before the join.
- Results of Juncture have the left order, except *in any order* (`maintain_order=None`).
- Polars' streaming engine has no memory limit to set. Spark's own join runs as planned, and with the hint `merge`.
"""


def write_equi_page(path: Path, results: Path) -> list[Path]:
    """Write the page and the plot from the results of all scenarios.

    Parameters
    ----------
    path
        The page.
    results
        The folder with ``equi-full.json``.
    """
    kept = {each["name"]: each for each in load_results(results / "equi-full.json")}
    scenarios = [kept[name] for name in scenario_names() if name in kept]
    return write_page(path, "Equality joins, measured", _PREFACE.strip(), scenarios)
