"""The page on what the planner chooses: how far from the fastest, workload by workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juncture.planner.explain.charts import charting
from juncture_benchmarks.harness import load_results
from juncture_benchmarks.planner.grid import workloads
from juncture_benchmarks.planner.measure import AUTO, ENOUGH_S, NEAR, SLOW
from juncture_benchmarks.report import OURS, PEER, hardware, versions

__all__ = ["planner_table", "verdict", "write_planner_page"]

_SLOWEST_DRAWN = 10
_SHOWN_RATIO = 1.1
_FLOOR_S = 0.05
"""Smaller differences between medians are noise."""

_PREFACE = """
Each workload runs with the planner's choice (`algorithm="auto"`), and with every algorithm that applies. Workloads for
which a single algorithm applies are excluded. *Ratio* is the time of the choice divided by the time of the fastest. The
goal is a ratio within 1.3 for nine in ten workloads, and within 2 for all.

- The time of the choice includes planning, and on Spark all sampling.
- Tables are generated Parquet files in the page cache. In-process results are Arrow tables. On Spark, the `noop` sink
  receives every row, and rows are counted on their way.
- A process or Spark session runs many joins. Each algorithm first joins two small tables of the same kind.
- Contestants take turns, three to nine times. They stop once each has run for {local_s:g} s ({spark_s:g} s on Spark).
  Medians count.
- An algorithm that takes {near:g} times as long as the best in the first turn is not repeated. After {slow:g} times as
  long, it is stopped.
- Results are compared by sums over their rows. If results differ, no time is shown.
- A choice within {floor_ms:.0f} ms of the fastest counts as within any ratio. The summary has counts with and without
  this allowance.
"""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The chosen and the fastest algorithm of a workload, with their times."""

    chosen: str
    seconds: float
    fastest: str
    fastest_s: float

    @property
    def ratio(self) -> float:
        """The time of the choice as a multiple of the time of the fastest."""
        return self.seconds / self.fastest_s

    def is_within(self, ratio: float, *, allowed_s: float = _FLOOR_S) -> bool:
        """Return whether the choice is within a ratio of the fastest, or loses less than the allowance."""
        return self.ratio <= ratio or self.seconds - self.fastest_s < allowed_s


def verdict(result: dict[str, Any]) -> Verdict | None:
    """Return the verdict on a choice, or None if there is nothing to compare it with."""
    medians = {entry["contestant"]: entry["median"]["seconds"] for entry in result["entries"] if "median" in entry}
    refused = {entry["contestant"] for entry in result["entries"] if entry["status"] == "refused"}
    applying = {entry["contestant"] for entry in result["entries"]} - refused - {AUTO}
    if AUTO not in medians or len(applying) < 2:
        return None
    chosen = next(entry for entry in result["entries"] if entry["contestant"] == AUTO)["answer"]["chosen"]
    fastest = min(medians, key=lambda name: medians[name])
    return Verdict(
        chosen=chosen,
        seconds=medians[AUTO],
        fastest=chosen if fastest == AUTO else fastest,
        fastest_s=medians[fastest],
    )


def planner_table(result: dict[str, Any]) -> str:
    """Return the times of all contestants, in Markdown."""
    found = verdict(result)
    lines = ["| | time | cost | |", "| --- | ---: | ---: | --- |"]
    costs: dict[str, float] = next((entry["costs"] for entry in result["entries"] if "costs" in entry), {})
    for entry in result["entries"]:
        name = entry["contestant"]
        title = f"**{name} → {entry['answer']['chosen']}**" if name == AUTO and "answer" in entry else name
        cost = f"{costs[name]:.3f} s" if name in costs else ""
        lines.append(f"| {title} | {_time(entry)} | {cost} | {entry['reason'][:90]} |")
    return "\n".join(lines) + (f"\n\nratio {found.ratio:.2f}" if found else "")


