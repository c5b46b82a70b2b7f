"""Pipeline runs: needed sources and steps are computed, checked and written; unchanged sinks are skipped."""

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
    """A sink after a run.

    Attributes
    ----------
    place
        The path or table.
    rows
        The number of written rows; None if unknown.
    duration_s
        The duration.
    unchanged
        Whether the sink was skipped, because its inputs are unchanged.
    """

    name: str
    place: str
    rows: int | None
    duration_s: float
    unchanged: bool = False


@dataclass(frozen=True)
class RunReport:
    """The result of a pipeline run.

    Attributes
    ----------
    sinks
        The written and unchanged sinks.
    checks
        The results of checks.
    duration_s
        The duration.
    """

    sinks: tuple[Written, ...]
    checks: tuple[Checked, ...]
    duration_s: float

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "sinks": [vars(each) for each in self.sinks],
            "checks": [each.to_dict() for each in self.checks],
            "duration_s": self.duration_s,
        }


Begin = Callable[[Sequence[str]], Engine]
"""Returns an engine, given the sources and steps that are read more than once."""


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
    """Run a pipeline. The engine is created by `begin` only if there is work.

    If a check fails, no sink is written.
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
    """Return the steps that are read more than once: by checks, sinks or other steps."""
    counted = readers_of(file, needed)
    counted.update({check.from_ for check in file.checks if check.from_ in needed})
    return [name for name in file.steps if counted[name] > 1]


def _checked(file: File, engine: Engine, needed: set[str], watch: Watch) -> tuple[Checked, ...]:
    """Run the checks of needed sources and steps."""
    wanted = [check for check in file.checks if check.from_ in needed]
    if not wanted:
        return ()
    with watch("Checking"):
        found = tuple(each for check in wanted for each in checked(check, engine))
    failed = [each for each in found if not each.passed and each.fails]
    if failed:
        differences = "; ".join(f"{each.of}: expected {each.expected}, found {each.found}" for each in failed)
        raise DataError(
            f'{differences}. Nothing was written. Correct the data, or set on_failure = "warn".', name="JN-CHECK-FAILED"
        )
    return found
