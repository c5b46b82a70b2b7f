"""The scenarios of the benchmark of equality joins, and the function that runs them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Literal, get_args

from juncture.bench.equi import local, spark
from juncture.bench.equi.task import Task, expected_answer
from juncture.bench.harness import Contestant, Limits, Scenario, data_folder, is_named, only_named, run_scenario
from juncture.bench.pairs import Answer
from juncture.datasets import write_keyed
from juncture.errors import SpecError, did_you_mean

__all__ = ["Scale", "bench_equi", "scenario_names"]

Scale = Literal["full", "tiny"]

_ROWS: dict[str, tuple[int, int]] = {"full": (1_000_000, 100_000_000), "tiny": (10_000, 1_000_000)}
"""Rows of the smaller and of the larger table."""

_SPARK_ROWS: dict[str, tuple[int, int]] = {"full": (5_000_000, 50_000_000), "tiny": (10_000, 300_000)}
"""The same on Spark: neither is small enough to be sent everywhere."""

_HOT_SHARE = 0.5
"""How many of the larger table's rows have one key, where one is hot."""

_LIMITS: dict[str, int] = {"full": 0, "tiny": 64_000_000}
"""What the limited scenario may hold; without a figure, a tenth of the data."""

_ROW_BYTES = 30
"""Of keys, numbers and values in memory."""

_SCENARIOS = {
    "local-small-large": "the small table on the left",
    "local-large-small": "the small table on the right",
    "local-limited": "the small table on the left, in a tenth of the memory that the data take",
    "spark-even": "keys that all have about as many rows",
    "spark-hot": "one key has half of the larger table's rows",
}


def scenario_names() -> list[str]:
    """Return the names of all scenarios, in the order in which they run."""
    return list(_SCENARIOS)


def bench_equi(
    *,
    scale: Scale = "full",
    repeat: int = 3,
    only: Collection[str] = (),
    scenarios: Collection[str] = (),
    data: Path | None = None,
    limits: Limits | None = None,
    announce: Callable[[str], None] = lambda _: None,
    finished: Callable[[dict[str, Any]], None] = lambda _: None,
    note: str = "",
) -> list[dict[str, Any]]:
    """Run the benchmark of equality joins, ours and the peers, scenario by scenario.

    Parameters
    ----------
    scale
        ``"full"``, or ``"tiny"`` for the same with few rows, to see that all works.
    repeat
        How many times round.
    only
        Names of contestants, if not all of them are to run.
    scenarios
        Names of scenarios, or what they begin with up to a dash, if not all of them are to run.
    data
        Where the generated tables are kept and found again; by default in the user's cache folder.
    limits
        When a run is stopped; by default after ten minutes or at 90 percent of the memory that is free.
    announce
        Called with a line of text whenever something has been done.
    finished
        Called with what was measured in a scenario as soon as it is there.
    note
        What a reader of the results should know of the circumstances.

    Returns
    -------
    list of dict
        What was measured in each scenario, as `juncture.bench.harness.run_scenario` returns it.

    Raises
    ------
    SpecError
        If an argument is wrong or nothing is left to run.
    DataError
        If the data folder holds something else.
    """
    if scale not in get_args(Scale):
        raise SpecError(f"scale={scale!r} is not a scale. {did_you_mean(scale, get_args(Scale))}")
    if repeat < 1:
        raise SpecError(f"repeat must be at least 1, but is {repeat}")
    for name in scenarios:
        if not any(is_named(each, [name]) for each in _SCENARIOS):
            raise SpecError(f"There is no scenario {name!r}. {did_you_mean(name, _SCENARIOS)}")
    folder = (data or data_folder()) / f"equi-{scale}"
    limits = limits or Limits.of_this_machine()
    results = []
    for name in _SCENARIOS:
        if scenarios and not is_named(name, scenarios):
            continue
        scenario = only_named(_scenario(name, scale, folder, announce), only)
        if scenario.contestants:
            results.append(run_scenario(scenario, repeat=repeat, limits=limits, announce=announce, note=note))
            finished(results[-1])
    if not results:
        raise SpecError(f"no contestant is called {' or '.join(map(repr, sorted(only)))}.")
    return results


def _scenario(name: str, scale: Scale, folder: Path, announce: Callable[[str], None]) -> Scenario:
    """Make a scenario: its tables and its right answer first, so that nothing is ever timed against a guess."""
    on_spark = name.startswith("spark-")
    small, large = (_SPARK_ROWS if on_spark else _ROWS)[scale]
    rows = (large, small) if name == "local-large-small" else (small, large)
    title = f"{_SCENARIOS[name]}, {rows[0]:,} by {rows[1]:,} rows"
    announce(f"{name}: preparing {title}")
    limit = (_LIMITS[scale] or sum(rows) * _ROW_BYTES // 10) if name == "local-limited" else None
    hot_share = _HOT_SHARE if name == "spark-hot" else 0.0
    tasks = (
        _task(folder, *rows, hot_share, limit),
        _task(folder, rows[0] // 100, rows[1] // 100, hot_share, limit),
    )
    expected = expected_answer(tasks[0])
    facts = {"left_rows": rows[0], "right_rows": rows[1], "expected_rows": expected.rows}
    if on_spark:
        contestants = [spark.contestant(each, *tasks) for each in spark.NAMES]
    else:
        contestants = [local.contestant(each, *tasks) for each in (local.JOINING if limit is None else local.LIMITED)]
    return Scenario(
        name=name,
        title=f"{'On Spark' if on_spark else 'In-process'}: {title}",
        facts=facts if limit is None else facts | {"memory_bytes": limit},
        contestants=tuple(contestants),
        check=_check_against(expected),
    )


def _task(folder: Path, left: int, right: int, hot_share: float, limit: int | None) -> Task:
    """Return the join of a pair of tables, which are made if they are not there."""
    name = f"{left}-{right}{'-hot' if hot_share else ''}"
    keys = 2 * min(left, right)
    tables = write_keyed(folder / name, left_rows=left, right_rows=right, keys=keys, hot_share=hot_share)
    return Task.of(tables, limit)


def _check_against(expected: Answer) -> Callable[[Contestant, dict[str, Any]], str | None]:
    def check(_: Contestant, answer: dict[str, Any]) -> str | None:
        return expected.difference(Answer(rows=answer["rows"], sums=tuple(answer["sums"])))

    return check
