"""The page on the benchmark of range and overlap joins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from juncture_benchmarks.harness import load_results
from juncture_benchmarks.range.scenarios import SEED_SCENARIO, scenario_names
from juncture_benchmarks.report import write_page

__all__ = ["write_range_page"]

_PREFACE = """
Two tables are joined by a window or by overlapping intervals. Joins read Parquet files. In-process results are Arrow
tables in memory. On Spark, the `noop` sink receives every row.

- Each run has a new process, which first joins two small tables. Times exclude imports, compilation and Spark's start.
- Contestants take turns. Every result is compared with a NumPy computation. Times of wrong results are not shown.
- Peak memory counts the resident pages of all processes. The parts in parentheses may peak at different times. With
  `auto`, the small join starts Python workers, even if the chosen algorithm does not need them.
- *Range* and *bins* are [algorithms of Juncture](../windows.md#on-spark) on Spark.

**Events** are the tables of the article "Efficient Range-Joins With Spark 2.0": an event and a measurement every ten
seconds. Each event matches the measurements of the hour before it, about 360. *Bins and a double join* is the article's
method: Spark joins rows by their hour, and each measurement is repeated for the next hour.

**Points** are unsorted integers, 100 apart on average. A left point matches the right points in the window below it, or
around it in the *band join*. The window has a length of 100 per expected match, and of 200 in the skewed case.
**Intervals** have unsorted starts, and match if they overlap. Two skewed cases have about as many matches as the even
cases. *Half of all rows in one bin*: these left and right points are close together, but do not match. *0.1% of them
over all values*: each of these intervals overlaps all others.
"""

_COMPARED = (
    ("Band join, Juncture against DuckDB", ("local-band", "juncture"), ("local-band", "duckdb")),
    ("Overlap join, Juncture against DuckDB", ("local-overlap", "juncture"), ("local-overlap", "duckdb")),
    (
        "Aggregates, Juncture with `agg=` against Juncture, join then group",
        ("local-agg", "juncture-agg"),
        ("local-agg", "juncture-group"),
    ),
    *(
        (
            f"{place}, {shape}, {title} against even",
            (f"{engine}-skew-{shape}-{skewed}", ours),
            (f"{engine}-skew-{shape}-even", ours),
        )
        for engine, place, ours in (("local", "In-process", "juncture"), ("spark", "Spark", "juncture-auto"))
        for shape, skewed, title in (
            ("points", "hot", "half of all rows in one bin"),
            ("intervals", "long", "0.1% of them over all values"),
        )
    ),
    (
        "Spark, Juncture at 1,000,000 rows against the condition alone at 50,000",
        (f"{SEED_SCENARIO}-1000000", "juncture-auto"),
        (f"{SEED_SCENARIO}-50000", "naive"),
    ),
)
"""Comparisons: a description, and scenario and contestant of both sides."""

Medians = Mapping[tuple[str, str], Mapping[str, float]]


def write_range_page(path: Path, results: Path) -> list[Path]:
    """Write the page and the plot from the results of all scenarios.

    Parameters
    ----------
    path
        The page.
    results
        The folder with ``range-full.json``.
    """
    kept = {each["name"]: each for each in load_results(results / "range-full.json")}
    scenarios = [kept[name] for name in scenario_names() if name in kept]
    tables = [table for table in (_comparisons(scenarios), _seed_table(scenarios)) if table]
    preface = "\n\n".join([_PREFACE.strip(), *tables])
    return write_page(path, "Range and overlap joins, measured", preface, [*filter(_has_section, scenarios)])


def _has_section(scenario: Mapping[str, Any]) -> bool:
    """Return whether a scenario has a table of its own: of the events, only the largest with all contestants."""
    return not scenario["name"].startswith(f"{SEED_SCENARIO}-") or scenario["name"] == f"{SEED_SCENARIO}-1000000"


def _comparisons(scenarios: list[dict[str, Any]]) -> str:
    """Return a table of how many times as long, and as much memory, one run takes as another."""
    medians: Medians = {
        (scenario["name"], entry["contestant"]): entry["median"]
        for scenario in scenarios
        for entry in scenario["entries"]
        if "median" in entry
    }
    lines = [
        f"| {title} | {_ratio(medians, ours, theirs, 'seconds')} | {_ratio(medians, ours, theirs, 'peak_bytes')} |"
        for title, ours, theirs in _COMPARED
        if ours in medians and theirs in medians
    ]
    title = "Time and memory of the first, divided by those of the second:"
    head = [title, "", "| | time | peak memory |", "| --- | ---: | ---: |"]
    return "\n".join([*head, *lines]) if lines else ""


def _ratio(medians: Medians, ours: tuple[str, str], theirs: tuple[str, str], measure: str) -> str:
    return f"{medians[ours][measure] / medians[theirs][measure]:.2f} x"


def _seed_table(scenarios: list[dict[str, Any]]) -> str:
    """Return a table of times by the number of rows, with a column for each contestant."""
    events = [each for each in scenarios if each["name"].startswith(f"{SEED_SCENARIO}-")]
    titles = list(dict.fromkeys(entry["title"] for each in events for entry in each["entries"]))
    if not titles:
        return ""
    lines = [
        "Events on Spark, single runs. *The condition alone* ran up to 80,000 rows, all but *auto* up to 1,000,000:",
        "",
    ]
    lines += [f"| rows a side | rows out | {' | '.join(titles)} |", "| ---: " * (len(titles) + 2) + "|"]
    for each in events:
        entries = {entry["title"]: entry for entry in each["entries"]}
        cells = [_seconds(entries.get(title)) for title in titles]
        rows, joined = each["facts"]["left_rows"], each["facts"]["expected_rows"]
        lines.append(f"| {rows:,} | {joined:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _seconds(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return ""
    return f"{entry['median']['seconds']:.2f} s" if "median" in entry else str(entry["status"])
