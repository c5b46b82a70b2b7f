"""A maintained join of two tables that change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.conversion import converted
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
from juncture.incremental.operators.operator import ViewOperator
from juncture.incremental.operators.stored_join import StoredJoinOperator
from juncture.incremental.plan.physical import OperatorGraph
from juncture.incremental.runtime import MaintainedQuery, Query, Runtime
from juncture.incremental.state.policy import MemoryPolicy, store_opener
from juncture.local.plan import plan as plan_local
from juncture.matching.output import Output, project, stored_join, stored_schema
from juncture.planner.statistics import Resources
from juncture.runtime.progress import Report
from juncture.spec.arguments import check_choice
from juncture.spec.base import Spec
from juncture.spec.resolved import Resolved, refuse_computed
from juncture.spec.schema import SIDES, Side

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store


@dataclass(frozen=True)
class ChangeSetup:
    """The definition of a join of changing tables."""

    spec: Spec
    left_schema: pa.Schema
    right_schema: pa.Schema
    output: ChangeFormat = "weight"
    unmatched_deletes: Literal["error", "count"] = "error"

    def __post_init__(self) -> None:
        check_choice("output", self.output, ("weight", "change_type", "debezium"))
        check_choice("unmatched_deletes", self.unmatched_deletes, ("error", "count"))

    def schema(self, side: Side) -> pa.Schema:
        """Return the columns of a side."""
        return self.left_schema if side == "left" else self.right_schema


@dataclass(frozen=True)
class SideRows:
    """The stored rows of one side."""

    rows: int  # number of distinct rows, or a few more
    bytes: int  # memory of the rows
    unmatched_deletes: int  # number of deletes that found no row


class ChangeJoin(MaintainedQuery):
    """A join of two tables that change, created by `juncture.changes`.

    Pass the changes of each epoch to `apply`. It returns the changes of the result: added to the previous result, they
    give the join of the two tables as they are now. The cost of an epoch follows the number of changes and their
    matches. Memory: the rows of both sides; with ``state=`` at most ``memory=``, and the rest on disk.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> customers, sales = pa.schema({"id": pa.int64(), "name": pa.string()}), pa.schema({"id": pa.int64()})
    >>> join = jn.changes(customers, sales, jn.Equi(on="id"))
    >>> [batch.to_pylist() for batch in join.apply(left=pa.table({"id": [1], "name": ["Adam"]}))]
    []
    >>> [batch.to_pylist() for batch in join.apply(right=pa.table({"id": [1]}))]
    [[{'id': 1, 'name': 'Adam', '_weight': 1}]]
    >>> renamed = pa.table({"id": [1, 1], "name": ["Adam", "Eve"], "_weight": [-1, 1]})
    >>> [sorted(batch.to_pylist(), key=lambda row: row["_weight"]) for batch in join.apply(left=renamed)]
    [[{'id': 1, 'name': 'Adam', '_weight': -1}, {'id': 1, 'name': 'Eve', '_weight': 1}]]
    """

    def __init__(
        self, setup: ChangeSetup, resources: Resources, store: Callable[[Mapping[str, pa.Schema]], Store] | None = None
    ) -> None:
        self.setup = setup
        resolved: Resolved = setup.spec.resolve(setup.left_schema, setup.right_schema)
        refuse_computed(resolved, "tables that change")
        self.answer_schema = resolved.user_schema(setup.left_schema, setup.right_schema)
        self.schema = written_schema(self.answer_schema, setup.output)
        self._resources = resources
        join = stored_join(resolved)
        self._output = Output(join, self.answer_schema)
        query = Query(
            partial(_graph, join, self._output),
            {side: f"{side} changes" for side in SIDES},
            "join",
            "jn.changes(…)",
            setup.unmatched_deletes,
            identity=partial(identity_of, join.output_schema, "answer's"),
        )
        self._runtime = Runtime(query, self._formatted, store)

    def last(self) -> list[pa.RecordBatch]:
        """Return the changes of the last epoch, for consumers that may have missed it, or those of `populate` again."""
        last = self._runtime.last()
        if last is not None:
            return last[ANSWER]
        rows = self.result().to_batches()
        return [write_changes(batch, np.ones(batch.num_rows, np.int64), self.setup.output) for batch in rows]

    def apply(self, *, left: Any = None, right: Any = None, offset: Any = None) -> list[pa.RecordBatch]:
        """Apply the changes of an epoch, and return those of the result.

        Parameters
        ----------
        left, right
            Changes of a side: a ``pyarrow.RecordBatch``, a table with the Arrow PyCapsule interface, or a list of
            them. A column ``_weight`` or ``_change_type``, or the columns ``op``, ``before`` and ``after``, mark
            inserts and deletes; without them, all rows are inserted. The order of changes within an epoch does not
            matter.
        offset
            Position of the sources after these changes, as plain data. It is committed with them and returned by
            `offset`. None leaves it unchanged.

        Returns
        -------
        list of pyarrow.RecordBatch
            Changes of the result, in no order. Each row appears once, and changes that cancel do not appear.

        Raises
        ------
        SpecError, SchemaError
            If an argument is not a table, or has other columns.
        DataError
            If a change is invalid, deletes a row that does not exist (unless these are counted), or causes a tie that
            is an error. The epoch is then not applied.
        PlanError
            If the join is closed.
        StateError
            If the epoch cannot be written to its folder. It is then not applied. If it is unknown whether it was
            committed, the join is closed: opened again, `epoch` returns the number of committed epochs.
        """
        return self._runtime.apply(self._streams(left, right), offset)[ANSWER]

    def populate(
        self, *, left: Any = None, right: Any = None, offset: Any = None, progress: Report | None = None
    ) -> list[pa.RecordBatch]:
        """Load the initial tables, and return the result. Equal rows are returned separately.

        Tables larger than ``memory=`` can be passed as readers of batches. If the state is in a folder and the join
        has keys, they are joined in parts, and the result is in a temporary file that exists as long as the returned
        batches. After a crash, the folder is unchanged.

        Parameters
        ----------
        left, right, offset
            As in `apply`.
        progress
            Called with a phase (``"left"`` and ``"right"`` while rows are read, ``"output"`` while they are joined),
            the work done, and the total work, 0 if unknown.

        Returns
        -------
        list of pyarrow.RecordBatch
            The result, as inserts in no order.

        Raises
        ------
        PlanError
            If the join already has rows, or is closed.
        SpecError, SchemaError, DataError, StateError
            Like `apply`.
        """
        return self._runtime.populate(self._streams(left, right), offset, progress)[ANSWER]

    def _streams(self, left: Any, right: Any) -> dict[str, Iterator[ChangeBatch]]:
        return {"left": self._read("left", left), "right": self._read("right", right)}

    def _read(self, side: Side, changes: Any) -> Iterator[ChangeBatch]:
        """Yield changes of a side, in the types of stored rows."""
        schema = self._operator.sides[side].schema
        for batch, weights in [] if changes is None else read_changes(changes, self.setup.schema(side), side):
            if batch.num_rows:
                yield ChangeBatch(project(batch, schema), weights)

    @property
    def _operator(self) -> StoredJoinOperator:
        operator = self._runtime.dataflow.graph.answers[ANSWER]
        assert isinstance(operator, StoredJoinOperator)
        return operator

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
        """Return the current result. It is computed by a batch join of the current tables."""
        self.check_open()
        plan = plan_local(
            self.setup.spec,
            self._current("left"),
            self._current("right"),
            algorithm="auto",
            stats=None,
            resources=self._resources,
        )
        table: pa.Table = plan.execute()
        return table

    def table(self, side: Side) -> pa.Table:
        """Return the current rows of a side, in no order. Columns that the join does not read are null."""
        return pa.Table.from_batches(list(self._rows(side)), self.setup.schema(side))

    def _current(self, side: Side) -> pa.Table | pa.RecordBatchReader:
        """Return the current rows of a side; rows on disk as a reader."""
        if self._operator.sides[side].arrangement.pages is None:
            return self.table(side)
        return pa.RecordBatchReader.from_batches(self.setup.schema(side), self._rows(side))

    def _rows(self, side: Side) -> Iterator[pa.RecordBatch]:
        return current_rows(self._runtime, side, self.setup.schema(side))

    @property
    def left(self) -> SideRows:
        """Number and memory of the stored left rows."""
        return self._side_rows("left")

    @property
    def right(self) -> SideRows:
        """Number and memory of the stored right rows."""
        return self._side_rows("right")

    def _side_rows(self, side: Side) -> SideRows:
        arrangement = self._operator.sides[side].arrangement
        return SideRows(arrangement.rows, arrangement.nbytes, self._runtime.position.missing[side])


def current_rows(runtime: Runtime, source: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the current rows of a source. Columns that are not stored are null."""
    for each in runtime.rows(source):
        expanded = each.repeated()
        columns = [
            converted(expanded.column(field.name), field.type)
            if field.name in expanded.schema.names
            else pa.nulls(expanded.num_rows, field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _graph(join: Resolved, output: Output) -> OperatorGraph:
    graph = OperatorGraph()
    for side in SIDES:
        graph.inputs[side] = ViewOperator(side, stored_schema(join, side).types, ())
    inputs = {side: graph.inputs[side] for side in SIDES}
    operator = StoredJoinOperator("join", join.output_schema.types, inputs, join, output)
    graph.operators = [*inputs.values(), operator]
    for side in SIDES:
        graph.source_rows[side] = operator.sides[side]
    graph.answers = {ANSWER: operator}
    return graph


def store_in(folder: Path, setup: ChangeSetup, policy: MemoryPolicy) -> Callable[[Mapping[str, pa.Schema]], Store]:
    """Return a function that opens the state of a join in a folder, given the stored columns of both sides."""
    return store_opener(folder, "join", policy, described(setup))


def described(setup: ChangeSetup) -> dict[str, Any]:
    """Return the definition of a join as plain data."""
    schemas = {f"{side}_schema": schema_text(setup.schema(side)) for side in SIDES}
    return {"spec": json.loads(json.dumps(setup.spec.to_dict())), **schemas}


def schema_text(schema: pa.Schema) -> str:
    """Return the columns of a schema with their types."""
    return ", ".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)
