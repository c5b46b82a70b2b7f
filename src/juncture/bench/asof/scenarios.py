"""The scenarios of the as-of benchmark, and the function that runs them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from juncture.bench.asof import local, spark
from juncture.bench.asof.answer import Answer, expected_answer
from juncture.bench.harness import Contestant, Limits, Scenario, data_folder, only_named, run_scenario
from juncture.datasets import SCALES, AsofTables, write_asof
from juncture.datasets.asof import Keys
from juncture.errors import SpecError, did_you_mean

Scale = Literal["small", "medium", "large"]
Engine = Literal["local", "spark"]

_HOT_ROWS = 1_000_000
_NATIVE_ROWS = 32_000
_HOT_KEYS: dict[Keys, str] = {"uniform": "10,000 keys", "single": "one key", "none": "no key"}
_FORCED = ("broadcast", "broadcast_left", "hash", "range", "window")


def bench_asof(
    *,
    scale: Scale,
    engines: Sequence[Engine] = ("local", "spark"),
    repeat: int = 3,
    only: Collection[str] = (),
    scenarios: Collection[str] = (),
    data: Path | None = None,
    limits: Limits | None = None,
    announce: Callable[[str], None] = lambda _: None,
    finished: Callable[[dict[str, Any]], None] = lambda _: None,
    note: str = "",
) -> list[dict[str, Any]]:
    """Run the as-of benchmark, ours and the peers, scenario by scenario.

    Parameters
    ----------
    scale
        ``"small"`` (1M by 10M rows; also hot keys, and Spark), ``"medium"`` (10M by 100M) or ``"large"`` (50M by 500M,
        Juncture alone).
    engines
        ``"local"``, ``"spark"`` or both.
    repeat
        How many times round.
    only
        Names of contestants, if not all of them are to run.
    scenarios
        Names of scenarios, if not all of the scale are to run.
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
    _check(scale, engines, repeat)
    folder = data or data_folder()
    limits = limits or Limits.of_this_machine()
    wanted = [name for name in _names(scale, engines) if not scenarios or name in scenarios]
    if not wanted:
        known = _names(scale, engines)
        wrong = next(iter(scenarios), scale)
        raise SpecError(
            f"scale={scale!r} with engines={', '.join(engines)} has no scenario {wrong!r}. {did_you_mean(wrong, known)}"
        )
    results = []
    for name in wanted:
        scenario = only_named(_scenario(name, folder, announce), only)
        if scenario.contestants:
            results.append(run_scenario(scenario, repeat=repeat, limits=limits, announce=announce, note=note))
            finished(results[-1])
    if not results:
        raise SpecError(f"no contestant of {', '.join(wanted)} is called {' or '.join(map(repr, sorted(only)))}.")
    return results


def _check(scale: str, engines: Sequence[str], repeat: int) -> None:
    """Refuse unknown names."""
    if scale not in SCALES:
        raise SpecError(f"scale={scale!r} is not a scale. {did_you_mean(scale, SCALES)}")
    for engine in engines:
        if engine not in get_args(Engine):
            raise SpecError(f"engines={engine!r} is not an engine. {did_you_mean(engine, get_args(Engine))}")
    if repeat < 1:
        raise SpecError(f"repeat must be at least 1, but is {repeat}")


def _names(scale: str, engines: Sequence[str]) -> list[str]:
    """Return the names of a scale's scenarios."""
    names = []
    if "local" in engines:
        names.append(f"local-{scale}")
        if scale == "small":
            names += [f"local-hot-{keys}" for keys in _HOT_KEYS]
    if "spark" in engines and scale == "small":
        names += ["spark-small", *(f"spark-hot-{keys}" for keys in _HOT_KEYS), "spark-native"]
    return names


def _scenario(name: str, folder: Path, announce: Callable[[str], None]) -> Scenario:
    """Make a scenario: its tables and its right answer first, so that nothing is ever timed against a guess."""
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
        folder / (rest if rest in SCALES else f"{keys}-{left_rows}"),
        left_rows=left_rows,
        right_rows=right_rows,
        keys=keys,
        # As many row groups as the cores of a large machine, so that small files do not limit who reads in parallel.
        row_group_rows=1_000_000 if rest in SCALES else 62_500,
    )
    expected, ties = expected_answer(tables)
    contestants = _local(rest, tables, ties, folder) if engine == "local" else _spark(rest, tables, ties)
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
        mine.append(spark.ours(tables, ties, "scans"))
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
