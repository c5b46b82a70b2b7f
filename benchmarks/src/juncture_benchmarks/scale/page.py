"""The page on tables of billions of rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from juncture_benchmarks.report import versions

_PREFACE = """
This page simulates as-of joins of tables that are too large for any test. Each simulated table has a distribution of
keys and times.

- Rows drawn from the distribution replace the driver's sample.
- The code of real joins assigns these rows, finds the cuts between partitions, and chooses the algorithm.
- The rows between cuts are computed from the whole distribution, so the sizes of partitions are exact.

No join runs: the cost is the planner's estimate. `benchmarks/scale.py` writes this page on one core in a few minutes.
"""

_NOTES = """
- **Largest** is the size of the largest partition divided by the median size. It exceeds one because partitions are cut
  by about 200 sampled rows of each side. Cuts also move by up to a tenth of a partition to fall between two keys.
- **Crosses cuts** is an upper bound of the carryover. Each task sends its last row of a divided key to each later
  partition of this key. The bound is reached only if every file has rows of all parts of the key. With files in time
  order, the carryover is close to zero.
- **Driver** is the growth of the driver's process: the sample, its positions and the cuts.
- **Sent** is the size of the routing information for tasks. Spark sends it to each executor once.
"""


def write_page(path: Path, results: Mapping[str, Any]) -> None:
    """Write the page.

    Parameters
    ----------
    path
        Where.
    results
        The results, as the script stores them.
    """
    parts = ["# Billions of rows, simulated", _PREFACE.strip()]
    for rows in sorted({each["rows"] for each in results["outcomes"]})[-1:]:
        machines = f"{results['executors']:,} executors of {results['cores_per_executor']} cores"
        parts += [
            f"## {rows:,} rows on each side, {machines}",
            _table([each for each in results["outcomes"] if each["rows"] == rows]),
        ]
    beside = results["article"]
    parts += [
        _NOTES.strip(),
        f"""## Comparison with an article

The article "Efficient Range-Joins With Spark 2.0" joins 100M by 100M rows in 438 s, on four machines of four cores. For
an as-of join of that size on sixteen cores with a million keys, the planner chooses `{beside["algorithm"]}` and
estimates {beside["cost_s"]:.0f} s. The article's join is a different one, and estimates only rank algorithms, so this
compares orders of magnitude.""",
        f"{results['date'][:10]}. {versions(dict(results))}.",
    ]
    path.write_text("\n\n".join(parts) + "\n")


def _table(outcomes: list[Mapping[str, Any]]) -> str:
    lines = [
        "| keys and times | chosen | partitions | largest | divided keys | crosses cuts | sampled | driver | sent |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in outcomes:
        cells = [
            each["shape"],
            f"`{each['algorithm']}`, {each['cost_s']:.1f} s",
            f"{each['partitions']:,}",
            f"{each['largest']:.2f}",
            f"{each['split_keys']:,}",
            f"{each['carryover_bytes'] / 1e6:,.0f} MB",
            f"{each['sampled_rows']:,} rows",
            f"{each['driver_bytes'] / 1e6:,.0f} MB",
            f"{each['stage_bytes'] / 1e6:.1f} MB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
