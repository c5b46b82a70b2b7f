"""The page on joins of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from juncture.planner.explain.charts import charting
from juncture_benchmarks.harness import load_results
from juncture_benchmarks.report import OURS, PEER, hardware, versions
from juncture_benchmarks.stream.contestants import CONDITION
from juncture_benchmarks.stream.grid import cells
from juncture_benchmarks.stream.measure import ASOF, LONG

__all__ = ["stream_table", "write_stream_page"]

_PREFACE = f"""
This is the experiment of "General-purpose Stream Joins via Pruning Symmetric Hash Joins" (Synnada, 2023). Two tables
have a random key `k` and an increasing number `a`. They are joined batch by batch by

    {CONDITION}

- DataFusion's `SymmetricHashJoinExec` prunes its state, like Juncture. Its `HashJoinExec` joins whole tables.
- Figures are microseconds of **CPU time per batch**: medians of several runs after one warm-up run. The hash join has
  one run, because it is slow with few keys.
- Each contestant has one thread and returns Arrow batches. Juncture joins batches in memory with `join.run`, which
  combines small batches. DataFusion reads streams only from CSV files, so the time of reading alone is subtracted.
- All results are compared by sums over their rows.
"""


def stream_table(result: Mapping[str, Any]) -> str:
    """Return the results of a scenario, in Markdown."""
    if result["name"] == LONG:
        return _long(result["measured"])
    if result["name"] == ASOF:
        return _asof(result["measured"])
    lines = ["| | CPU time for a batch |", "| --- | ---: |"]
    lines += [f"| {_title(entry)} | {_time(entry)} |" for entry in result["entries"]]
    return "\n".join(lines)


def write_stream_page(path: Path, results: Path) -> list[Path]:
    """Write the page and the plot.

    Parameters
    ----------
    path
        The page.
    results
        The folder with ``stream.json``.

    Raises
    ------
    PlanError
        If Altair or vl-convert is not installed.
    """
    kept = {each["name"]: each for each in load_results(results / "stream.json")}
    grid = [kept[cell.name] for cell in cells() if cell.name in kept]
    plot = path.with_suffix(".svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_plot(plot, grid)
    parts = [
        "# Joins of streams, measured",
        _PREFACE.strip(),
        _sums(grid),
        f"![CPU time for a batch]({plot.name})",
        _grid_table(grid),
    ]
    for name in (LONG, ASOF):
        if name in kept:
            title = kept[name]["title"]
            parts += [f"## {title[0].upper()}{title[1:]}", stream_table(kept[name])]
    parts.append(_circumstances(list(kept.values())))
    path.write_text("\n\n".join(parts) + "\n")
    return [path, plot]


def _times(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the microseconds per batch of each contestant with a correct result."""
    return {each["contestant"]: each["median"]["batch_us"] for each in result["entries"] if each["status"] == "ok"}


def _ratio(result: Mapping[str, Any], other: str = "symmetric") -> float | None:
    times = _times(result)
    return times[other] / times["juncture"] if {"juncture", other} <= times.keys() else None


def _sums(grid: Sequence[Mapping[str, Any]]) -> str:
    """Return the least and greatest ratio of speeds of Juncture and DataFusion's symmetric join."""
    lines = ["| keys | least | most |", "| ---: | ---: | ---: |"]
    for keys in dict.fromkeys(each["facts"]["keys"] for each in grid):
        found = [ratio for each in grid if each["facts"]["keys"] == keys and (ratio := _ratio(each)) is not None]
        if found:
            lines.append(f"| {keys:,} | {min(found):.1f} | {max(found):,.0f} |")
    head = "Juncture's speed as a multiple of DataFusion's symmetric join, over all sizes of batches and tables:"
    return f"{head}\n\n" + "\n".join(lines)


