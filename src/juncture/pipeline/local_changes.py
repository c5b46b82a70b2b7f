"""Pipelines that are maintained in this process: each sink follows its sources."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from juncture.incremental.follow import Follower
from juncture.incremental.sources.source import Source
from juncture.incremental.state.policy import MemoryPolicy
from juncture.incremental.state.store import Store
from juncture.joins.following import follow
from juncture.local.resources import resources_here
from juncture.pipeline.changing import changing
from juncture.pipeline.engine import PhaseProgress
from juncture.pipeline.graph import chosen_sinks, needed_for, steps_in_order
from juncture.pipeline.kept import KeptPipeline
from juncture.pipeline.local import LocalEngine
from juncture.pipeline.model import Derived, File, JoinStep
from juncture.pipeline.run import RunReport, Written
from juncture.pipeline.schemas import Schemas

_LOOK_S = 0.05


@contextmanager
def following(
    file: File,
    folder: Path,
    schemas: Schemas,
    only: Sequence[str],
    downstream_of: Sequence[str],
    memory: str | int | None,
) -> Iterator[dict[str, Follower]]:
    """Yield a follower per sink with changes, each with its own state. They have not started.

    `memory` limits joins of tables without changes.
    """
    with ExitStack() as stack:
        engine = LocalEngine(file, folder, schemas, memory=memory)
        stack.callback(engine.close)
        made: set[str] = set()
        found = {}
        for name in chosen_sinks(file, only, downstream_of):
            section = file.sinks[name]
            if section.change_connector is None:
                continue
            kept = _kept(file, folder, schemas, name, engine, made)
            stack.callback(kept.close)
            source = _source(file, folder, schemas, kept.sources, name)
            stack.callback(source.close)
            sink = section.change_connector.sink(section.connected(name, folder))
            found[name] = stack.enter_context(follow(kept, source, sink))
        yield found


def _kept(file: File, folder: Path, schemas: Schemas, sink: str, engine: LocalEngine, made: set[str]) -> KeptPipeline:
    """Return the maintained query of a sink."""
    shown = file.sinks[sink].from_
    live, needed = changing(file), needed_for(file, [shown])
    steps: dict[str, Derived | JoinStep] = {}
    for name in steps_in_order(file):
        step = file.steps[name]
        if name in needed & live:
            assert isinstance(step, Derived | JoinStep)
            steps[name] = step

    def table(name: str) -> Any:
        for each in [*file.sources, *steps_in_order(file)]:
            if each in needed_for(file, [name]) and each not in made:
                engine.make(each)
                made.add(each)
        return engine.rows_of(name)

    resources = resources_here(None)
    policy = MemoryPolicy.of(resources.memory_bytes)
    return KeptPipeline(
        steps,
        {name: schema for name, schema in schemas.items() if schema is not None},
        [name for name in file.sources if name in needed & live],
        table,
        partial(Store, folder / file.pipeline.state / "kept" / sink, "pipeline", policy),
        engine.work,
        resources,
    )


def _source(file: File, folder: Path, schemas: Schemas, names: Sequence[str], sink: str) -> Source:
    """Return the change source of a sink, whose sources have one origin."""
    connector = file.sources[names[0]].change_connector
    assert connector is not None
    return connector.source([file.sources[name].connected(name, folder, schemas[name]) for name in names], sink)


def followed(file: File, followers: Mapping[str, Follower], poll_s: float | None, shown: PhaseProgress) -> RunReport:
    """Apply changes to the sinks: the available ones, or forever, polling every `poll_s` seconds."""
    began = time.monotonic()
    rows, epochs = dict.fromkeys(followers, 0), 0
    while True:
        for name, follower in followers.items():
            while (epoch := follower.step(0)) is not None:
                rows[name] += epoch.output_rows
                epochs += 1
                shown.phase(f"{epochs} epochs", 0, 0)
        if poll_s is None:
            break
        time.sleep(max(poll_s, _LOOK_S))
    seconds = time.monotonic() - began
    written = [
        Written(name, str(file.sinks[name].changes or file.sinks[name].table), rows[name], seconds)
        for name in followers
    ]
    return RunReport(tuple(written), (), seconds)
