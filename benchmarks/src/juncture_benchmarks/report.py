"""Turns results into a page: tables in Markdown and a plot in SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from juncture.planner.explain.charts import charting

OURS, PEER = "#d1495b", "#8d99ae"


def write_page(path: Path, title: str, preface: str, scenarios: Sequence[dict[str, Any]]) -> list[Path]:
    """Write a Markdown page with a table for each scenario, and a plot of all of them beside it.

    Parameters
    ----------
    path
        The page; the plot gets the same name with ``.svg``.
    title, preface
        What stands above the tables, in Markdown.
    scenarios
        As `juncture_benchmarks.harness.run_scenario` returns them.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    PlanError
        If Altair or vl-convert is not installed.
    """
    plot = path.with_suffix(".svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_plot(plot, scenarios)
    sections = (f"## {each['title']}\n\n{markdown_table(each)}\n\n{_circumstances(each)}" for each in scenarios)
    head = f"# {title}\n\n{preface.strip()}\n\n![Time and memory of every contestant]({plot.name})"
    path.write_text("\n\n".join([head, *sections]) + "\n")
    return [path, plot]


def markdown_table(scenario: dict[str, Any]) -> str:
    """Return a scenario's medians as a Markdown table, the fastest first.

    Examples
    --------
    >>> median = {"seconds": 2.0, "peak_bytes": 3e9, "own_peak_bytes": 3e9, "java_peak_bytes": 0, "cpu_s": 3.0}
    >>> entry = {"title": "Juncture", "ours": True, "status": "ok", "reason": "", "median": median, "runs": [median]}
    >>> print(markdown_table({"entries": [entry]}))
    | | time | range | peak memory | cores busy |
    | --- | ---: | ---: | ---: | ---: |
    | **Juncture** | 2.00 s | 2.00 to 2.00 s | 3.00 GB | 1.5 |
    """
    on_spark = any(each.get("median", {}).get("java_peak_bytes") for each in scenario["entries"])
    memory = "peak memory (Java + Python workers)" if on_spark else "peak memory"
    lines = [f"| | time | range | {memory} | cores busy |", "| --- | ---: | ---: | ---: | ---: |"]
    is_limited = "memory_bytes" in scenario.get("facts", {})
    lines += [
        f"| {' | '.join(_cells(each, is_limited=is_limited))} |" for each in sorted(scenario["entries"], key=_order)
    ]
    return "\n".join(lines)


def _order(entry: dict[str, Any]) -> tuple[bool, float]:
    """Sort by time; those without one come last."""
    return "median" not in entry, entry.get("median", {}).get("seconds", 0.0)


def _cells(entry: dict[str, Any], *, is_limited: bool = False) -> list[str]:
    """Return a table row; where memory is limited, with what the process held before it had joined anything."""
    title = f"**{entry['title']}**" if entry["ours"] else entry["title"]
    if chosen := entry.get("answer", {}).get("chosen"):
        title += f" → {chosen}" if not title.rstrip("*").endswith(chosen) else ""
    if "median" not in entry:
        return [title, f"{entry['status']}: {_escape(entry['reason'])}", "", "", ""]
    median, seconds = entry["median"], [run["seconds"] for run in entry["runs"]]
    memory = f"{median['peak_bytes'] / 1e9:.2f} GB"
    if median["java_peak_bytes"]:
        memory += f" ({median['java_peak_bytes'] / 1e9:.2f} + {median['worker_peak_bytes'] / 1e9:.2f})"
    if is_limited:
        memory += f" ({median['before_bytes'] / 1e9:.2f} before)"
    return [
        title,
        f"{median['seconds']:.2f} s",
        f"{min(seconds):.2f} to {max(seconds):.2f} s",
        memory,
        f"{median['cpu_s'] / median['seconds']:.1f}",
    ]


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:200]


def _circumstances(scenario: dict[str, Any]) -> str:
    """Say on what, when and with which versions a scenario was measured."""
    text = (
        f"{scenario['date'][:10]}, {hardware(scenario)}; medians of {scenario['repeat']}; "
        f"load average at the start {scenario['load_average']}.\n{versions(scenario)}."
    )
    return f"**{scenario['note']}**\n{text}" if scenario["note"] else text


def hardware(scenario: dict[str, Any]) -> str:
    """Say on what machine a scenario was measured."""
    machine = scenario["machine"]
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB"
    return f"{machine['cpu']}, {machine['cores']} cores, {memory}, {machine['system']}"


def versions(scenario: dict[str, Any]) -> str:
    """Say with which versions a scenario was measured."""
    return ", ".join(f"{name} {number}" for name, number in scenario["versions"].items())


def _write_plot(path: Path, scenarios: Iterable[dict[str, Any]]) -> None:
    """Draw time and memory of each scenario side by side, each scenario on its own scale."""
    alt, vl_convert = charting()

    def bars(rows: list[dict[str, Any]], value: str, title: str, labels: bool) -> Any:
        order = [row["title"] for row in sorted(rows, key=lambda row: row["seconds"])]
        axis = alt.Axis(labelLimit=220, title=None) if labels else None
        base = alt.Chart(alt.InlineData(values=rows)).encode(y=alt.Y("title:N", sort=order, axis=axis))
        colour = alt.Color("ours:N", scale=alt.Scale(domain=[True, False], range=[OURS, PEER]), legend=None)
        drawn = base.mark_bar(height={"band": 0.75}).encode(x=alt.X(f"{value}:Q", title=title), color=colour)
        text = base.mark_text(align="left", dx=3).encode(
            x=f"{value}:Q", text=alt.Text(f"{value}:Q", format=".3~g"), color=alt.value("#444")
        )
        return (drawn + text).properties(width=260, height={"step": 18})

    charts = [
        alt.hconcat(
            bars(rows, "seconds", "median time, s", labels=True),
            bars(rows, "gigabytes", "peak memory, GB", labels=False),
        )
        .resolve_scale(y="shared")
        .properties(title=scenario["title"])
        for scenario in scenarios
        if (rows := list(_plot_rows(scenario)))
    ]
    chart = alt.vconcat(*charts).configure_view(stroke=None).configure_title(anchor="start", fontSize=13)
    path.write_text(vl_convert.vegalite_to_svg(chart.to_json()))


def _plot_rows(scenario: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return what is drawn: contestants that have a time."""
    for entry in scenario["entries"]:
        if median := entry.get("median"):
            yield {
                "title": entry["title"],
                "ours": entry["ours"],
                "seconds": median["seconds"],
                "gigabytes": median["peak_bytes"] / 1e9,
            }
