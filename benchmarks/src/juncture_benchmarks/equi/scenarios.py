"""The scenarios of the benchmark of equality joins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from juncture_benchmarks.datasets import write_keyed
from juncture_benchmarks.datasets.equi import KeyKind
from juncture_benchmarks.equi import local, spark
from juncture_benchmarks.equi.task import Task, expected_answer
from juncture_benchmarks.harness import Scenario
from juncture_benchmarks.pairs import check_against

__all__ = ["make_scenario", "scenario_names"]

_ROWS: dict[str, tuple[int, int]] = {"full": (1_000_000, 100_000_000), "tiny": (10_000, 1_000_000)}
"""Rows of the smaller and of the larger table."""

_SPARK_ROWS: dict[str, tuple[int, int]] = {"full": (5_000_000, 50_000_000), "tiny": (10_000, 300_000)}
"""The same on Spark: neither is small enough to be sent everywhere."""

_HOT_SHARE = 0.5
"""Share of the larger table's rows in the hot key."""

_LIMITS: dict[str, int] = {"full": 0, "tiny": 64_000_000}
"""Memory limit of the limited scenario; by default a tenth of the data."""

_ROW_BYTES = 30
"""Of keys, numbers and values in memory."""

_SCENARIOS = {
    "local-small-large": "the small table on the left",
    "local-large-small": "the small table on the right",
    "local-integers-small-large": "keys are integers, the small table on the left",
    "local-integers-large-small": "keys are integers, the small table on the right",
    "local-limited": "the small table on the left, in a tenth of the memory that the data take",
    "spark-even": "keys that all have about as many rows",
    "spark-hot": "one key has half of the larger table's rows",
}


def scenario_names(_: str = "full") -> list[str]:
    """Return the names of all scenarios, which each scale has, in the order in which they run."""
    return list(_SCENARIOS)


def make_scenario(name: str, scale: str, data: Path, announce: Callable[[str], None]) -> Scenario:
    """Make a scenario, its tables and its right answer first."""
    folder = data / f"equi-{scale}"
    on_spark = name.startswith("spark-")
    small, large = (_SPARK_ROWS if on_spark else _ROWS)[scale]
    rows = (large, small) if name.endswith("-large-small") else (small, large)
    key_kind: KeyKind = "integer" if name.startswith("local-integers-") else "text"
    title = f"{_SCENARIOS[name]}, {rows[0]:,} by {rows[1]:,} rows"
    announce(f"{name}: preparing {title}")
    limit = (_LIMITS[scale] or sum(rows) * _ROW_BYTES // 10) if name == "local-limited" else None
    hot_share = _HOT_SHARE if name == "spark-hot" else 0.0
    tasks = (
        _task(folder, *rows, hot_share, key_kind, limit),
        _task(folder, rows[0] // 100, rows[1] // 100, hot_share, key_kind, limit),
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
        check=check_against(expected),
    )


def _task(folder: Path, left: int, right: int, hot_share: float, key_kind: KeyKind, limit: int | None) -> Task:
    """Return the join of a pair of tables, which are made if they are not there."""
    name = f"{left}-{right}{'-hot' if hot_share else ''}{'-integer' if key_kind == 'integer' else ''}"
    keys = 2 * min(left, right)
    tables = write_keyed(
        folder / name, left_rows=left, right_rows=right, keys=keys, hot_share=hot_share, key_kind=key_kind
    )
    return Task.of(tables, limit)