def write_planner_page(path: Path, results: Path) -> list[Path]:
    """Write the page and the plot.

    Parameters
    ----------
    path
        The page.
    results
        The folder with ``planner.json``.

    Raises
    ------
    PlanError
        If Altair or vl-convert is not installed.
    """
    kept = {each["name"]: each for each in load_results(results / "planner.json")}
    judged = [
        (kept[each.name], found) for each in workloads() if each.name in kept and (found := verdict(kept[each.name]))
    ]
    plot = path.with_suffix(".svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_plot(plot, judged)
    parts = [
        "# What the planner chooses, measured",
        _PREFACE.strip().format(**_rules()),
        _sums([found for _, found in judged]),
        f"![How many times as long as the fastest every algorithm takes]({plot.name})",
        _table(judged),
        _circumstances([result for result, _ in judged]),
    ]
    path.write_text("\n\n".join(parts) + "\n")
    return [path, plot]


def _rules() -> dict[str, float]:
    """Return the figures in the preface."""
    return {
        "local_s": ENOUGH_S["local"],
        "spark_s": ENOUGH_S["spark"],
        "near": NEAR,
        "slow": SLOW,
        "floor_ms": _FLOOR_S * 1_000,
    }


def _sums(verdicts: Sequence[Verdict]) -> str:
    """Return a table of how many choices are good."""
    lines = ["| | workloads | share | without the allowance |", "| --- | ---: | ---: | ---: |"]
    for ratio in (1.3, 2.0):
        counts = [sum(each.is_within(ratio, allowed_s=allowed) for each in verdicts) for allowed in (_FLOOR_S, 0.0)]
        shares = [count / max(len(verdicts), 1) for count in counts]
        lines.append(
            f"| within {ratio:g} | {counts[0]} of {len(verdicts)} | {shares[0]:.0%} | {counts[1]}, {shares[1]:.0%} |"
        )
    return "\n".join(lines)


def _table(judged: Sequence[tuple[dict[str, Any], Verdict]]) -> str:
    """Return a table of the workloads in which another algorithm was clearly faster."""
    shown = [(result, found) for result, found in judged if found.ratio > _SHOWN_RATIO]
    lines = [
        f"Choices within {_SHOWN_RATIO:g} times the fastest: {len(judged) - len(shown)} of {len(judged)}. The others:",
        "",
        "| workload | rows | chosen | its time | fastest | its time | ratio | others |",
        "| --- | --- | --- | ---: | --- | ---: | ---: | --- |",
    ]
    for result, found in shown:
        facts = result["facts"]
        rows = f"{facts['left_rows']:,} by {facts['right_rows']:,}" + (
            f", {facts['memory']}" if facts["memory"] else ""
        )
        others = ", ".join(
            f"{entry['contestant']} {_time(entry)}"
            for entry in sorted(
                result["entries"], key=lambda entry: entry.get("median", {}).get("seconds", float("inf"))
            )
            if entry["contestant"] not in (AUTO, found.fastest) and entry["status"] != "refused"
        )
        ratio = f"{found.ratio:.2f}" if found.is_within(1.3) else f"**{found.ratio:.2f}**"
        cells = (f"`{result['name']}` {result['title']}", rows, found.chosen, f"{found.seconds:.2f} s", found.fastest)
        lines.append(f"| {' | '.join(cells)} | {found.fastest_s:.2f} s | {ratio} | {others} |")
    return "\n".join(lines)


def _circumstances(results: Sequence[dict[str, Any]]) -> str:
    """Return when, on which machine and with which versions workloads were measured."""
    if not results:
        return ""
    dates = sorted({result["date"][:10] for result in results})
    loads = [result["load_average"] for result in results]
    notes = "".join(f"**{note}**\n" for note in dict.fromkeys(result["note"] for result in results) if note)
    load = f"load average at the start of a workload {min(loads)} to {max(loads)}"
    newest = max(results, key=lambda result: len(result["versions"]))
    return f"{notes}{' and '.join(dates)}, {hardware(newest)}; {load}.\n{versions(newest)}."


def _time(entry: dict[str, Any]) -> str:
    return f"{entry['median']['seconds']:.2f} s" if "median" in entry else str(entry["status"])


def _write_plot(path: Path, judged: Sequence[tuple[dict[str, Any], Verdict]]) -> None:
    """Draw how many times as long as the fastest each algorithm takes, the choice in its own colour."""
    alt, vl_convert = charting()
    rows = list(_plot_rows(judged))
    scale = alt.Scale(type="log", domain=[1, _SLOWEST_DRAWN], clamp=True)
    order = list(dict.fromkeys(row["workload"] for row in rows))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("workload:N", sort=order, axis=alt.Axis(labelLimit=240, title=None, grid=True)),
        x=alt.X(
            "ratio:Q", scale=scale, axis=alt.Axis(title="time over that of the fastest", values=[1, 1.3, 2, 5, 10])
        ),
    )
    others = base.transform_filter("!datum.chosen").mark_point(color=PEER, opacity=0.9)
    chosen = base.transform_filter("datum.chosen").mark_circle(color=OURS, size=55, opacity=1)
    limits = alt.Chart(alt.InlineData(values=[{"ratio": 1.3}, {"ratio": 2.0}])).mark_rule(
        color="#444", strokeDash=[4, 3]
    )
    chart = (limits.encode(x="ratio:Q") + others + chosen).properties(width=420, height={"step": 14})
    path.write_text(vl_convert.vegalite_to_svg(chart.to_json()))


def _plot_rows(judged: Iterable[tuple[dict[str, Any], Verdict]]) -> Iterator[dict[str, Any]]:
    for result, found in judged:
        for entry in result["entries"]:
            if "median" in entry:
                ratio = entry["median"]["seconds"] / found.fastest_s
                yield {"workload": result["name"], "ratio": ratio, "chosen": entry["contestant"] == AUTO}
