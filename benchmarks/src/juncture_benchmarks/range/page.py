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
Two tables are joined by a window or by the overlap of intervals. Parquet goes in, and the joined table comes out in
memory; on Spark every row goes to the `noop` sink. Every run has a process of its own, which has first joined two small
tables in the same way, so that neither imports nor compilation nor the start of a session are in the time.
Contestants take turns. Every answer is compared with one that NumPy has found by sorting, searching and running
sums, and a wrong one has no time here. Peak memory is that of all the process's resident pages, Java's heap and
Python workers included; Java keeps what it has once taken.

*Events*: an event and a measurement every ten seconds, and for each event the measurements of the hour before it,
about 360 (the tables of "Efficient Range-Joins With Spark 2.0"). The naive query is the condition in a join, and
nothing else, and is left out where it would take more than ten minutes; bins and a double join are that article's
own method. *Points*: unsorted integers. *Intervals*: unsorted
starts, and lengths around a mean.

The skewed cases give about as many rows as the even ones beside them. *Half of all rows in one bin*: half of the left
rows and half of the right ones lie in one stretch as long as the window, the right ones after the left ones, so that
they share a bin and do not match; the window is twice as long to make up for it. *0.1% over the whole line*: each of
these intervals overlaps all others; in the even case all intervals are so much longer that there are as many matches.
"""

_COMPARED = (
    ("Band join, ours against DuckDB", ("local-band", "juncture"), ("local-band", "duckdb")),
    ("Overlap join, ours against DuckDB", ("local-overlap", "juncture"), ("local-overlap", "duckdb")),
    ("Aggregates, with `agg=` against join then group", ("local-agg", "juncture-agg"), ("local-agg", "juncture-group")),
    *(
        (
            f"{place}, {skewed} against even {shape}",
            (f"{engine}-skew-{shape}-{skewed}", ours),
            (f"{engine}-skew-{shape}-even", ours),
        )
        for engine, place, ours in (("local", "In-process", "juncture"), ("spark", "Spark", "juncture-auto"))
        for shape, skewed in (("points", "hot"), ("intervals", "long"))
    ),
    (
        "Spark, ours at 1,000,000 rows against naive at 50,000",
        (f"{SEED_SCENARIO}-1000000", "juncture-auto"),
        (f"{SEED_SCENARIO}-50000", "naive"),
    ),
)
"""What is compared with what: a description, and scenario and contestant of both."""

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
    return write_page(path, "Range and overlap joins, measured", "\n\n".join([_PREFACE.strip(), *tables]), scenarios)


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
    return "\n".join(["| | time | peak memory |", "| --- | ---: | ---: |", *lines]) if lines else ""


def _ratio(medians: Medians, ours: tuple[str, str], theirs: tuple[str, str], measure: str) -> str:
    return f"{medians[ours][measure] / medians[theirs][measure]:.2f} x"


def _seed_table(scenarios: list[dict[str, Any]]) -> str:
    """Return a table of times by the number of rows, with a column for each contestant."""
    events = [each for each in scenarios if each["name"].startswith(f"{SEED_SCENARIO}-")]
    titles = list(dict.fromkeys(entry["title"] for each in events for entry in each["entries"]))
    if not titles:
        return ""
    lines = [f"| rows a side | rows out | {' | '.join(titles)} |", "| ---: " * (len(titles) + 2) + "|"]
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
