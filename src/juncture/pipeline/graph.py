"""The dependency graph of a pipeline: missing names, cycles, and selection of sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from juncture.errors import SpecError, did_you_mean
from juncture.pipeline.model import File, ManyStep, SqlStep, Step
from juncture.pipeline.problems import Problems


def check_graph(file: File, named: Mapping[str, Sequence[str]], problems: Problems) -> None:
    """Add a problem for each missing or repeated name, and for cycles. ``named`` includes sections with problems."""
    for name in named["steps"]:
        if name in named["sources"]:
            problems.add(("steps", name), f"The step {name!r} has the name of a source. Rename one of them.")
    names = [*named["sources"], *named["steps"]]
    for name, step in file.steps.items():
        for key, read in _reads(step):
            if read not in names:
                problems.add(("steps", name, *key), _missing(read, names))
    for number, check in enumerate(file.checks):
        if check.from_ not in names:
            problems.add(("checks", number, "from"), _missing(check.from_, names))
    for name, sink in file.sinks.items():
        if sink.from_ not in names:
            problems.add(("sinks", name, "from"), _missing(sink.from_, names))
    cycle = _cycle(file)
    if cycle:
        problems.add(
            ("steps", cycle[0]),
            f"Circular dependency: {' → '.join([*cycle, cycle[0]])}. Remove one of these references.",
        )


def _missing(name: str, names: Sequence[str]) -> str:
    return f"The source or step {name!r} does not exist. {did_you_mean(name, names)}"


def _reads(step: Step) -> list[tuple[tuple[str, ...], str]]:
    if isinstance(step, ManyStep):
        tables = [(("tables", name, "right"), table.right) for name, table in step.tables.items()]
        return [(("left",), step.left), *tables]
    if isinstance(step, SqlStep):
        return [(("from",), read) for read in step.inputs]
    keys = ("left", "right") if hasattr(step, "right") else ("from",)
    return [((key,), read) for key, read in zip(keys, step.inputs, strict=True)]


def _cycle(file: File) -> list[str]:
    """Return the steps of a cycle, each before one that it reads; none without a cycle."""
    try:
        TopologicalSorter({name: file.steps.keys() & set(step.inputs) for name, step in file.steps.items()}).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1][:0:-1]
        first = cycle.index(next(name for name in file.steps if name in cycle))
        return [*cycle[first:], *cycle[:first]]
    return []


def steps_in_order(file: File) -> list[str]:
    """Return the names of the steps, each after its inputs."""
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in file.steps and name not in order:
            for read in file.steps[name].inputs:
                visit(read)
            order[name] = None

    for name in file.steps:
        visit(name)
    return list(order)


def changing(file: File) -> frozenset[str]:
    """Return the sources with changes, and the steps that depend on them."""
    names = {name for name, source in file.sources.items() if source.change_connector is not None}
    for name in steps_in_order(file):
        if names.intersection(file.steps[name].inputs):
            names.add(name)
    return frozenset(names)


def needed_for(file: File, names: Iterable[str]) -> set[str]:
    """Return the sources and steps that some of them depend on, including themselves."""
    needed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += file.steps[name].inputs if name in file.steps else []
    return needed


def needed_in_order(file: File, names: Iterable[str]) -> list[str]:
    """Return the sources and steps that some of them depend on, including themselves, each after its inputs."""
    needed = needed_for(file, names)
    return [name for name in [*file.sources, *steps_in_order(file)] if name in needed]


def readers_of(file: File, names: Iterable[str]) -> Counter[str]:
    """Return the number of readers of sources and steps, among them and sinks."""
    wanted = set(names)
    counted = Counter(read for name in wanted & set(file.steps) for read in file.steps[name].inputs)
    counted.update(sink.from_ for sink in file.sinks.values() if sink.from_ in wanted)
    return counted


def chosen_sinks(file: File, only: Sequence[str], downstream_of: Sequence[str]) -> list[str]:
    """Return the sinks in or reading from ``only`` that depend on ``downstream_of``. Empty arguments select all."""
    named = [*file.sinks, *file.steps, *file.sources]
    for argument, names in (("--only", only), ("--downstream-of", downstream_of)):
        for name in names:
            if name not in named:
                raise SpecError(
                    f"{argument} {name!r} is not a sink, step or source of this pipeline. {did_you_mean(name, named)}",
                    name="JN-ARGUMENT-VALUE",
                )
    chosen = [
        name
        for name, sink in file.sinks.items()
        if (not only or name in only or sink.from_ in only)
        and (not downstream_of or name in downstream_of or not needed_for(file, [sink.from_]).isdisjoint(downstream_of))
    ]
    if not chosen:
        arguments = " ".join(["--only", *only] if only else ["--downstream-of", *downstream_of])
        raise SpecError(
            f"{arguments} selects no sink. There are: {', '.join(file.sinks) or 'none'}.", name="JN-ARGUMENT-VALUE"
        )
    return chosen
