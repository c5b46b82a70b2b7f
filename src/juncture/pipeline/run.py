"""Runs of pipelines: what is needed is made, checked and written, and what is unchanged is left alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juncture.errors import DataError
from juncture.pipeline.checks import Checked, checked
from juncture.pipeline.engine import Engine, Watch, unwatched
from juncture.pipeline.graph import chosen_sinks, needed_for, readers_of, steps_in_order
from juncture.pipeline.model import File
from juncture.pipeline.state import EarlierRuns, fingerprint


@dataclass(frozen=True)
class Written:
    """A sink, after a run.

    Attributes
    ----------
    name, place
        Its name, and where it is.
    rows
        How many rows were written; None if that is not known.
    seconds
        How long it took.
    unchanged
        Whether it was there already, of the same inputs.
    """

    name: str
    place: str
    rows: int | None
    seconds: float
    unchanged: bool = False


@dataclass(frozen=True)
class RunReport:
    """What a run did.

    Attributes
    ----------
    sinks
        What was written, or was there already.
    checks
        What was expected, and found.
    seconds
        How long it took.
    """

    sinks: tuple[Written, ...]
    checks: tuple[Checked, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "sinks": [vars(each) for each in self.sinks],
            "checks": [each.to_dict() for each in self.checks],
            "seconds": self.seconds,
        }


Begin = Callable[[Sequence[str]], Engine]
"""Gives an engine, and is told which sources and steps are wanted several times."""


def run(
    file: File,
    folder: Path,
    begin: Begin,
    *,
    engine: str,
    only: Sequence[str] = (),
    downstream_of: Sequence[str] = (),
    force: bool = False,
    watch: Watch = unwatched,
) -> RunReport:
    """Run a pipeline.

    Parameters
    ----------
    file, folder
        The pipeline, and where its file is.
    begin
        Gives the engine when something is to be done.
    engine
        Its name.
    only, downstream_of
        What is to be done, as `chosen_sinks` takes them.
    force
        Whether to write what is unchanged, too.
    watch
        What shows what is under way.

    Raises
    ------
    DataError
        If a check fails: nothing has been written then.
    """
    began = time.monotonic()
    state = EarlierRuns.of(folder / file.pipeline.state)
    chosen = chosen_sinks(file, only, downstream_of)
    made_of = {name: fingerprint(file, name, folder, engine) for name in chosen}
    done = dict[str, Written]()
    for name in chosen:
        rows = None if force else state.rows_of(name, made_of[name], file.sinks[name], folder)
        if rows is not None:
            done[name] = Written(name, _place(file, name), rows, 0.0, unchanged=True)
    left = [name for name in chosen if name not in done]
    checks = tuple[Checked, ...]()
    if left:
        needed = needed_for(file, [file.sinks[name].from_ for name in left])
        running = begin(_wanted_again(file, needed))
        try:
            for name in [*(each for each in file.sources if each in needed), *steps_in_order(file)]:
                if name in needed:
                    running.make(name)
            checks = _checked(file, running, needed, watch)
            for name in left:
                before = time.monotonic()
                rows = running.write(file.sinks[name])
                state = state.with_written(name, made_of[name], file.sinks[name], folder, rows)
                done[name] = Written(name, _place(file, name), rows, time.monotonic() - before)
        finally:
            running.close()
    return RunReport(tuple(done[name] for name in chosen), checks, time.monotonic() - began)


def _place(file: File, name: str) -> str:
    sink = file.sinks[name]
    return sink.path or sink.table or str(sink.options.get("dbtable", name))


def _wanted_again(file: File, needed: set[str]) -> list[str]:
    """Return the steps whose rows are wanted several times: for a check and a sink, or by several readers."""
    counted = readers_of(file, needed)
    counted.update({check.of for check in file.checks if check.of in needed})
    return [name for name in file.steps if counted[name] > 1]


def _checked(file: File, engine: Engine, needed: set[str], watch: Watch) -> tuple[Checked, ...]:
    """Hold what is needed against what is expected of it.

    Raises
    ------
    DataError
        If something is not as expected that has to be.
    """
    wanted = [check for check in file.checks if check.of in needed]
    if not wanted:
        return ()
    with watch("Checking"):
        found = tuple(each for check in wanted for each in checked(check, engine))
    failed = [each for each in found if not each.passed and each.fails]
    if failed:
        said = "; ".join(f"{each.of}: expected {each.expected}, found {each.found}" for each in failed)
        raise DataError(f'{said}. Nothing was written. Mend the data, or say on_failure = "warn".')
    return found
