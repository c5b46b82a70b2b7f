"""The page on population."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from juncture_benchmarks.population.ways import GROUPS, all_ways
from juncture_benchmarks.report import hardware, versions

__all__ = ["write_page"]

_PREFACE = """
A maintained join of sales and customers is populated for the first time. Each sale has a random customer, and there are
ten times as many sales as customers. `populate` is `jn.changes(…).populate(…)`.

- **Row by row** is the symmetric hash join of the article "Optimizing Streaming JOINs: Leveraging Asymmetry for Better
  Performance" (Epsio, 2025). Each side has a RocksDB. Batches of 10,000 sales and 2,000 customers alternate. Each row
  is looked up on the other side and stored on its own side.
- **The article's trick** stops compaction of the sales once all customers are stored.
- Each method has a new process, which first populates a few rows. All methods must find the same number of pairs.
- **CPU time** includes all threads, and so compaction. Memory and disk exclude the tables themselves.
- With a state four times as large as the memory, RocksDB gets a quarter of the memory for each block cache and an
  eighth for each memtable. It bypasses the page cache.
"""


def write_page(path: Path, results: Mapping[str, Any]) -> None:
    """Write the page.

    Parameters
    ----------
    path
        Where.
    results
        The measures, as the script stores them.
    """
    sales = int(results["sales"])
    parts = ["# Population, measured", _PREFACE.strip()]
    for group, title in GROUPS.items():
        table = _table(results, group, sales)
        if table:
            parts += [f"## {title}, {sales:,} by {sales // 10:,} rows", table]
    if results.get("steady"):
        parts += [f"## Then, epoch by epoch, {sales:,} by {sales // 10:,} rows", _steady(results["steady"])]
    if results.get("blocks"):
        parts += ["## Rows of a block", _blocks(results["blocks"])]
    loads = [each["load_average"] for kind in ("ways", "steady") for each in results.get(kind, {}).values()]
    parts.append(
        f"{results['date'][:10]}, {hardware(dict(results))}; load average at the start of a run {min(loads)} to "
        f"{max(loads)}. Compare CPU times, because the machine was busy.\n{versions(dict(results))}."
    )
    path.write_text("\n\n".join(parts) + "\n")


def _table(results: Mapping[str, Any], group: str, sales: int) -> str:
    ways = [way for way in all_ways(sales).values() if way.group == group and way.name in results["ways"]]
    if not ways:
        return ""
    ours = next((results["ways"][way.name]["cpu_s"] for way in ways if way.is_ours), None)
    lines = ["| way | CPU | times `populate` | wall | memory | disk |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for way in ways:
        found = results["ways"][way.name]
        times = "" if ours is None else f"{found['cpu_s'] / ours:.1f}"
        lines.append(
            f"| {way.title} | {found['cpu_s']:.2f} s | {times} | {found['seconds']:.1f} s | "
            f"{found['memory_bytes'] / 1e6:,.0f} MB | {found['disk_bytes'] / 1e6:,.0f} MB |"
        )
    return "\n".join(lines)


def _steady(steady: Mapping[str, Any]) -> str:
    lines = [
        "Epochs have 10,000 changes or one change. Nine in ten are of sales, half of them deletes.",
        "Every epoch is committed with a sync. *Disk* is the time to append 4 KB to a file and sync it.",
        "",
        (
            "| join | changes a CPU second | longest of 10,000 | one change, CPU | 99th of 100 | wall | 99th of 100 "
            "| disk | 99th of 100 |"
        ),
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, found in steady.items():
        ones = [
            found[key] * 1e3 for key in ("one_cpu_s", "one_cpu_p99_s", "one_s", "one_p99_s", "sync_s", "sync_p99_s")
        ]
        lines.append(
            f"| {name} | {found['changes_a_cpu_s']:,.0f} | {found['many_most_s'] * 1e3:,.0f} ms | "
            + " | ".join(f"{each:.1f} ms" for each in ones)
            + " |"
        )
    return "\n".join(lines)


def _blocks(blocks: Mapping[str, Any]) -> str:
    lines = [
        "Blocks of other sizes, with a quarter of the memory: the cost of `populate`, and of epochs that read blocks.",
        "",
        "| rows | `populate`, CPU | disk | changes a CPU second | one change, CPU |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for rows, found in sorted(blocks.items(), key=lambda item: int(item[0])):
        lines.append(
            f"| {rows} | {found['cpu_s']:.2f} s | {found['disk_bytes'] / 1e6:,.0f} MB | "
            f"{found['changes_a_cpu_s']:,.0f} | {found['one_cpu_s'] * 1e3:.1f} ms |"
        )
    return "\n".join(lines)
