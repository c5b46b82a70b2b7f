"""Benchmarks, and the function that runs them, scenario by scenario."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from juncture.errors import SpecError, did_you_mean
from juncture_benchmarks.harness import Limits, Scenario, data_folder, is_named, only_named, run_scenario
from juncture_benchmarks.report import markdown_table

__all__ = ["Benchmark", "Engine", "Options", "Prepare", "run_benchmark", "run_prepared", "scenarios_of"]

Engine = Literal["local", "spark"]

Result = dict[str, Any]
"""The measures of a scenario, as `juncture_benchmarks.harness.run_scenario` returns them."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a run.

    Attributes
    ----------
    scale
        The size of the tables.
    repeat
        Number of rounds.
    only
        Names of contestants, if not all of them are to run.
    data
        Folder of the generated tables, which later runs reuse.
    limits
        Limits of a run.
    announce
        Called with a line of text whenever something has been done.
    note
        A note on the circumstances for readers of the results.
    """

    scale: str
    repeat: int
    only: Collection[str]
    data: Path
    limits: Limits
    announce: Callable[[str], None]
    note: str


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A benchmark and its options.

    Attributes
    ----------
    name
        Its name on the command line, and of its files.
    title
        Its subject, for the end of a sentence.
    scales
        The sizes that there are, the usual one first, with what each means.
    published
        The scales with results on the page.
    scenarios
        Returns the names of a scale's scenarios, in the order in which they run. Each begins with its engine.
    run
        Runs some of them, and yields what was measured in each.
    page
        Writes the page from the results in a folder, and returns the files that it wrote.
    table
        Shows what was measured in a scenario, in Markdown.
    """

    name: str
    title: str
    scales: Mapping[str, str]
    published: Collection[str]
    scenarios: Callable[[str], Sequence[str]]
    run: Callable[[Sequence[str], Options], Iterator[Result]]
    page: Callable[[Path, Path], list[Path]]
    table: Callable[[Result], str] = markdown_table

    @property
    def usual_scale(self) -> str:
        """The scale that is taken if none is named."""
        return next(iter(self.scales))

    def results_name(self, scale: str) -> str:
        """Return the name of the file with the results of a scale."""
        return f"{self.name}-{scale}.json" if len(self.scales) > 1 else f"{self.name}.json"


Prepare = Callable[[str, str, Path, Callable[[str], None]], Scenario]
"""Makes a scenario of a name, given the scale, the folder of all tables, and what to call with a line of text.

Tables and the right answer come first, so that nothing is ever timed against a guess.
"""


def run_prepared(prepare: Prepare) -> Callable[[Sequence[str], Options], Iterator[Result]]:
    """Return what runs scenarios in which every run of a contestant has a process of its own."""

    def run(names: Sequence[str], options: Options) -> Iterator[Result]:
        for name in names:
            scenario = only_named(prepare(name, options.scale, options.data, options.announce), options.only)
            if scenario.contestants:
                yield run_scenario(
                    scenario,
                    repeat=options.repeat,
                    limits=options.limits,
                    announce=options.announce,
                    note=options.note,
                )

    return run


def run_benchmark(
    benchmark: Benchmark,
    *,
    scale: str | None = None,
    engines: Sequence[str] = get_args(Engine),
    repeat: int = 3,
    only: Collection[str] = (),
    scenarios: Collection[str] = (),
    data: Path | None = None,
    limits: Limits | None = None,
    announce: Callable[[str], None] = lambda _: None,
    finished: Callable[[Result], None] = lambda _: None,
    note: str = "",
) -> list[Result]:
    """Run a benchmark, scenario by scenario.

    Parameters
    ----------
    benchmark
        Which.
    scale
        One of its scales; by default the first.
    engines
        ``"local"``, ``"spark"`` or both.
    repeat, only, announce, note
        As for `Options`.
    scenarios
        Names of scenarios, or what they begin with up to a dash, if not all of them are to run.
    data
        Folder of the generated tables, which later runs reuse; by default in the user's cache folder.
    limits
        Limits of a run; by default ten minutes and 90 percent of the free memory.
    finished
        Called with what was measured in a scenario as soon as it is there.

    Returns
    -------
    list of dict
        The measures of each scenario.

    Raises
    ------
    SpecError
        If an argument is wrong or nothing is left to run.
    DataError
        If the data folder holds something else.
    """
    scale = scale or benchmark.usual_scale
    _check_choice("scale", "a scale", scale, benchmark.scales)
    for engine in engines:
        _check_choice("engines", "an engine", engine, get_args(Engine))
    if repeat < 1:
        raise SpecError(f"repeat must be at least 1, but is {repeat}")
    names = _chosen(benchmark, scale, engines, scenarios)
    options = Options(
        scale=scale,
        repeat=repeat,
        only=only,
        data=data or data_folder(),
        limits=limits or Limits.of_this_machine(),
        announce=announce,
        note=note,
    )
    results = []
    for result in benchmark.run(names, options):
        results.append(result)
        finished(result)
    if not results:
        raise SpecError(f"no contestant of {', '.join(names)} is called {' or '.join(map(repr, sorted(only)))}.")
    return results


def scenarios_of(benchmark: Benchmark, scale: str, engines: Sequence[str] = get_args(Engine)) -> list[str]:
    """Return the names of the scenarios of some engines."""
    return [name for name in benchmark.scenarios(scale) if name.partition("-")[0] in engines]


def _check_choice(argument: str, what: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise SpecError(f"{argument}={value!r} is not {what}. {did_you_mean(value, known)}")


def _chosen(benchmark: Benchmark, scale: str, engines: Sequence[str], wanted: Collection[str]) -> list[str]:
    known = scenarios_of(benchmark, scale, engines)
    for name in wanted if known else [*wanted, scale][:1]:
        if not any(is_named(each, [name]) for each in known):
            raise SpecError(
                f"scale={scale!r} with engines={', '.join(engines)} has no scenario {name!r}. "
                f"{did_you_mean(name, known)}"
            )
    return [name for name in known if not wanted or is_named(name, wanted)]
