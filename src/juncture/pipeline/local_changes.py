"""Pipelines over changes in this process: their steps are the plan of a maintained query, with one answer per sink.

Sinks that have steps in common follow their sources together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from juncture.columnar.conversion import converted
from juncture.columnar.types import is_null_type, plain_type
from juncture.incremental.changes.change_batch import (
    ChangeBatch,
    ChangeBatches,
    deletes_last,
    write_changes,
    written_schema,
)
from juncture.incremental.dataflow import Batches
from juncture.incremental.follow import Follower
from juncture.incremental.operators.operator import batch_of
from juncture.incremental.plan.nodes import PlanNode, ScanNode
from juncture.incremental.plan.physical import operators_of
from juncture.incremental.plan.prune import pruned
from juncture.incremental.plan.push import pushed
from juncture.incremental.plan.stateful_nodes import SpecJoinNode
from juncture.incremental.runtime import MaintainedQuery, Query, Runtime
from juncture.incremental.sinks.sink import Sink
from juncture.incremental.sources.source import Source
from juncture.incremental.sql.reader import in_types, read_query
from juncture.incremental.state.policy import MemoryPolicy, store_opener
from juncture.local.resources import resources_here
from juncture.pipeline.engine import PhaseProgress
from juncture.pipeline.expressions import query_of
from juncture.pipeline.graph import changing, needed_for
from juncture.pipeline.local import LocalEngine
from juncture.pipeline.model import Derived, File, JoinStep, SqlStep
from juncture.pipeline.run import RunReport, Written
from juncture.pipeline.schemas import Schemas
from juncture.runtime.working_types import working_type

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store


class StepPlanner:
    """Translates sources and steps to plan nodes, each once, so that sinks share the steps that they have in common.

    Steps that depend on no change are sources of the plan. Only the first epoch has their rows.
    """

    def __init__(self, file: File, schemas: Mapping[str, pa.Schema], changing: frozenset[str]) -> None:
        self._file = file
        self._changing = changing
        self._nodes: dict[str, PlanNode] = {}
        self.schemas = {name: _working(schema) for name, schema in schemas.items()}
        self.sources: list[str] = []

    def node(self, name: str) -> PlanNode:
        """Return the rows of a source or step."""
        if name not in self._nodes:
            self._nodes[name] = self._planned(name)
        return self._nodes[name]

    def _planned(self, name: str) -> PlanNode:
        schema = self.schemas[name]
        fields = list(zip(schema.names, schema.types, strict=True))
        step = self._file.steps.get(name) if name in self._changing else None
        if step is None:
            self.sources.append(name)
            return ScanNode(name, tuple(fields))
        if isinstance(step, JoinStep):
            left, right = (tuple(self.schemas[each].names) for each in step.inputs)
            joined = SpecJoinNode(self.node(step.left), self.node(step.right), left, right, step.spec)
            return in_types(joined, joined.schema.names, fields)
        assert isinstance(step, Derived | SqlStep)
        sql, names = query_of(step, self.schemas)
        schemas = {table: self.schemas[each] for table, each in names.items()}
        relations = {table: self.node(each) for table, each in names.items()}
        query = read_query(sql, schemas, relations=relations, zone="UTC")
        return in_types(query.node, query.names, fields)


class MaintainedSteps(MaintainedQuery):
    """The maintained rows of some sinks. ``store`` returns what opens the state of sinks described as plain data.

    ``static`` returns the rows of a source or step that does not change.
    """

    def __init__(
        self,
        file: File,
        schemas: Mapping[str, pa.Schema],
        changing: frozenset[str],
        sinks: Mapping[str, str],
        static: Callable[[str], Any],
        store: Callable[[Mapping[str, Any]], Callable[[Mapping[str, pa.Schema]], Store]],
    ) -> None:
        self._schemas, self._static = schemas, static
        planner = StepPlanner(file, schemas, changing)
        self._answers = {sink: schemas[name] for sink, name in sinks.items()}
        self.schema = {sink: written_schema(schema, "weight") for sink, schema in self._answers.items()}
        nodes = {sink: planner.node(name) for sink, name in sinks.items()}
        self.sources = [name for name in planner.sources if name in changing]
        self._unchanging = [name for name in planner.sources if name not in changing]
        plans = pruned({sink: pushed(node, self._unchanging) for sink, node in nodes.items()})
        query = Query(
            partial(operators_of, plans, self._unchanging),
            {name: f"changes of source {name!r}" for name in planner.sources},
            "pipeline",
            "Pipeline.follow()",
            static=self._unchanging,
        )
        needed = needed_for(file, sinks.values())
        steps = [(name, step) for name, step in file.steps.items() if name in needed]
        described = {"sinks": repr(dict(sinks)), "steps": repr(steps)}
        described |= {f"source {name}": str(schemas[name]) for name in planner.sources}
        self._runtime = Runtime(query, self._changes, store(described))

    def populate(self, *, offset: Any, **tables: Any) -> Batches:
        """Load the first rows of the tables, and of those that do not change, and return those of the sinks."""
        streams = {name: self._read(name, rows) for name, rows in tables.items()}
        streams |= {name: self._read(name, self._static(name)) for name in self._unchanging}
        rows = {name: deletes_last(stream) for name, stream in streams.items()}
        return self._runtime.populate(rows, offset)

    def apply(self, *, offset: Any, **changes: Any) -> Batches:
        """Apply the changes of an epoch, and return those of the sinks."""
        return self._runtime.apply({name: self._read(name, each) for name, each in changes.items()}, offset)

    def _read(self, name: str, changes: Any) -> Iterator[ChangeBatch]:
        return self._runtime.dataflow.read(name, changes, self._schemas[name], name)

    def _changes(self, sink: str, changes: ChangeBatches) -> list[pa.RecordBatch]:
        schema = self._answers[sink]
        batches = []
        for batch, weights in changes:
            arrays = [converted(each, field.type) for each, field in zip(batch.columns, schema, strict=True)]
            batches.append(write_changes(batch_of(arrays, schema), weights, "weight"))
        return batches

    def last(self) -> Batches:
        """Return the changes of the sinks in the last epoch."""
        last = self._runtime.last()
        if last is None:
            last = {sink: self._changes(sink, list(self._runtime.living(sink))) for sink in self._answers}
        return last

    def table(self, name: str) -> pa.Table:
        """Return the current rows of a source, with the columns that the plan reads."""
        return self._runtime.dataflow.table(name)


def _working(schema: pa.Schema) -> pa.Schema:
    types = [pa.int32() if is_null_type(each) else working_type(plain_type(each)) for each in schema.types]
    return pa.schema(list(zip(schema.names, types, strict=True)))


_LOOK_S = 0.05
_EPOCH_ROWS = 10_000


@contextmanager
def following(
    file: File, schemas: Schemas, sinks: Sequence[str], memory: str | int | None
) -> Iterator[dict[str, Follower]]:
    """Yield the follower of each sink with changes, not started. Sinks that share steps have one follower and state."""
    live = changing(file)
    groups = _groups(file, live, sinks)
    policy = MemoryPolicy.of(resources_here(memory).memory_bytes // max(1, len(groups)))
    known_schemas = {name: schema for name, schema in schemas.items() if schema is not None}
    with ExitStack() as stack:
        engine = LocalEngine(file, schemas, memory=memory)
        stack.callback(engine.close)
        followers = dict[str, Follower]()
        for group in groups:
            state = file.state / "maintained" / group[0]
            inputs = {name: file.sinks[name].from_ for name in group}
            steps = MaintainedSteps(
                file, known_schemas, live, inputs, engine.computed, partial(store_opener, state, "pipeline", policy)
            )
            stack.callback(steps.close)
            source = _source(file, known_schemas, steps.sources, group[0])
            stack.callback(source.close)
            tables = {name: name for name in steps.sources}
            targets = {name: _sink(file, name) for name in group}
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


def _source(file: File, schemas: Mapping[str, pa.Schema], names: Sequence[str], query: str) -> Source:
    connector = file.sources[names[0]].change_connector
    assert connector is not None
    return connector.source([file.sources[name].connected_changes(name, schemas[name]) for name in names], query)


def _sink(file: File, name: str) -> Sink:
    sink = file.sinks[name]
    assert sink.change_connector is not None
    return sink.change_connector.sink(sink.connected_changes(name))


def followed(file: File, followers: Mapping[str, Follower], poll_s: float | None, progress: PhaseProgress) -> RunReport:
    """Apply changes to the sinks: the available ones, or forever, polling every `poll_s` seconds."""
    began = time.monotonic()
    rows, epochs = dict.fromkeys(followers, 0), 0
    while True:
        for follower in dict.fromkeys(followers.values()):
            while (epoch := follower.step(0)) is not None:
                for name, count in epoch.sink_rows.items():
                    rows[name] += count
                epochs += 1
                progress.phase(f"{epochs} epochs", 0, 0)
        if poll_s is None:
            break
        time.sleep(max(poll_s, _LOOK_S))
    seconds = time.monotonic() - began
    written = [
        Written(name, str(file.sinks[name].changes or file.sinks[name].table), rows[name], seconds)
        for name in followers
    ]
    return RunReport(tuple(written), (), seconds)
