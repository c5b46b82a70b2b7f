"""What of a pipeline reads what: names that are there, no circles, and what is to be done for some of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from juncture.errors import SpecError, did_you_mean
from juncture.pipeline.model import File, ManyStep, Step
from juncture.pipeline.problems import Problems


def check_graph(file: File, named: Mapping[str, Sequence[str]], problems: Problems) -> None:
    """Note names that are not there, or are there twice, and steps that read themselves.

    Parameters
    ----------
    file
        The file, without what could not be read of it.
    named
        The names of all sources and steps.
    problems
        Where they are noted.
    """
    for name in named["steps"]:
        if name in named["sources"]:
            problems.add(("steps", name), f"The name {name!r} is that of a source too. Give the step another one.")
    known = [*named["sources"], *named["steps"]]
    for name, step in file.steps.items():
        for key, read in _reads(step):
            if read not in known:
                problems.add(("steps", name, *key), f"There is no source or step {read!r}. {did_you_mean(read, known)}")
    for place, check in enumerate(file.checks):
        if check.of not in known:
            problems.add(
                ("checks", place, "of"), f"There is no source or step {check.of!r}. {did_you_mean(check.of, known)}"
            )
    for name, sink in file.sinks.items():
        if sink.from_ not in known:
            problems.add(
                ("sinks", name, "from"), f"There is no source or step {sink.from_!r}. {did_you_mean(sink.from_, known)}"
            )
    circle = _circle(file)
    if circle:
        problems.add(
            ("steps", circle[0]),
            f"Circular dependency: {' → '.join([*circle, circle[0]])}. Remove one of these references.",
        )


def _reads(step: Step) -> list[tuple[tuple[str, ...], str]]:
    """Return what a step reads, with the keys that say so."""
    if isinstance(step, ManyStep):
        tables = [(("tables", name, "right"), table.right) for name, table in step.tables.items()]
        return [(("left",), step.left), *tables]
    keys = ("left", "right") if hasattr(step, "right") else ("from",)
    return [((key,), read) for key, read in zip(keys, step.inputs, strict=True)]


def _circle(file: File) -> list[str]:
    """Return steps that wait for one another, in that order; none if there are none."""
    done: set[str] = set()

    def walk(name: str, above: list[str]) -> list[str]:
        if name in above:
            return above[above.index(name) :]
        if name in done or name not in file.steps:
            return []
        for read in file.steps[name].inputs:
            found = walk(read, [*above, name])
            if found:
                return found
        done.add(name)
        return []

    return next((found for name in file.steps if (found := walk(name, []))), [])


def steps_in_order(file: File) -> list[str]:
    """Return the names of the steps, each after those that it reads."""
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in file.steps and name not in order:
            for read in file.steps[name].inputs:
                visit(read)
            order[name] = None

    for name in file.steps:
        visit(name)
    return list(order)


def needed_for(file: File, names: Iterable[str]) -> set[str]:
    """Return the sources and steps that some of them need, themselves among them."""
    needed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += file.steps[name].inputs if name in file.steps else []
    return needed


def readers_of(file: File, names: Iterable[str]) -> Counter[str]:
    """Return how often each of some sources and steps is read by others of them, or by sinks."""
    wanted = set(names)
    counted = Counter(read for name in wanted & set(file.steps) for read in file.steps[name].inputs)
    counted.update(sink.from_ for sink in file.sinks.values() if sink.from_ in wanted)
    return counted


def chosen_sinks(file: File, only: Sequence[str], downstream_of: Sequence[str]) -> list[str]:
    """Return the sinks that are to be written.

    Parameters
    ----------
    file
        The file.
    only
        Sinks, or steps and sources whose sinks are meant; all if empty.
    downstream_of
        Sources and steps: sinks that none of them leads to are left out.

    Raises
    ------
    SpecError
        If one of the names is not there, or nothing is left.
    """
    known = [*file.sinks, *file.steps, *file.sources]
    for argument, names in (("--only", only), ("--downstream-of", downstream_of)):
        for name in names:
            if name not in known:
                raise SpecError(
                    f"{argument} {name!r} is no sink, step or source of this pipeline. {did_you_mean(name, known)}"
                )
    chosen = [
        name
        for name, sink in file.sinks.items()
        if (not only or name in only or sink.from_ in only)
        and (not downstream_of or name in downstream_of or not needed_for(file, [sink.from_]).isdisjoint(downstream_of))
    ]
    if not chosen:
        asked = " ".join(["--only", *only] if only else ["--downstream-of", *downstream_of])
        raise SpecError(f"{asked} leaves no sink to write. There are: {', '.join(file.sinks) or 'none'}.")
    return chosen
