"""The scenarios of the as-of benchmark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from juncture_benchmarks.asof import local, spark
from juncture_benchmarks.asof.answer import Answer, expected_answer
from juncture_benchmarks.datasets import SCALES, AsofTables, write_asof
from juncture_benchmarks.datasets.asof import Keys
from juncture_benchmarks.harness import Contestant, Scenario

__all__ = ["make_scenario", "scenario_names"]

_HOT_ROWS = 1_000_000
_NATIVE_ROWS = 32_000
_HOT_KEYS: dict[Keys, str] = {"uniform": "10,000 keys", "single": "one key", "none": "no key"}
_FORCED = ("broadcast", "broadcast_left", "hash", "range", "window")


def scenario_names(scale: str) -> list[str]:
    """Return the names of a scale's scenarios, in the order in which they run."""
    names = [f"local-{scale}"]
    if scale == "small":
        names += [f"local-hot-{keys}" for keys in _HOT_KEYS]
        names += ["spark-small", *(f"spark-hot-{keys}" for keys in _HOT_KEYS), "spark-native"]
    return names


def make_scenario(name: str, _: str, data: Path, announce: Callable[[str], None]) -> Scenario:
    """Make a scenario, whose name says the scale, its tables and its right answer first."""
    engine, _, rest = name.partition("-")
    keys: Keys = "zipf"
    if rest in SCALES:
        left_rows, right_rows = SCALES[rest]
        title = f"{rest}, {left_rows:,} by {right_rows:,} rows"
    elif rest == "native":
        left_rows = right_rows = _NATIVE_ROWS
        keys, title = "single", f"one key, {left_rows:,} by {right_rows:,} rows"
    else:
        keys = next(each for each in _HOT_KEYS if rest == f"hot-{each}")
        left_rows = right_rows = _HOT_ROWS
        title = f"{_HOT_KEYS[keys]}, {left_rows:,} by {right_rows:,} rows"
    announce(f"{name}: preparing {title}")
    tables = write_asof(
        data / (rest if rest in SCALES else f"{keys}-{left_rows}"),
        left_rows=left_rows,
        right_rows=right_rows,
        keys=keys,
        # As many row groups as the cores of a large machine, so that small files do not limit who reads in parallel.
        row_group_rows=1_000_000 if rest in SCALES else 62_500,
    )
    expected, ties = expected_answer(tables)
    contestants = _local(rest, tables, ties, data) if engine == "local" else _spark(rest, tables, ties)
    return Scenario(
        name=name,
        title=f"{'In-process' if engine == 'local' else 'Spark'}: {title}",
        facts={"left_rows": left_rows, "right_rows": right_rows, "keys": keys, "matched_rows": expected.matched},
        contestants=contestants,
        check=_check_against(expected),
    )


def _local(rest: str, tables: AsofTables, ties: Path, folder: Path) -> tuple[Contestant, ...]:
    """Return who joins in-process."""
    names = list(local.ENGINES)
    if rest == "large":
        names = ["juncture"]
    if tables.by is None:
        names.remove("polars-categorical")
    keys: Keys = "zipf" if tables.by else "none"
    tiny = write_asof(folder / f"tiny-{keys}", left_rows=1_000, right_rows=10_000, keys=keys)
    return tuple(local.contestant(name, tables, ties, tiny) for name in names)


def _spark(rest: str, tables: AsofTables, ties: Path) -> tuple[Contestant, ...]:
    """Return who joins on Spark."""
    window = spark.peer("union-and-window", tables, ties)
    if rest == "native":
        return (spark.ours(tables, ties, "frames"), window, spark.peer("native", tables, ties))
    if rest in SCALES:
        given: tuple[spark.Input, ...] = ("frames", "paths")
        mine = [spark.ours(tables, ties, each, name) for each in given for name in ("auto", *_FORCED)]
        mine += [spark.ours(tables, ties, "scans"), spark.with_limited_batches(tables, ties)]
    else:
        mine = [spark.ours(tables, ties, "frames", name) for name in ("auto", "hash", "range")]
        mine.append(spark.ours(tables, ties, "paths"))
    return (*mine, window)


def _check_against(expected: Answer) -> Callable[[Contestant, dict[str, Any]], str | None]:
    """Return the function that checks answers: Juncture's also in how it breaks ties."""

    def check(contestant: Contestant, answer: dict[str, Any]) -> str | None:
        fields = {name: value for name, value in answer.items() if name != "chosen"}
        return expected.difference(Answer(**fields), ties_decided=contestant.ours)

    return check
