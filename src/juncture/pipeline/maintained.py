"""Pipelines over changes: their steps are the plan of a maintained query, with one answer per sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from juncture.columnar.conversion import converted
from juncture.columnar.types import is_null_type, plain_type
from juncture.incremental.changes.change_batch import read_changes, write_changes, written_schema
from juncture.incremental.operators.operator import Change, Flow, batch_of, table_of
from juncture.incremental.plan.nodes import PlanNode, ScanNode
from juncture.incremental.plan.physical import operators_of
from juncture.incremental.plan.prune import pruned
from juncture.incremental.plan.push import pushed
from juncture.incremental.plan.stateful_nodes import SpecJoinNode
from juncture.incremental.runtime import Batches, MaintainedQuery, Query, Runtime, deletes_last
from juncture.incremental.sql.reader import in_types, read_query
from juncture.pipeline.expressions import TABLE, derived_sql
from juncture.pipeline.graph import needed_for
from juncture.pipeline.model import Derived, File, JoinStep
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
        assert isinstance(step, Derived)
        schema, relation = self.schemas[step.from_], self.node(step.from_)
        query = read_query(derived_sql(step, schema), {TABLE: schema}, relations={TABLE: relation}, zone="UTC")
        return in_types(query.node, query.names, fields)


class MaintainedSteps(MaintainedQuery):
    """The maintained rows of some sinks, a query of `juncture.incremental.follow`.

    ``static`` returns the rows of a source or step that does not change. ``store`` opens the state, from a description
    of the sinks as plain data, and the columns of the sources.
    """

    def __init__(
        self,
        file: File,
        schemas: Mapping[str, pa.Schema],
        changing: frozenset[str],
        sinks: Mapping[str, str],
        static: Callable[[str], Any],
        store: Callable[[Mapping[str, Any], Mapping[str, pa.Schema]], Store],
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
        self._runtime = Runtime(query, self._changes, partial(store, described))

    def populate(self, *, offset: Any, **tables: Any) -> Batches:
        """Load the first rows of the tables, and of those that do not change, and return those of the sinks."""
        streams = {name: self._read(name, rows) for name, rows in tables.items()}
        streams |= {name: self._read(name, self._static(name)) for name in self._unchanging}
        return self._runtime.populate({name: deletes_last(stream) for name, stream in streams.items()}, offset)

    def apply(self, *, offset: Any, **changes: Any) -> Batches:
        """Apply the changes of an epoch, and return those of the sinks."""
        return self._runtime.apply({name: self._read(name, each) for name, each in changes.items()}, offset)

    def _read(self, name: str, changes: Any) -> Iterator[Change]:
        """Yield the changes of a source: the columns that the plan reads, in their working types."""
        graph = self._runtime.flow.graph
        for batch, weights in read_changes(changes, self._schemas[name], name):
            if name in graph.scans and batch.num_rows:
                columns = graph.scans[name].columns
                arrays = [converted(batch.column(column), data_type) for column, data_type in columns]
                yield batch_of(arrays, graph.inputs[name].schema), weights

    def _changes(self, sink: str, flow: Flow) -> list[pa.RecordBatch]:
        """Return the changes of a sink in the types of the pipeline."""
        schema = self._answers[sink]
        batches = []
        for batch, weights in flow:
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
        graph = self._runtime.flow.graph
        rows = table_of(self._runtime.rows(name), graph.source_rows[name].schema)
        return rows.rename_columns([column for column, _ in graph.scans[name].columns])


def _working(schema: pa.Schema) -> pa.Schema:
    types = [pa.int32() if is_null_type(each) else working_type(plain_type(each)) for each in schema.types]
    return pa.schema(list(zip(schema.names, types, strict=True)))
