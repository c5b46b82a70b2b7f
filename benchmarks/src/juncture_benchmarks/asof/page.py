"""The page on the as-of benchmark."""

from __future__ import annotations

from pathlib import Path

from juncture_benchmarks.datasets import SCALES
from juncture_benchmarks.harness import load_results
from juncture_benchmarks.report import write_page

_PREFACE = """
Each left row is joined to the latest right row of its key at or before its time. Both tables have an integer time, a
string key and a float. The 10,000 keys follow Zipf's law: the most frequent key has a tenth of all rows. Times come in
bursts, and neither table is sorted. In most scenarios, the right table has ten times the rows of the left table.

- Joins read Parquet files. In-process results are Arrow tables in memory. On Spark, the `noop` sink receives every row.
- Each run has a new process, which first joins two tiny tables. On Spark it first runs the whole join once. Times
  exclude imports, compilation and the start of the session.
- Contestants take turns. Every result is compared with a NumPy computation. Times of wrong results are not shown.
- Peak memory counts the resident pages of all processes. The parts in parentheses may peak at different times.
- On Spark, `spark.sql.execution.arrow.maxBytesPerBatch` is 2147483647, as
  [recommended](../../operations/slow-joins.md). *Spark's limit* is a join of DataFrames with Spark's default.
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
