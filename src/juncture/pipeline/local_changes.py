"""Pipelines that are maintained in this process: sinks that have steps in common follow their sources together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from juncture.incremental.follow import Follower
from juncture.incremental.sinks.sink import Sink
from juncture.incremental.sources.source import Source
from juncture.incremental.state.policy import MemoryPolicy
from juncture.incremental.state.store import Store
from juncture.local.resources import resources_here
from juncture.pipeline.changing import changing
from juncture.pipeline.engine import PhaseProgress
from juncture.pipeline.graph import needed_for, needed_in_order
from juncture.pipeline.local import LocalEngine
from juncture.pipeline.maintained import MaintainedSteps
from juncture.pipeline.model import File
from juncture.pipeline.run import RunReport, Written
from juncture.pipeline.schemas import Schemas

_LOOK_S = 0.05
_EPOCH_ROWS = 10_000


@contextmanager
def following(
    file: File,
    folder: Path,
    schemas: Schemas,
    sinks: Sequence[str],
    memory: str | int | None,
) -> Iterator[dict[str, Follower]]:
    """Yield the follower of each sink with changes, not started. Sinks that share steps have one follower and state."""
    live = changing(file)
    groups = _groups(file, live, sinks)
    policy = MemoryPolicy.of(resources_here(memory).memory_bytes // max(1, len(groups)))
    known = {name: schema for name, schema in schemas.items() if schema is not None}
    with ExitStack() as stack:
        engine = LocalEngine(file, folder, schemas, memory=memory)
        stack.callback(engine.close)
        static = _StaticRows(file, engine)
        followers = dict[str, Follower]()
        for group in groups:
            state = folder / file.pipeline.state / "maintained" / group[0]
            inputs = {name: file.sinks[name].from_ for name in group}
            steps = MaintainedSteps(file, known, live, inputs, static, partial(Store, state, "pipeline", policy))
            stack.callback(steps.close)
            source = _source(file, folder, known, steps.sources, group[0])
            stack.callback(source.close)
            tables = {name: name for name in steps.sources}
            targets = {name: _sink(file, folder, name) for name in group}
            follower = stack.enter_context(Follower(steps, source, targets, tables, _EPOCH_ROWS, None, None))
            followers |= dict.fromkeys(group, follower)
        yield followers


def _groups(file: File, live: frozenset[str], chosen: Sequence[str]) -> list[list[str]]:
    """Return the sinks with changes that have steps in common, for groups with a chosen sink."""
    groups: list[tuple[list[str], set[str]]] = []
    for name, sink in file.sinks.items():
        if sink.change_connector is not None:
            names, steps = [name], needed_for(file, [sink.from_]) & live & file.steps.keys()
            for group in [group for group in groups if group[1] & steps]:
                groups.remove(group)
                names, steps = [*group[0], *names], group[1] | steps
            groups.append((names, steps))
    return [names for names, _ in groups if set(names) & set(chosen)]


class _StaticRows:
    """The rows of sources and steps that do not change, each computed once."""

    def __init__(self, file: File, engine: LocalEngine) -> None:
        self._file = file
        self._engine = engine
        self._made: set[str] = set()

    def __call__(self, name: str) -> Any:
        """Return the rows of a source or step."""
        for each in needed_in_order(self._file, [name]):
            if each not in self._made:
                self._engine.make(each)
                self._made.add(each)
        return self._engine.rows_of(name)


def _source(file: File, folder: Path, schemas: Mapping[str, pa.Schema], names: Sequence[str], query: str) -> Source:
    connector = file.sources[names[0]].change_connector
    assert connector is not None
    return connector.source([file.sources[name].connected(name, folder, schemas[name]) for name in names], query)


def _sink(file: File, folder: Path, name: str) -> Sink:
    sink = file.sinks[name]
    assert sink.change_connector is not None
    return sink.change_connector.sink(sink.connected(name, folder))


def followed(file: File, followers: Mapping[str, Follower], poll_s: float | None, shown: PhaseProgress) -> RunReport:
    """Apply changes to the sinks: the available ones, or forever, polling every `poll_s` seconds."""
    began = time.monotonic()
    rows, epochs = dict.fromkeys(followers, 0), 0
    while True:
        for follower in dict.fromkeys(followers.values()):
            while (epoch := follower.step(0)) is not None:
                for name, count in epoch.sink_rows.items():
                    rows[name] += count
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
