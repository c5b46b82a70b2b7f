"""A maintained join of several changing tables to one, the spine: a chain of joins that each add columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from juncture.errors import JunctureError, SpecError
from juncture.incremental.changes.change_batch import (
    ChangeBatch,
    ChangeBatches,
    ChangeFormat,
    read_changes,
    write_changes,
    written_schema,
)
from juncture.incremental.changes.identity import identity_of
from juncture.incremental.dataflow import ANSWER
from juncture.incremental.join import current_rows, schema_text
from juncture.incremental.operators.operator import ViewOperator, batch_of
from juncture.incremental.operators.stored_join import StoredJoinOperator
from juncture.incremental.plan.physical import OperatorGraph
from juncture.incremental.runtime import MaintainedQuery, Query, Runtime
from juncture.kernels.array_types import Words
from juncture.local.many.plan import plan as plan_local
from juncture.matching.output import Output, project, stored_join, stored_schema
from juncture.planner.statistics import Resources
from juncture.runtime.progress import Report
from juncture.spec.arguments import check_choice
from juncture.spec.many import Duplicates, ResolvedTable, Right, named, resolve_table
from juncture.spec.resolved import Resolved, refuse_computed
from juncture.spec.schema import SIDES, OutputColumn

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store

SPINE = "spine"
"""The name of the spine among the sources."""


@dataclass(frozen=True)
class ManyChangeSetup:
    """The definition of a join of several changing tables. ``table`` of each right table is its schema."""

    spine_schema: pa.Schema
    tables: Mapping[str, Right]
    output: ChangeFormat = "weight"
    unmatched_deletes: Literal["error", "count"] = "error"

    def __post_init__(self) -> None:
        check_choice("output", self.output, ("weight", "change_type", "debezium"))
        check_choice("unmatched_deletes", self.unmatched_deletes, ("error", "count"))

    def schema(self, name: str) -> pa.Schema:
        """Return the columns of the spine or of a table."""
        return self.spine_schema if name == SPINE else self.tables[name].table

    def to_dict(self) -> dict[str, Any]:
        """Return what identifies the join as plain data."""
        tables = {
            name: {
                "schema": schema_text(right.table),
                "spec": right.spec.to_dict(),
                "columns": right.columns,
                "prefix": right.prefix,
                "duplicates": right.duplicates,
            }
            for name, right in self.tables.items()
        }
        plain: dict[str, Any] = json.loads(json.dumps({SPINE: schema_text(self.spine_schema), "tables": tables}))
        return plain


@dataclass(frozen=True)
class _Stage:
    """The join of one table: its left rows are the spine with the columns of earlier tables."""

    name: str
    join: Resolved
    output: Output
    duplicates: Duplicates | None


class ManyChangeJoin(MaintainedQuery):
    """A join of several tables that change to one spine, created by `juncture.changes_many`.

    Pass the changes of each epoch to `apply`. It returns the changes of the result: added to the previous result, they
    give `juncture.join_many` of the tables as they are now. Memory: the rows of all tables, and those of the spine once
    per table.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> spine, prices = pa.schema({"ts": pa.int64()}), pa.schema({"ts": pa.int64(), "price": pa.int64()})
    >>> join = jn.changes_many(spine, {"prices": jn.Right(prices, jn.Asof(on="ts"))})
    >>> result = join.apply(spine=pa.table({"ts": [3, 7]}), prices=pa.table({"ts": [1], "price": [10]}))
    >>> [batch.to_pylist() for batch in join.apply(prices=pa.table({"ts": [5], "price": [11]}))]
    [[{'ts': 7, 'price': 10, '_weight': -1}, {'ts': 7, 'price': 11, '_weight': 1}]]
    """

    def __init__(
        self,
        setup: ManyChangeSetup,
        resources: Resources,
        store: Callable[[Mapping[str, pa.Schema]], Store] | None = None,
    ) -> None:
        self.setup = setup
        self.answer_schema, stages = _stages(setup)
        self.schema = written_schema(self.answer_schema, setup.output)
        self._resources = resources
        self._output = stages[-1].output
        query = Query(
            partial(_graph, stages),
            {name: f"{name} changes" for name in (SPINE, *setup.tables)},
            "join",
            "jn.changes_many(…)",
            setup.unmatched_deletes,
            identity=partial(identity_of, stages[-1].join.output_schema, "answer's"),
        )
        self._runtime = Runtime(query, self._formatted, store)

    def apply(self, *, spine: Any = None, offset: Any = None, **tables: Any) -> list[pa.RecordBatch]:
        """Apply the changes of an epoch, and return those of the result.

        Parameters
        ----------
        spine, **tables
            Changes of the spine and of tables, by name, as those of a side in `ChangeJoin.apply`.
        offset
            Position of the sources after these changes, as in `ChangeJoin.apply`.

        Returns
        -------
        list of pyarrow.RecordBatch
            Changes of the result, in no order. Each row appears once, and changes that cancel do not appear.

        Raises
        ------
        SpecError, SchemaError, DataError, PlanError, StateError
            As `ChangeJoin.apply`. DataError also if several rows of an `Equi` table match a row of the spine, unless
            ``duplicates="greatest"``. The epoch is then not applied.
        """
        return self._runtime.apply(self._streams(spine, tables), offset)[ANSWER]

    def populate(
        self, *, spine: Any = None, offset: Any = None, progress: Report | None = None, **tables: Any
    ) -> list[pa.RecordBatch]:
        """Load the initial tables, and return the result, as `ChangeJoin.populate`."""
        return self._runtime.populate(self._streams(spine, tables), offset, progress)[ANSWER]

    def last(self) -> list[pa.RecordBatch]:
        """Return the changes of the last epoch, for consumers that may have missed it, or those of `populate` again."""
        last = self._runtime.last()
        if last is not None:
            return last[ANSWER]
        rows = self.result().to_batches()
        return [write_changes(batch, np.ones(batch.num_rows, np.int64), self.setup.output) for batch in rows]

    def _streams(self, spine: Any, tables: Mapping[str, Any]) -> dict[str, Iterator[ChangeBatch]]:
        for name in tables:
            if name not in self.setup.tables:
                raise SpecError(
                    f"{name}=… is no table of the join. Expected spine or one of {list(self.setup.tables)}.",
                    name="JN-ARGUMENT-UNKNOWN",
                )
        changes = {SPINE: spine} | {name: tables.get(name) for name in self.setup.tables}
        return {name: self._read(name, each) for name, each in changes.items()}

    def _read(self, name: str, changes: Any) -> Iterator[ChangeBatch]:
        """Yield changes of a table, in the types of stored rows."""
        schema = self._runtime.dataflow.graph.source_rows[name].schema
        for batch, weights in [] if changes is None else read_changes(changes, self.setup.schema(name), name):
            if batch.num_rows:
                yield ChangeBatch(project(batch, schema), weights)

    def _formatted(self, _answer: str, rows: ChangeBatches) -> list[pa.RecordBatch]:
        formatted = []
        for batch, weights in rows:
            first = 0
            for finished in self._output.finished([batch]):
                end = first + finished.num_rows
                formatted.append(write_changes(finished, weights[first:end], self.setup.output))
                first = end
        return formatted

    def result(self) -> pa.Table:
        """Return the current result. It is computed by a batch join of the current tables, in memory."""
        self.check_open()
        rights = {name: replace(right, table=self.table(name)) for name, right in self.setup.tables.items()}
        table: pa.Table = plan_local(self.table(SPINE), rights, self._resources).execute()
        return table

    def table(self, name: str) -> pa.Table:
        """Return the current rows of the spine or a table, in no order. Columns that no join reads are null."""
        schema = self.setup.schema(name)
        return pa.Table.from_batches(list(current_rows(self._runtime, name, schema)), schema)


@contextmanager
def _about(name: str) -> Iterator[None]:
    """Name the table in errors."""
    try:
        yield
    except JunctureError as error:
        raise named(name, error) from error


def _stages(setup: ManyChangeSetup) -> tuple[pa.Schema, list[_Stage]]:
    """Return the schema of the result, and the join of each table."""
    spine = left = setup.spine_schema
    taken, fields, joins = set(spine.names), list(spine), list[tuple[ResolvedTable, Resolved]]()
    for name, right in setup.tables.items():
        with _about(name):
            table = resolve_table(name, right, spine, right.table, taken)
            refuse_computed(table.join, "tables that change")
            if table.join.aggregates and not table.aggregates:
                raise SpecError("columns=[] adds no aggregate. Remove the table.", name="JN-ARGUMENT-VALUE")
            fields += table.right_output.user_schema(spine, right.table)
            left_columns = tuple(OutputColumn(column, "left", column) for column in left.names)
            join = replace(table.right_output, left_schema=left, output=(*left_columns, *table.columns))
            joins.append((table, stored_join(join)))
            left = joins[-1][1].output_schema
    schema = pa.schema(fields, spine.metadata)
    stages = []
    for number, (table, join) in enumerate(joins, 1):
        output = Output(join, schema if number == len(joins) else join.output_schema)
        is_lookup = table.join.spec.is_lookup and not table.aggregates
        stages.append(_Stage(table.name, join, output, table.duplicates if is_lookup else None))
    return schema, stages


class _ChainedJoin(StoredJoinOperator):
    """A join of a chain. Its left input has the columns of its left rows, by position."""

    def __init__(self, stage: _Stage, left: ViewOperator, right: ViewOperator, *, is_last: bool) -> None:
        join = stage.join
        sources: Mapping[Any, ViewOperator] = {"left": left, "right": right}
        super().__init__(stage.name, join.output_schema.types, sources, join, stage.output, stage.duplicates)
        self._is_last = is_last

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the inserted and deleted rows of the join."""
        with _about(self.label):
            return super().step(
                [self._named(input_number, batches) for input_number, batches in enumerate(input_changes)]
            )

    def part_hashes(self, input_number: int, batch: pa.RecordBatch, /) -> Words:
        """Return the hashes of the keys of a side."""
        return super().part_hashes(input_number, batch_of(batch.columns, self.sides[SIDES[input_number]].schema))

    def _named(self, input_number: int, batches: Iterable[ChangeBatch]) -> ChangeBatches:
        schema = self.sides[SIDES[input_number]].schema
        return [ChangeBatch(batch_of(batch.columns, schema), weights) for batch, weights in batches]

    def _output_rows(self, changes: ChangeBatches) -> ChangeBatches:
        if self._is_last:
            return changes
        return [ChangeBatch(batch_of(batch.columns, self.schema), weights) for batch, weights in changes]


def _graph(stages: Sequence[_Stage]) -> OperatorGraph:
    graph = OperatorGraph()
    left = graph.inputs[SPINE] = ViewOperator(SPINE, stored_schema(stages[0].join, "left").types, ())
    operators: list[ViewOperator] = []
    for number, stage in enumerate(stages, 1):
        right_schema = stage.join.right_schema if stage.duplicates == "greatest" else stored_schema(stage.join, "right")
        right = ViewOperator(stage.name, right_schema.types, ())
        operator = _ChainedJoin(stage, left, right, is_last=number == len(stages))
        graph.inputs[stage.name] = right
        graph.source_rows[stage.name] = operator.sides["right"]
        if number == 1:
            graph.source_rows[SPINE] = operator.sides["left"]
        operators.append(operator)
        left = operator
    graph.operators = [*graph.inputs.values(), *operators]
    graph.answers = {ANSWER: left}
    return graph
