"""The page on joins of two streams on Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from juncture_benchmarks.report import hardware, versions

__all__ = ["write_stream_spark_page"]

_PREFACE = """
Two streams of Parquet files are joined on two cores. Each micro-batch reads one file of each side. The `noop` sink
receives the rows. A count and a sum are compared with the join of the same files as tables.

- Rows have a time with a disorder of up to half a second, a text key, a number and a value. Each micro-batch
  spans a minute.
- Row counts are the sum of both sides. Speed and CPU time exclude the first micro-batches. CPU time includes the JVM
  and all Python workers.
- All contestants use the settings of [Streams on Spark in production](../../operations/streams.md).
"""

_ANSWERS = {True: "yes", False: "no"}


def write_stream_spark_page(path: Path, results: Path) -> Path:
    """Write the page.

    Parameters
    ----------
    path
        The page.
    results
        The file with the figures of all contestants.
    """
    kept: dict[str, dict[str, Any]] = json.loads(results.read_text())
    parts = ["# Joins of streams on Spark, measured", _PREFACE.strip()]
    for section in dict.fromkeys(each["section"] for each in kept.values()):
        entries = [each for each in kept.values() if each["section"] == section]
        parts += [f"## {entries[0]['joins']}", _table(entries)]
        parts += [text for text in (_flat(entries), _ratio(entries)) if text]
    parts.append(_circumstances(list(kept.values())))
    path.write_text("\n\n".join(parts) + "\n")
    return path


def _table(entries: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| | rows a second | rows a CPU second | a micro-batch (median, least, most) | rows, keys | measured | right |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for each in entries:
        title = f"**{each['title']}**" if each["title"] == "Juncture" else each["title"]
        seconds = ", ".join(f"{value:.2f} s" for value in each["batch_seconds"])
        (warm, counted), right = each["batches"], _ANSWERS[each["is_the_batch_answer"]]
        lines.append(
            f"| {title} | {each['rows_per_second']:,} | {each['rows_per_cpu_second']:,} | {seconds} | "
            f"{each['rows']:,}, {each['keys']:,} | {counted} of {warm + counted} | {right} |"
        )
    return "\n".join(lines)


def _flat(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the state and memory of Juncture at the start and at the end, and the phases of a micro-batch."""
    ours = next((each for each in entries if each["title"] == "Juncture"), None)
    if ours is None:
        return ""
    (first, last), (before, after) = ours["state_bytes"], ours["memory_mb"]
    parts = {name: value for name, value in ours["durations_ms"].items() if name != "triggerExecution"}
    spent = ", ".join(f"{name} {value:,.0f} ms" for name, value in sorted(parts.items(), key=lambda each: -each[1]))
    return (
        f"Juncture, from the first measured micro-batch to the last: state {first / 1e6:.2f} to {last / 1e6:.2f} MB, "
        f"memory of all processes {before:,} to {after:,} MB. Median micro-batch: {spent}."
    )


def _ratio(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return how many times as many rows Juncture joins as a query that is written by hand."""
    ours, *others = entries
    if ours["title"] != "Juncture" or [each["is_the_batch_answer"] for each in others] != [True]:
        return ""
    speed, cpu = (ours[figure] / others[0][figure] for figure in ("rows_per_second", "rows_per_cpu_second"))
    return f"Juncture joins {speed:.1f} times as many rows a second, and {cpu:.1f} times as many a CPU second."


def _circumstances(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return when and on which machine contestants were measured, and its load."""
    dates = " and ".join(sorted({each["date"][:10] for each in entries}))
    loads = [each["load_average"] for each in entries]
    newest = dict(max(entries, key=lambda each: str(each["date"])))
    load = f"load average at the start of a contestant {min(loads)} to {max(loads)}"
    return f"{dates}, {hardware(newest)}; {load}.\n{versions(newest)}."
