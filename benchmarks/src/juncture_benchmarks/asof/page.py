"""The page on the as-of benchmark."""

from __future__ import annotations

from pathlib import Path

from juncture_benchmarks.datasets import SCALES
from juncture_benchmarks.harness import load_results
from juncture_benchmarks.report import write_page

_PREFACE = """
Two tables of an integer time, a string key and a float are joined: each left row with the last right row of its key
at or before its time. There are 10,000 keys with Zipf's frequencies (the first has a tenth of all rows), times come in
bursts, and neither table is sorted. The right table has ten times the rows of the left.

Parquet goes in, and the joined table comes out in memory; on Spark every row goes to the `noop` sink. Every run has a
process of its own, which has first joined two tiny tables (on Spark: done the whole join once), so neither imports
nor compilation nor the start of a session is in the time. Contestants take turns. Every answer is compared with one
that NumPy has found by sorting and searching, and a wrong one has no time here. Peak memory is that of all the
process's resident pages, Java's heap and Python workers included; Java keeps what it has once taken.

On Spark, `spark.sql.execution.arrow.maxBytesPerBatch` is 2147483647, as [advised](../../operations/slow-joins.md),
which changes nothing for queries in SQL; "Spark's limit" is the join of DataFrames without that.
"""


def write_asof_page(path: Path, results: Path) -> list[Path]:
    """Write the page and the plot from the results of all scales.

    Parameters
    ----------
    path
        The page.
    results
        The folder with ``asof-small.json`` and so on.
    """
    scenarios = [each for scale in SCALES for each in load_results(results / f"asof-{scale}.json")]
    return write_page(path, "As-of joins, measured", _PREFACE, scenarios)
