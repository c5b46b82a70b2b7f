"""The page on the benchmark of equality joins."""

from __future__ import annotations

from pathlib import Path

from juncture_benchmarks.equi.scenarios import scenario_names
from juncture_benchmarks.harness import load_results
from juncture_benchmarks.report import write_page

__all__ = ["write_equi_page"]

_PREFACE = """
Two tables are joined by a key of text, ten characters long, or by one that is a 64-bit integer. The smaller table has
each of its keys once, the larger one random keys, half of which the smaller one has. Neither is sorted. Parquet goes
in, and the joined table comes out in memory; under a limit its rows come out in batches, which are summed up and
forgotten.

Every run has a process of its own, which has first joined tables of a hundredth of the size in the same way, so that
neither imports nor compilation are in the time. Contestants take turns. Every answer is compared with one that NumPy
has found by adding up what the rows of each key weigh, and a wrong one has no time here. Ours comes in the order of the
left rows, unless it is said to be in any order (`maintain_order=None`). Peak memory is that of all the resident pages
of a process; under a limit, it is said what of that was there before the join: libraries and compiled code. Polars'
streaming engine has no limit to set, and stands beside the others without one. On Spark rows are observed and thrown
away; the join of Spark itself is shown as it plans it, and with the hint that has it sort both sides.
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