def _grid_table(grid: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures of the largest tables. The plot and the summary above cover all sizes."""
    largest = max((each["facts"]["rows"] for each in grid), default=0)
    lines = [
        f"Tables of {largest:,} rows a side:",
        "",
        "| keys | batch | Juncture | SymmetricHashJoinExec | HashJoinExec | times as fast |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in grid:
        if each["facts"]["rows"] < largest:
            continue
        facts, entries = each["facts"], {entry["contestant"]: entry for entry in each["entries"]}
        shown = [f"{facts['keys']:,}", f"{facts['batch_rows']:,}"]
        shown += [_time(entries[name]) if name in entries else "" for name in ("juncture", "symmetric", "hash")]
        ratio = _ratio(each)
        lines.append(f"| {' | '.join(shown)} | {'' if ratio is None else f'{ratio:,.1f}'} |")
    return "\n".join(lines)


def _title(entry: Mapping[str, Any]) -> str:
    return f"**{entry['title']}**" if entry["ours"] else str(entry["title"])


def _time(entry: Mapping[str, Any]) -> str:
    return f"{entry['median']['batch_us']:,.1f} µs" if entry["status"] == "ok" else str(entry["status"])


def _long(measured: Mapping[str, Any]) -> str:
    """Return the speed of a long join, and its state at the start, in the middle and at the end."""
    speed = measured["rows"] / measured["cpu_s"] / 1e6
    rates = f"{speed:.1f} million rows of each side per second of CPU time"
    lines = [
        f"{rates}: {measured['rows']:,} rows in, and {measured['given']:,} rows out.",
        "",
        "| part of the rows | CPU time | state, rows | state | memory of the process |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    parts = measured["parts"]
    for number in sorted({1, len(parts) // 2, len(parts)}):
        part = parts[number - 1]
        lines.append(
            f"| {number / len(parts):.0%} | {part['cpu_s']:.2f} s | {part['state_rows']:,} | "
            f"{part['state_bytes'] / 1e6:.2f} MB | {part['memory_bytes'] / 1e6:,.0f} MB |"
        )
    grown = parts[-1]["memory_bytes"] / parts[0]["memory_bytes"] - 1
    lines += ["", f"From the first tenth to the last, memory grew by {grown:.1%}. It includes the rows of both tables."]
    return "\n".join(lines)


def _asof(measured: Mapping[str, Any]) -> str:
    """Return the time of an as-of join by batches, and of the same join of tables."""
    costs = measured["costs"]
    ratios = {name: costs["stream"][name] / costs["batch"][name] for name in ("seconds", "cpu_s")}
    same = "are equal" if measured["is_equal"] else "**differ**"
    return "\n".join(
        [
            f"{measured['rows']:,} rows of both sides, sorted by time, in memory. The results {same}.",
            "",
            "| | time | CPU time |",
            "| --- | ---: | ---: |",
            f"| as tables | {costs['batch']['seconds']:.2f} s | {costs['batch']['cpu_s']:.2f} s |",
            f"| as streams, one thread | {costs['stream']['seconds']:.2f} s | {costs['stream']['cpu_s']:.2f} s |",
            f"| times as long | {ratios['seconds']:.1f} | {ratios['cpu_s']:.1f} |",
        ]
    )


def _circumstances(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return ""
    dates = sorted({result["date"][:10] for result in results})
    loads = [result["load_average"] for result in results]
    notes = "".join(f"**{note}**\n" for note in dict.fromkeys(result["note"] for result in results) if note)
    newest = dict(results[-1])
    load = f"load average at the start of a scenario {min(loads)} to {max(loads)}"
    return f"{notes}{' and '.join(dates)}, {hardware(newest)}; {load}.\n{versions(newest)}."


def _write_plot(path: Path, grid: Sequence[Mapping[str, Any]]) -> None:
    """Draw the time per batch for each number of keys and batch size, for the largest tables."""
    alt, vl_convert = charting()
    largest = max((each["facts"]["rows"] for each in grid), default=0)
    rows = [
        {
            "keys": f"{each['facts']['keys']:,} keys",
            "batch": each["facts"]["batch_rows"],
            "us": entry["median"]["batch_us"],
            "who": entry["title"],
        }
        for each in grid
        if each["facts"]["rows"] == largest
        for entry in each["entries"]
        if entry["status"] == "ok"
    ]
    titles = list(dict.fromkeys(row["who"] for row in rows))
    colour = alt.Scale(domain=titles, range=[OURS, PEER, "#2b2d42"][: len(titles)])
    scale = alt.Scale(type="log")
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("batch:Q", scale=scale, axis=alt.Axis(title="rows of a batch", values=[128, 512, 2048, 4096])),
            y=alt.Y("us:Q", scale=scale, axis=alt.Axis(title="µs of CPU time for a batch")),
            color=alt.Color("who:N", scale=colour, legend=alt.Legend(title=None)),
            column=alt.Column("keys:N", sort=list(dict.fromkeys(row["keys"] for row in rows)), title=None),
        )
        .properties(width=190, height=200)
    )
    path.write_text(vl_convert.vegalite_to_svg(chart.to_json()))
