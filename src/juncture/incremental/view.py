"""Views: SQL queries whose results are maintained while their tables change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from juncture.columnar.arrays import rows_at
from juncture.columnar.conversion import converted
from juncture.columnar.types import plain_type
from juncture.errors import PlanError, SchemaError, SpecError, did_you_mean
from juncture.incremental.changes.change_batch import (
    ChangeBatch,
    ChangeBatches,
    ChangeFormat,
    deletes_last,
    table_of,
    write_changes,
    written_schema,
)
from juncture.incremental.changes.source import Source
from juncture.incremental.dataflow import ANSWER, Dataflow
from juncture.incremental.explain import ExplainFormat, explained, replacement_explained, watched
from juncture.incremental.operators.operator import batch_of
from juncture.incremental.operators.order import SourceOrder
from juncture.incremental.operators.top import sorted_rows
from juncture.incremental.plan.nodes import answer_types
from juncture.incremental.plan.physical import OperatorGraph, operators_of
from juncture.incremental.plan.prune import pruned
from juncture.incremental.plan.push import pushed
from juncture.incremental.replacement import Replacement
from juncture.incremental.runtime import MaintainedQuery, Query, Runtime
from juncture.incremental.sql.reader import read_query
from juncture.incremental.state.policy import MemoryPolicy, store_opener
from juncture.runtime.working_types import working_type
from juncture.spec.arguments import check_choice

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store


_ORDERED = "rows in order"
"""The answer with the columns that only ORDER BY reads."""


@dataclass(frozen=True)
class ViewSetup:
    """The arguments of a view: query, tables, format of changes, and handling of unmatched deletes."""

    sql: str
    sources: Mapping[str, Source]
    output: ChangeFormat = "weight"
    unmatched_deletes: Literal["error", "count"] = "error"
    final_rows: Literal["keep", "forget"] = "keep"

    def __post_init__(self) -> None:
        check_choice("final_rows", self.final_rows, ("keep", "forget"))
        check_choice("output", self.output, ("weight", "change_type", "debezium"))
        check_choice("unmatched_deletes", self.unmatched_deletes, ("error", "count"))
        for name, source in self.sources.items():
            lowered = [column.lower() for column in source.schema.names]
            twice = next((each for each in lowered if lowered.count(each) > 1), None)
            if twice is not None:
                raise SchemaError(
                    f"Source {name!r} has column {twice!r} twice, as SQL ignores case. Rename or drop one of them.",
                    name="JN-COLUMN-DUPLICATE",
                )
            if source.order is not None:
                SourceOrder.of(name, source)


class _ViewPlan:
    """A planned query, and its result in the format of users."""

    def __init__(self, setup: ViewSetup) -> None:
        self.setup = setup
        schemas = {name: _working(source.schema) for name, source in setup.sources.items()}
        ordered = {name.lower(): source for name, source in setup.sources.items() if source.order is not None}
        columns = {name: SourceOrder.of(name, source).column for name, source in ordered.items()}
        query = read_query(setup.sql, schemas, orders=columns)
        self.order = query.order
        static = [name.lower() for name, source in setup.sources.items() if source.static]
        plans = pruned({ANSWER: pushed(query.node, static)})
        if len(query.node.types) > len(query.names):
            plans = {_ORDERED: plans[ANSWER], ANSWER: plans[ANSWER].select(range(len(query.names)))}
        self.rows_of_result = next(iter(plans))
        types = answer_types(query.node, schemas)
        self.answer_schema = pa.schema(list(zip(_distinct(query.names), types, strict=False)))
        self.schema = written_schema(self.answer_schema, setup.output)
        self.query = Query(
            partial(operators_of, plans, static, keeps_final=setup.final_rows == "keep"),
            {name.lower(): f"changes of source {name!r}" for name in setup.sources},
            "view",
            "jn.view(…)",
            setup.unmatched_deletes,
            static,
            ordered,
        )

    def changes(self, answer: str, changes: ChangeBatches) -> list[pa.RecordBatch]:
        """Return the changes of the result in the output format."""
        if answer == _ORDERED:
            return []
        return [write_changes(self.as_answer(batch), weights, self.setup.output) for batch, weights in changes]

    def as_answer(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the result in the types of the sources."""
        arrays = [converted(each, field.type) for each, field in zip(batch.columns, self.answer_schema, strict=True)]
        return batch_of(arrays, self.answer_schema)


