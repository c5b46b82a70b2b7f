"""The scenarios of the range and overlap benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from juncture_benchmarks.datasets import RangeTables, write_events, write_intervals, write_points
from juncture_benchmarks.harness import Contestant, Scenario
from juncture_benchmarks.pairs import check_against
from juncture_benchmarks.range import local, spark
from juncture_benchmarks.range.answer import expected_answer
from juncture_benchmarks.range.task import Task

__all__ = ["SEED_SCENARIO", "make_scenario", "scenario_names"]

SEED_SCENARIO = "spark-seed"
"""Prefix of the names of the scenarios with events every ten seconds."""

_SEED_ROWS = {
    "full": (10_000, 20_000, 50_000, 80_000, 100_000, 130_000, 200_000, 500_000, 10**6, 2 * 10**6, 5 * 10**6, 10**7),
    "tiny": (500, 1_000),
}
_NAIVE_ROWS_MAX = 80_000
"""The cost of the naive query grows with the square of the rows: the next size would take more than ten minutes."""
_COMPARED_ROWS_MAX = 1_000_000
"""Beyond this number of rows, billions of matches take minutes with every algorithm."""
_HOUR_US = 3_600_000_000
_SPACING = 100
"""Average distance between neighbouring points, and between neighbouring starts of intervals."""


@dataclass(frozen=True, kw_only=True)
class _Workload:
    """A scenario before its tables are made.

    Attributes
    ----------
    name
        Its name, and that of the folder of its tables.
    title
        Its description without sizes.
    rows
        Rows of each of the two tables.
    write
        Makes the tables in a folder, with a number of rows.
    window
        The window, for `Task`.
    contestants
        Names of contestants in-process; on Spark, algorithms of Juncture and names of other methods.
    """

    name: str
    title: str
    rows: int
    write: Callable[[Path, int], RangeTables]
    window: dict[str, Any]
    contestants: tuple[str, ...]

    @property
    def is_local(self) -> bool:
        return self.name.startswith("local-")

    @property
    def is_aggregated(self) -> bool:
        return any(name in local.AGGREGATING for name in self.contestants)


def scenario_names(scale: str = "full") -> list[str]:
    """Return the names of all scenarios, in the order in which they run."""
    return [each.name for each in _workloads(scale)]


def _workloads(scale: str) -> list[_Workload]:
    small = 1 if scale == "full" else 100
    joining = ("juncture", "duckdb", "polars")
    return [
        _Workload(
            name="local-band",
            title="band join, about one match a row",
            rows=10_000_000 // small,
            write=_points,
            window=_band(1),
            contestants=(*joining, "numpy"),
        ),
        _Workload(
            name="local-overlap",
            title="overlap join, about one match a row",
            rows=1_000_000 // small,
            write=partial(_intervals, matches=1),
            window={},
            contestants=joining,
        ),
        _Workload(
            name="local-agg",
            title="count, mean and greatest value of about 100 matches a row",
            rows=500_000 // small,
            write=_points,
            window=_look_back(100),
            contestants=("juncture-agg", "juncture-group", "duckdb-group"),
        ),
        *_skewed("local", 5_000_000 // small, 2, 100_000 // small, ("juncture", "duckdb")),
        *(_seed(rows) for rows in _SEED_ROWS[scale]),
        *_skewed("spark", 2_000_000 // small, 10, 100_000 // small, ("auto", "range", "bins")),
    ]


def _seed(rows: int) -> _Workload:
    """Return the join of each event with the measurements of the hour before it."""
    compared = ("range", "bins", "double-join") if rows <= _COMPARED_ROWS_MAX else ()
    naive = ("naive",) if rows <= _NAIVE_ROWS_MAX else ()
    return _Workload(
        name=f"{SEED_SCENARIO}-{rows}",
        title="events and the measurements of the hour before",
        rows=rows,
        write=lambda folder, rows: write_events(folder, left_rows=rows, right_rows=rows),
        window={"lower": -_HOUR_US, "upper": 0, "closed": "right"},
        contestants=("auto", *compared, *naive),
    )


def _skewed(engine: str, points: int, matches: int, intervals: int, contestants: tuple[str, ...]) -> list[_Workload]:
    """Return an even and a skewed case of points and of intervals, which have about as many matches.

    Half of the right points are out of reach of all left ones, so the window is twice as long where points are hot.
    An interval over all values overlaps all others, which adds many matches. In the even case, all intervals are longer
    instead.
    """
    long = intervals // 1_000
    hot = _look_back(2 * matches)
    return [
        _Workload(
            name=f"{engine}-skew-points-even",
            title=f"points, even, about {matches} matches a row",
            rows=points,
            write=_points,
            window=_look_back(matches),
            contestants=contestants,
        ),
        _Workload(
            name=f"{engine}-skew-points-hot",
            title="points, half of all rows in one bin, about as many matches",
            rows=points,
            write=partial(_points, stretch=-hot["lower"]),
            window=hot,
            contestants=contestants,
        ),
        _Workload(
            name=f"{engine}-skew-intervals-even",
            title=f"intervals, even, about {2 * long + 1} matches a row",
            rows=intervals,
            write=partial(_intervals, matches=2 * long + 1),
            window={},
            contestants=contestants,
        ),
        _Workload(
            name=f"{engine}-skew-intervals-long",
            title="intervals, 0.1% of them over all values, about as many matches",
            rows=intervals,
            write=partial(_intervals, matches=1, long_share=0.001),
            window={},
            contestants=contestants,
        ),
    ]


def _look_back(matches: int) -> dict[str, Any]:
    return {"lower": -_SPACING * matches, "upper": 0, "closed": "right"}


def _band(matches: int) -> dict[str, Any]:
    return {"lower": -_SPACING * matches // 2, "upper": _SPACING * matches // 2}


def _points(folder: Path, rows: int, stretch: int = 0) -> RangeTables:
    share = 0.5 if stretch else 0.0
    return write_points(folder, left_rows=rows, right_rows=rows, span=_SPACING * rows, stretch=stretch, hot_share=share)


def _intervals(folder: Path, rows: int, matches: int, long_share: float = 0.0) -> RangeTables:
    length = _SPACING * matches // 2
    return write_intervals(
        folder, left_rows=rows, right_rows=rows, span=_SPACING * rows, length=length, long_share=long_share
    )


def make_scenario(name: str, scale: str, data: Path, announce: Callable[[str], None]) -> Scenario:
    """Make a scenario, its tables and its right answer first."""
    workload = next(each for each in _workloads(scale) if each.name == name)
    folder, rows = data / f"range-{scale}", workload.rows
    title = f"{workload.title}, {rows:,} by {rows:,} rows"
    announce(f"{workload.name}: preparing {title}")
    tables = workload.write(folder / workload.name, rows)
    task = Task.of(tables, **workload.window)
    few = min(rows, 10_000)
    tiny = replace(Task.of(workload.write(folder / f"{workload.name}-{few}-rows", few)), **workload.window)
    expected = expected_answer(task, aggregated=workload.is_aggregated)
    contestants = (_local if workload.is_local else _spark)(workload, task, tiny)
    return Scenario(
        name=workload.name,
        title=f"{'In-process' if workload.is_local else 'Spark'}: {title}",
        facts={"left_rows": rows, "right_rows": rows, "expected_rows": expected.rows},
        contestants=contestants,
        check=check_against(expected),
    )


def _local(workload: _Workload, task: Task, tiny: Task) -> tuple[Contestant, ...]:
    return tuple(local.contestant(name, task, tiny) for name in workload.contestants)


def _spark(workload: _Workload, task: Task, tiny: Task) -> tuple[Contestant, ...]:
    return tuple(_spark_contestant(name, task, tiny) for name in workload.contestants)


def _spark_contestant(name: str, task: Task, tiny: Task) -> Contestant:
    peer = next((each for each in spark.PEERS if each == name), None)
    return spark.ours(task, tiny, name) if peer is None else spark.peer(peer, task, tiny)
