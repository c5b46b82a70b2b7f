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
        Texts above the tables, in Markdown.
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
    head = f"# {title}\n\n{preface.strip()}\n\n![Time and memory of every contestant]({plot.name})"
    sections = (f"## {each['title']}\n\n{markdown_table(each)}{_note(each)}" for each in scenarios)
    path.write_text("\n\n".join([head, *sections, circumstances(scenarios)]) + "\n")
    return [path, plot]


def markdown_table(scenario: dict[str, Any]) -> str:
    """Return a scenario's medians as a Markdown table, the fastest first.

    Examples
    --------
    >>> median = {"seconds": 2.0, "peak_bytes": 3e9, "own_peak_bytes": 3e9, "java_peak_bytes": 0, "cpu_s": 3.0}
    >>> entry = {"title": "Juncture", "ours": True, "status": "ok", "reason": "", "median": median, "runs": [median]}
    >>> print(markdown_table({"entries": [entry]}))
    | | time, single run | peak memory | cores busy |
    | --- | ---: | ---: | ---: |
    | **Juncture** | 2.00 s | 3.00 GB | 1.5 |
    """
    entries = sorted((each for each in scenario["entries"] if not _is_refused(each)), key=_order)
    on_spark = any(each.get("median", {}).get("java_peak_bytes") for each in entries)
    runs = max((len(each["runs"]) for each in entries), default=0)
    times = ["time, single run"] if runs <= 1 else [f"median of {runs} runs", "least to most"]
    heads = [*times, "peak memory (driver + Java + Python workers)" if on_spark else "peak memory", "cores busy"]
    is_limited = "memory_bytes" in scenario.get("facts", {})
    rows = (_cells(each, columns=len(heads), has_range=runs > 1, is_limited=is_limited) for each in entries)
    lines = [f"| | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def _is_refused(entry: dict[str, Any]) -> bool:
    """Return whether the planner excluded the algorithm of an entry."""
    return "PlanError" in entry["reason"] and "cannot run this join" in entry["reason"]


def _order(entry: dict[str, Any]) -> tuple[bool, float]:
    """Return a key that sorts by time, with failed entries last."""
    return "median" not in entry, entry.get("median", {}).get("seconds", 0.0)


def _cells(entry: dict[str, Any], *, columns: int, has_range: bool, is_limited: bool) -> list[str]:
    """Return a table row. With limited memory, it includes the memory of the process before the join."""
    title = f"**{entry['title']}**" if entry["ours"] else entry["title"]
    if chosen := entry.get("answer", {}).get("chosen"):
        title += f" → {chosen}" if not title.rstrip("*").endswith(chosen) else ""
    if "median" not in entry:
        return [title, f"{entry['status']}: {_escape(entry['reason'])}", *[""] * (columns - 1)]
    median, seconds = entry["median"], [run["seconds"] for run in entry["runs"]]
    memory = f"{median['peak_bytes'] / 1e9:.2f} GB"
    if median["java_peak_bytes"]:
        parts = (median[f"{part}_peak_bytes"] / 1e9 for part in ("own", "java", "worker"))
        memory += f" ({' + '.join(f'{gigabytes:.2f}' for gigabytes in parts)})"
    if is_limited:
        memory += f" ({median['before_bytes'] / 1e9:.2f} before)"
    spread = [f"{min(seconds):.2f} to {max(seconds):.2f} s"] if has_range else []
    return [title, f"{median['seconds']:.2f} s", *spread, memory, f"{median['cpu_s'] / median['seconds']:.1f}"]


def _escape(text: str) -> str:
    return text.removeprefix("juncture.errors.PlanError: ").replace("|", "\\|").replace("\n", " ")[:200]


def _note(scenario: dict[str, Any]) -> str:
    return f"\n\n**{scenario['note']}**" if scenario["note"] else ""


def circumstances(scenarios: Sequence[dict[str, Any]]) -> str:
    """Return when, on which machines and with which versions scenarios were measured, as a section of a page."""
    machines: dict[str, list[dict[str, Any]]] = {}
    numbers: dict[str, dict[str, None]] = {}
    for each in scenarios:
        machines.setdefault(hardware(each), []).append(each)
        for name, number in each["versions"].items():
            numbers.setdefault(name, {})[number] = None
    lines = []
    for machine, measured in machines.items():
        dates = " and ".join(sorted({each["date"][:10] for each in measured}))
        loads = [each["load_average"] for each in measured]
        lines.append(f"- {dates}, {machine}. Load average at the start of a scenario: {min(loads)} to {max(loads)}.")
    lines.append(f"- {', '.join(f'{name} {_either(known)}' for name, known in numbers.items())}.")
    return "\n".join(["## Machine and versions", "", *lines])


def _either(values: Iterable[str]) -> str:
    return " or ".join(values)


def hardware(scenario: dict[str, Any]) -> str:
    """Return the machine of a scenario."""
    machine = scenario["machine"]
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB"
    return f"{machine['cpu']}, {machine['cores']} cores, {memory}, {machine['system']}"


def versions(scenario: dict[str, Any]) -> str:
    """Return the versions of a scenario."""
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
    """Return the bars of the plot: contestants with a time."""
    for entry in scenario["entries"]:
        if median := entry.get("median"):
            yield {
                "title": entry["title"],
                "ours": entry["ours"],
                "seconds": median["seconds"],
                "gigabytes": median["peak_bytes"] / 1e9,
            }