class View(MaintainedQuery):
    """Maintain the result of an SQL query while its tables change. `juncture.view` creates a view.

    `apply` takes the changes of the tables, one epoch at a time, and returns the changes of the result. An epoch costs
    time in proportion to its changes and to the rows that they match. Memory grows with the rows of the tables, and
    with `state=` in a folder, rows beyond `memory=` are on disk. Use a view as a context manager, or call `close`.

    Attributes
    ----------
    answer_schema : pyarrow.Schema
        The columns of the result.
    schema : pyarrow.Schema
        The columns of the changes of the result.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> sales = pa.schema({"book": pa.string(), "copies": pa.int64()})
    >>> sql = "SELECT book, sum(copies) AS total FROM sales GROUP BY book"
    >>> with jn.view(None, sql, sources={"sales": sales}) as view:
    ...     first = view.populate(sales=pa.table({"book": ["Emma"], "copies": [2]}))
    ...     changes = view.apply(sales=pa.table({"book": ["Emma"], "copies": [3]}))
    ...     view.result().to_pylist()
    [{'book': 'Emma', 'total': 5}]
    >>> changes[0].to_pylist()
    [{'book': 'Emma', 'total': 2, '_weight': -1}, {'book': 'Emma', 'total': 5, '_weight': 1}]
    """

    def __init__(
        self,
        setup: ViewSetup,
        store: Callable[[Mapping[str, pa.Schema]], Store] | None = None,
    ) -> None:
        plan = _ViewPlan(setup)
        self._names = {name.lower(): name for name in setup.sources}
        self._maintain(plan, Runtime(plan.query, plan.changes, store))

    def _maintain(self, plan: _ViewPlan, runtime: Runtime) -> None:
        self._plan, self._runtime = plan, runtime
        self.answer_schema, self.schema = plan.answer_schema, plan.schema

    @property
    def unmatched_deletes(self) -> Mapping[str, int]:
        """Number of deletes per source that matched no row."""
        return {self._names[source]: count for source, count in self._runtime.position.missing.items()}

    @property
    def late(self) -> Mapping[str, int]:
        """Number of late changes per source with an order, which were excluded."""
        ordered = (name for name, source in self._plan.setup.sources.items() if source.order is not None)
        return {name: self._runtime.position.late.get(name.lower(), 0) for name in ordered}

    @property
    def repaired(self) -> Mapping[str, int]:
        """Number of late changes per source with ``late="repair"``, which were applied."""
        repairing = (name for name, source in self._plan.setup.sources.items() if source.late == "repair")
        return {name: self._runtime.position.repaired.get(name.lower(), 0) for name in repairing}

    def apply(self, *, offset: Any = None, **changes: Any) -> list[pa.RecordBatch]:
        """Apply the changes of one epoch, and return the changes of the result.

        Parameters
        ----------
        offset : Any, optional
            The position of the sources after these changes, as JSON data. It is committed with the epoch, so that
            `offset` returns where to continue. None keeps the previous one.
        **changes
            The changes of each source, by its name: a record batch, a table with the Arrow PyCapsule interface, or a
            list of these. The column ``_weight``, the column ``_change_type``, or the columns ``op``, ``before`` and
            ``after`` mark inserts and deletes. Without any of them, all rows are inserts.

        Returns
        -------
        list of pyarrow.RecordBatch
            The changes of the result, in no order. Each changed row occurs once.

        Raises
        ------
        SpecError, SchemaError
            If a source does not exist, or its changes are not a table or have other columns.
        DataError
            If a change has an unknown kind, deletes a row that does not exist (unless ``unmatched_deletes="count"``),
            or an expression of the query fails. The epoch is not applied.
        PlanError
            If the view is closed, or a static source changes.
        StateError
            If the epoch cannot be written to the folder. The epoch is not applied. If an error leaves open whether the
            epoch was written, the view is closed. Open it again, and read `epoch`.
        """
        return self._runtime.apply(self._streams(changes), offset)[ANSWER]

    def populate(self, *, offset: Any = None, **tables: Any) -> list[pa.RecordBatch]:
        """Load the initial rows of the tables as the first epoch, and return the rows of the result as inserts.

        Tables that exceed ``memory=`` may be readers of batches. If the state is in a folder, they are loaded in parts,
        and the result is in a temporary file that exists as long as the returned batches. If the process ends early,
        the folder stays as it was.

        Parameters
        ----------
        offset, **tables
            As for `apply`.

        Raises
        ------
        PlanError
            If the view has rows, or is closed.
        SpecError, SchemaError, DataError, StateError
            As for `apply`.
        """
        # Small tables first, so that large ones find their matches.
        by_size = sorted(tables, key=lambda name: getattr(tables[name], "num_rows", math.inf))
        streams = self._streams({name: tables[name] for name in by_size})
        rows = {source: deletes_last(stream) for source, stream in streams.items()}
        return self._runtime.populate(rows, offset)[ANSWER]

    @property
    def _graph(self) -> OperatorGraph:
        return self._runtime.dataflow.graph

    def _streams(self, tables: Mapping[str, Any]) -> dict[str, Iterator[ChangeBatch]]:
        """Return the changes of sources that the query reads."""
        changes = {self._source(name): each for name, each in tables.items() if each is not None}
        for name in (self._names[source] for source in changes):
            if self._plan.setup.sources[name].static and self.epoch:
                raise PlanError(
                    f"Source {name!r} is declared static, but changes in epoch {self.epoch + 1:,}. Pass all its rows "
                    "in the first epoch, or declare it without static=True, in a new folder.",
                    name="JN-STATIC-SOURCE",
                )
        return {source: self._read(source, each, self._runtime.dataflow) for source, each in changes.items()}

    def _source(self, name: str) -> str:
        if name.lower() not in self._names:
            hint = did_you_mean(name, self._plan.setup.sources)
            raise SpecError(f"Source {name!r} does not exist. {hint}", name="JN-ARGUMENT-UNKNOWN")
        return name.lower()

    def _read(self, source: str, changes: Any, flow: Dataflow) -> Iterator[ChangeBatch]:
        name = self._names[source]
        return flow.read(source, changes, self._plan.setup.sources[name].schema, name)

    def replace(self, sql: str, /, **tables: Any) -> list[pa.RecordBatch]:
        """Maintain another query over the same sources from now on, and return the changes from the old result.

        The new query keeps the rows that both queries store, and computes the rest from them. The replacement is one
        epoch, whose changes `last` returns, and ``offset`` stays. If the process ends early, the folder has the old
        query. Afterwards, open it with the new one.

        Parameters
        ----------
        sql : str
            The new query.
        **tables
            The current rows of sources, as for `populate`, if the view does not store all columns that the new query
            reads. `explain` shows which sources these are.

        Returns
        -------
        list of pyarrow.RecordBatch
            The changes from the old to the new result. If names or types of columns differ, these are all rows of the
            new result as inserts.

        Raises
        ------
        SpecError
            If the new query cannot be parsed or maintained, or tables of other sources are passed.
        PlanError
            If tables are missing, or the view has no rows, or is closed.
        SchemaError, DataError, StateError
            As for `apply`. The view continues with the old query.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> sales = pa.schema({"book": pa.string(), "copies": pa.int64()})
        >>> sql = "SELECT book, sum(copies) AS n FROM sales GROUP BY book"
        >>> view = jn.view(None, sql, sources={"sales": sales})
        >>> first = view.populate(sales=pa.table({"book": ["Emma", "Persuasion"], "copies": [2, 5]}))
        >>> [batch.to_pylist() for batch in view.replace(f"{sql} HAVING sum(copies) > 3")]
        [[{'book': 'Emma', 'n': 2, '_weight': -1}]]
        """
        self.check_open()
        self._check_replaceable()
        if not self.epoch:
            raise PlanError(
                "replace(…) needs a view with rows, but this one has applied no epochs. Open another view with the new "
                "query.",
                name="JN-STATE-EMPTY",
            )
        plan = _ViewPlan(replace(self._plan.setup, sql=sql))
        new = Runtime(plan.query, plan.changes)
        replacement = Replacement(self._graph, new.dataflow.graph)
        passed = {self._source(name): table for name, table in tables.items()}
        self._check_tables(tables, passed, replacement)
        streams = {source: deletes_last(self._read(source, each, new.dataflow)) for source, each in passed.items()}
        schemas = [each.answers[ANSWER].schema for each in (self._graph, new.dataflow.graph)]
        is_alike = plan.answer_schema == self.answer_schema and schemas[0] == schemas[1]
        answers = self._runtime.hand_over(new, replacement, streams, described(plan.setup), is_alike=is_alike)
        self._maintain(plan, new)
        return answers[ANSWER]

    def _check_tables(self, tables: Mapping[str, Any], passed: Mapping[str, Any], replacement: Replacement) -> None:
        missing = [self._names[source] for source in replacement.missing if passed.get(source) is None]
        if missing:
            raise PlanError(
                f"The new query reads columns of {', '.join(map(repr, missing))} that the view does not store. Pass "
                f"the current rows: view.replace(sql, {', '.join(f'{name}=…' for name in missing)}).",
                name="JN-VIEW-TABLES",
            )
        stored = [name for name in tables if name.lower() not in replacement.missing]
        if stored:
            raise SpecError(
                f"Table {stored[0]!r} is not needed: the new query does not read it, or the view stores its rows. Omit "
                "this argument.",
                name="JN-ARGUMENT-VALUE",
            )

    def _check_replaceable(self) -> None:
        ordered = next((name for name, each in self._plan.setup.sources.items() if each.order is not None), None)
        if ordered is not None:
            raise PlanError(
                f"The view may have forgotten rows of source {ordered!r} that another query needs, because this source "
                "has an order. Populate another view with the new query.",
                name="JN-VIEW-FORGETS",
            )

    def last(self) -> list[pa.RecordBatch]:
        """Return the output of the last epoch, for consumers that may have missed it.

        Without a folder, the output of `populate` is not stored. `result` returns the same rows.
        """
        last = self._runtime.last()
        return self._plan.changes(ANSWER, list(self._runtime.living(ANSWER))) if last is None else last[ANSWER]

    def result(self) -> pa.Table:
        """Return the current result as a table, in the order of ``ORDER BY`` if the query has one."""
        self.check_open()
        plan = self._plan
        table = table_of(self._runtime.living(plan.rows_of_result), self._graph.answers[plan.rows_of_result].schema)
        if plan.order and table.num_rows:
            batch = table.combine_chunks().to_batches()[0]
            table = pa.Table.from_batches([rows_at(batch, sorted_rows(batch, plan.order))])
        table = table.select(range(len(self.answer_schema)))
        return pa.Table.from_batches(map(plan.as_answer, table.to_batches()), self.answer_schema)

    def table(self, source: str) -> pa.Table:
        """Return the current rows of a source, in no order, with the columns that the query reads.

        Raises
        ------
        SpecError
            If the query does not read a source of this name.
        """
        self.check_open()
        name = self._source(source)
        if name not in self._graph.scans:
            hint = did_you_mean(name, self._graph.scans)
            raise SpecError(f"Source {source!r} is not read by the query. {hint}", name="JN-ARGUMENT-VALUE")
        return self._runtime.dataflow.table(name)

    def explain(self, sql: str | None = None, *, format: ExplainFormat = "text") -> str:  # noqa: A002 - as for plans
        """Return the operators: for each, its inputs, stored rows, memory and time.

        The last lines are the rows that all operators, and the result, are expected to emit for one changed row of a
        source: joins by the average number of rows per key, windows at most by whole partitions, filters as before.

        Parameters
        ----------
        sql : str, optional
            A query for `replace`. Returns its operators as text, and whether their rows are kept, copied or computed.
        format : {"text", "json", "html"}, optional
            Text, JSON for programs, or a page of HTML.
        """
        if sql is None:
            changing = [name.lower() for name, source in self._plan.setup.sources.items() if not source.static]
            return explained(self._graph, changing, format)
        self._check_replaceable()
        graph = _ViewPlan(replace(self._plan.setup, sql=sql)).query.graph()
        return replacement_explained(Replacement(self._graph, graph))

    def watch(self) -> AbstractContextManager[Any]:
        """Return a context manager that displays the operators in the terminal while changes are applied."""
        return watched(self._graph, lambda: self.epoch)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that rows and groups use."""
        return sum(operator.nbytes for operator in self._graph.operators)


def store_in(folder: Path, setup: ViewSetup, policy: MemoryPolicy) -> Callable[[Mapping[str, pa.Schema]], Store]:
    """Return a function that opens the state of a view in a folder, given the stored columns of each source."""
    return store_opener(folder, "view", policy, described(setup))


def described(setup: ViewSetup) -> dict[str, Any]:
    """Return what identifies a view, as JSON data."""
    sources = {
        f"source {name}": ", ".join(
            f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in source.schema
        )
        + (" (static)" if source.static else "")
        + ("" if source.order is None else f" ({source.order})")
        + ("" if source.repair_within is None else f" (repairs within {source.repair_within})")
        for name, source in setup.sources.items()
    }
    finality = {} if setup.final_rows == "keep" else {"final rows": "forgotten"}
    return {"query": " ".join(setup.sql.split()), **sources, **finality}


def _working(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, working_type(plain_type(field.type))) for field in schema])


def _distinct(names: tuple[str, ...]) -> list[str]:
    """Return the names, with suffixes where needed to make them unique."""
    unique_names: list[str] = []
    for name in names:
        number, unique_name = 1, name
        while unique_name in unique_names:
            unique_name = f"{name}_{number}"
            number += 1
        unique_names.append(unique_name)
    return unique_names
