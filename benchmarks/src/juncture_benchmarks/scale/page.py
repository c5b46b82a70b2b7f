"""The page on tables of billions of rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from juncture_benchmarks.report import versions

_PREFACE = """
What would an as-of join of tables be like that no test can hold? The tables are simulated: how often each of their keys
comes, and when. Rows drawn from that are what the driver's sample would be; the same code as in a join places them,
finds the cuts between partitions and chooses the algorithm; and the rows that fall between cuts are counted from the
whole distribution, so that the sizes of partitions are exact.

`benchmarks/scale.py` makes this page, on one core, in a few minutes. No join runs: the cost is the planner's estimate.
"""

_NOTES = """
- **Largest**: the rows of the largest partition beside those of the median one. What is over one is
  chance, as partitions are cut by about 200 sampled rows of each side, and cuts that move by up to a tenth of a
  partition to fall between two keys.
- **Crosses cuts**: the carryover, at most. Each task sends the last row that it has of a divided key to each
  partition of it further on. It is as much as this only if every file has rows of every part of the key; where files
  are in order of time, it is next to nothing.
- **Driver**: by how much the driver's process grows: the sample, where its rows lie, and the cuts.
- **Sent**: what tells a task where rows go and which parts of files there are. Spark sends it to each executor once.
"""


def write_page(path: Path, results: Mapping[str, Any]) -> None:
    """Write the page.

    Parameters
    ----------
    path
        Where.
    results
        What was found, as the script keeps it.
    """
    parts = ["# Billions of rows, simulated", _PREFACE.strip()]
    for rows in sorted({each["rows"] for each in results["outcomes"]}):
        machines = f"{results['executors']:,} executors of {results['cores_per_executor']} cores"
        parts += [
            f"## {rows:,} rows on each side, {machines}",
            _table([each for each in results["outcomes"] if each["rows"] == rows]),
        ]
    beside = results["article"]
    parts += [
        _NOTES.strip(),
        f"""## Beside an article's cluster

The article "Efficient Range-Joins With Spark 2.0" joins 100M rows with 100M in 438 s, on a cluster of four machines of
four cores. For an as-of join of that size on sixteen cores, with a million keys, the planner chooses
`{beside["algorithm"]}`, and expects {beside["cost_s"]:.0f} s. Its join is another one, and estimates rank algorithms
rather than foretell times: it says which order of magnitude to expect, and no more.""",
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
