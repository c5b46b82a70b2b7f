"""Views: SQL queries whose results are maintained while their tables change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from juncture.columnar.conversion import converted
from juncture.columnar.types import plain_type
from juncture.errors import DataError, PlanError, SchemaError, SpecError, StateError, did_you_mean
from juncture.incremental.changes.change_batch import ChangeFormat, read_changes, write_changes, written_schema
from juncture.incremental.changes.source import Source
from juncture.incremental.operators.operator import Change, Flow, batch_of, some_rows
from juncture.incremental.operators.top import sorted_rows
from juncture.incremental.plan.explain import explained, watched
from juncture.incremental.plan.prune import pruned
from juncture.incremental.plan.push import pushed
from juncture.incremental.runtime import Dataflow, PieceSize, combined, deletes_last, pieces
from juncture.incremental.sql.reader import answer_types, read_query
from juncture.incremental.state.policy import MemoryPolicy, store_opener
from juncture.incremental.state.records import Position
from juncture.incremental.state.tables import StateTables
from juncture.runtime.working_types import working_type
from juncture.spec.arguments import check_choice

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store

_REPLAYED_ROWS = 1 << 14
"""Approximate number of changes that are applied at once when a view is opened."""


@dataclass(frozen=True)
class ViewSetup:
    """The arguments of a view: query, tables, format of changes, and handling of unmatched deletes."""

    sql: str
    sources: Mapping[str, Source]
    output: ChangeFormat = "weight"
    unmatched_deletes: Literal["error", "count"] = "error"

    def __post_init__(self) -> None:
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


class View:
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
        self.setup = setup
        schemas = {name: _working(source.schema) for name, source in setup.sources.items()}
        self._names = {name.lower(): name for name in setup.sources}
        query = read_query(setup.sql, schemas)
        self._order = query.order
        self._static = [name.lower() for name, source in setup.sources.items() if source.static]
        self._plan = pruned(pushed(query.node, self._static))
        self._flow = Dataflow(self._plan, self._static)
        types = answer_types(query.node, schemas)
        self.answer_schema = pa.schema(list(zip(_distinct(query.names), types, strict=True)))
        self.schema = written_schema(self.answer_schema, setup.output)
        self._epoch, self._offset = 0, None
        self._missing = dict.fromkeys(setup.sources, 0)
        self._closed = False
        self._is_whole = True
        self._last: list[pa.RecordBatch] = []
        self._store: Store | None = None
        self._tables: StateTables | None = None
        if store is not None:
            self._store = store({source: operator.schema for source, operator in self._flow.built.inputs.items()})
            try:
                self._tables = self._tables_in(self._store)
                self._restore(self._store, self._tables)
            except BaseException:
                self.close()
                raise

    def _tables_in(self, store: Store) -> StateTables:
        return StateTables(store, self._flow.tables, lambda: self._flow.others_bytes)

    def _restore(self, store: Store, tables: StateTables) -> None:
        """Open the committed rows of a store, and apply the changes since its last checkpoint."""
        position = store.position()
        if position is None:
            return
        tables.open()
        self._flow.restored()
        for epochs in combined(store.epochs(), _REPLAYED_ROWS):
            try:
                self._replay(epochs, tables)
            except DataError:
                # Rows of different epochs met. One by one, the epochs succeed as they did before.
                self._flow.abandon()
                tables.drop()
                for epoch in epochs:
                    self._replay([epoch], tables)
        self._set_position(position)
        tables.after_epoch(position)

    def _replay(self, epochs: Sequence[Mapping[str, Flow]], tables: StateTables) -> None:
        """Apply the changes of some epochs again, as one."""
        flows: dict[str, Flow] = {}
        for epoch in epochs:
            for source, flow in epoch.items():
                flows.setdefault(source, []).extend(flow)
        for source, flow in flows.items():
            delta, missing = self._flow.located(source, flow)
            if missing.any():
                raise StateError(
                    f"The view is damaged: it deletes rows of source {source!r} that do not exist. Restore its folder "
                    "from a backup, or populate a new one.",
                    name="JN-STATE-DAMAGED",
                )
            flows[source] = [(delta.batch, delta.weights)]
        self._flow.run(flows)
        self._flow.commit()
        tables.after_epoch(None)

    def _fill(self, streams: Mapping[str, Iterable[Change]], located: Callable[[str, Flow], Flow]) -> Flow:
        """Load the first rows, in pieces if they are many, and return the rows of the result."""
        answer, count = [], 0
        size = PieceSize(math.inf if self._tables is None else self._tables.piece_bytes)
        for piece in pieces(streams, self._static, size):
            if self._tables is not None:
                self._tables.check()
            answer = self._flow.run({source: located(source, flow) for source, flow in piece.items()})
            self._flow.commit()
            if self._tables is not None:
                self._tables.after_piece()
            size.adapt(sum(len(weights) for flow in piece.values() for _, weights in flow), self._flow.most_rows)
            count += 1
        return answer if count == 1 else list(self._flow.answers)

    def _set_position(self, position: Position) -> None:
        self._epoch, self._offset, self._missing = position.epoch, position.offset, dict(position.missing)

    @property
    def epoch(self) -> int:
        """Number of epochs that were applied."""
        return self._epoch

    @property
    def offset(self) -> Any:
        """The last ``offset`` that was passed to `apply` or `populate`."""
        return self._offset

    @property
    def unmatched_deletes(self) -> Mapping[str, int]:
        """Number of deletes per source that matched no row."""
        return dict(self._missing)

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
        self.check_open()
        changes_by_source = {self._source(name): each for name, each in changes.items() if each is not None}
        flows, missing = {}, dict(self._missing)
        if self._tables is not None:
            self._tables.check()
        self._is_whole = False
        try:
            for source, each in changes_by_source.items():
                flow = list(self._read(source, each))
                if source in self._flow.built.inputs:
                    flows[source], count = self._located(source, flow)
                    missing[self._names[source]] += count
            answer = self._written_changes(self._flow.run(flows))
            position = self._next_position(missing, offset)
            if self._store is not None:
                self._store.commit(position, flows, answer)
            self._set_position(position)
        except BaseException:
            self._flow.abandon()
            if self._tables is not None:
                self._tables.drop()
            self._check_whole()
            raise
        self._last = answer
        try:
            self._flow.commit()
            if self._tables is not None:
                self._tables.after_epoch(self._position)
        except BaseException:
            # The epoch is committed. Close, because a retry would apply it twice.
            self.close()
            raise
        self._is_whole = True
        return answer

    def _check_whole(self) -> None:
        """Close the view after a failed epoch, if the folder has that epoch nevertheless."""
        stored = None if self._store is None else self._store.position()
        self._is_whole = self._store is None or self._epoch == (0 if stored is None else stored.epoch)
        if not self._is_whole:
            self.close()

    def populate(self, *, offset: Any = None, **tables: Any) -> list[pa.RecordBatch]:
        """Load the initial rows of the tables as the first epoch, and return the rows of the result.

        Tables that exceed ``memory=`` may be readers of batches. They are loaded in pieces if the state is in a folder.
        If the process ends early, the folder stays as it was.

        Parameters
        ----------
        offset, **tables
            As for `apply`.

        Returns
        -------
        list of pyarrow.RecordBatch
            The rows of the result as inserts.

        Raises
        ------
        PlanError
            If the view has rows, or is closed.
        SpecError, SchemaError, DataError, StateError
            As for `apply`.
        """
        if self._epoch:
            raise PlanError(
                f"populate(…) needs a new view, but this one has {self._epoch:,} epochs. Pass changes to apply(…).",
                name="JN-STATE-NOT-EMPTY",
            )
        self.check_open()
        tables_by_source = {self._source(name): each for name, each in tables.items() if each is not None}
        missing = dict(self._missing)

        def located(source: str, flow: Flow) -> Flow:
            located_flow, count = self._located(source, flow)
            missing[self._names[source]] += count
            return located_flow

        self._is_whole = False
        try:
            # Small tables first, so that large ones find their matches.
            smallest = sorted(
                tables_by_source, key=lambda source: getattr(tables_by_source[source], "num_rows", math.inf)
            )
            streams = {source: deletes_last(self._read(source, tables_by_source[source])) for source in smallest}
            answer = self._written_changes(self._fill(streams, located))
            position = self._next_position(missing, offset)
            if self._tables is not None:
                self._tables.checkpoint(position)
            self._set_position(position)
        except BaseException:
            self._reset()
            raise
        self._is_whole = True
        return answer

    def _reset(self) -> None:
        """Reset the operators to no rows."""
        self._flow = Dataflow(self._plan, self._static)
        if self._store is not None and self._tables is not None:
            self._tables.close(None)
            self._store.keep_only([])
            self._tables = self._tables_in(self._store)
        self._check_whole()

    def _source(self, name: str) -> str:
        if name.lower() not in self._names:
            hint = did_you_mean(name, self.setup.sources)
            raise SpecError(f"Source {name!r} does not exist. {hint}", name="JN-ARGUMENT-UNKNOWN")
        return name.lower()

    def _read(self, source: str, changes: Any) -> Iterator[Change]:
        """Yield the changes of a source: the columns that the query reads, in their working types."""
        name = self._names[source]
        if self.setup.sources[name].static and self._epoch:
            raise PlanError(
                f"Source {name!r} is declared static, but changes in epoch {self._epoch + 1:,}. Pass all its rows in "
                "the first epoch, or declare it without static=True, in a new folder.",
                name="JN-STATIC-SOURCE",
            )
        schema = self.setup.sources[name].schema
        scan = self._flow.built.scans.get(source)
        lowered = {each.lower(): each for each in schema.names}
        for batch, weights in read_changes(changes, schema, name):
            if scan is not None and batch.num_rows:
                operator = self._flow.built.inputs[source]
                arrays = [
                    converted(batch.column(lowered[column.lower()]), data_type) for column, data_type in scan.columns
                ]
                yield batch_of(arrays, operator.schema), weights

    def _located(self, source: str, flow: Flow) -> tuple[Flow, int]:
        try:
            delta, missing = self._flow.located(source, flow)
        except pa.ArrowException as error:
            raise DataError(
                f"Source {self._names[source]!r} has too large changes for one epoch: {error}. Split them into several "
                "epochs.",
                name="JN-EPOCH-SIZE",
            ) from error
        if missing.any() and self.setup.unmatched_deletes == "error":
            raise DataError(
                f"Source {self._names[source]!r} deletes rows that do not exist ({int(missing.sum()):,} in all). "
                "These changes were not applied. Correct them, or pass unmatched_deletes='count' to skip and count "
                "such deletes.",
                name="JN-DELETE-UNMATCHED",
            )
        return ([(delta.batch, delta.weights)] if len(delta) else []), int(missing.sum())

    def _written_changes(self, answer: Flow) -> list[pa.RecordBatch]:
        """Return the changes of the result in the output format."""
        return [write_changes(self._as_answer(batch), weights, self.setup.output) for batch, weights in answer]

    def _as_answer(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the result in the types of the sources."""
        arrays = [converted(each, field.type) for each, field in zip(batch.columns, self.answer_schema, strict=True)]
        return batch_of(arrays, self.answer_schema)

    def _next_position(self, missing: dict[str, int], offset: Any) -> Position:
        return Position(self._epoch + 1, self._offset if offset is None else offset, missing)

    @property
    def _position(self) -> Position:
        return Position(self._epoch, self._offset, self._missing)

    def last(self) -> list[pa.RecordBatch]:
        """Return the output of the last epoch, for consumers that may have missed it because of a crash or an error.

        Without a folder, the output of `populate` is not stored. `result` returns the same rows.
        """
        self.check_open()
        last = self._last if self._store is None else self._store.last()
        return self._written_changes(list(self._flow.answers)) if last is None else last

    def result(self) -> pa.Table:
        """Return the current result as a table, in the order of ``ORDER BY`` if the query has one."""
        self.check_open()
        table = self._flow.answer(self.answer_schema.names)
        if self._order and table.num_rows:
            batch = table.combine_chunks().to_batches()[0]
            table = pa.Table.from_batches([some_rows(batch, sorted_rows(batch, self._order))])
        return pa.Table.from_batches(map(self._as_answer, table.to_batches()), self.answer_schema)

    def table(self, source: str) -> pa.Table:
        """Return the current rows of a source, in no order, with the columns that the query reads.

        Parameters
        ----------
        source : str
            The name of the source.

        Raises
        ------
        SpecError
            If the query does not read a source of this name.
        """
        self.check_open()
        name = self._source(source)
        scan = self._flow.built.scans.get(name)
        if scan is None:
            hint = did_you_mean(name, self._flow.built.scans)
            raise SpecError(f"Source {source!r} is not read by the query. {hint}", name="JN-ARGUMENT-VALUE")
        return self._flow.source(name).rename_columns([column for column, _ in scan.columns])

    def explain(self) -> str:
        """Return the operators as text: for each, its inputs, stored rows, memory and time."""
        return explained(self._flow.built)

    def watch(self) -> AbstractContextManager[Any]:
        """Return a context manager that displays the operators in the terminal while changes are applied."""
        return watched(self._flow.built, lambda: self._epoch)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that rows and groups use."""
        return sum(operator.nbytes for operator in self._flow.built.operators)

    def check_open(self) -> None:
        """Raise an error if the view cannot be used.

        Raises
        ------
        PlanError
            If the view is closed.
        StateError
            If an error interrupted an epoch, so that the state in memory is incomplete.
        """
        if not self._is_whole:
            again = "Populate a new one" if self._store is None else "Close it and open its folder again"
            raise StateError(
                f"The view is incomplete in memory: an error interrupted an epoch. {again} with jn.view(…).",
                name="JN-STATE-INCOMPLETE",
            )
        if self._closed:
            raise PlanError("The view is closed. Open it again with jn.view(…).", name="JN-STATE-CLOSED")

    def close(self) -> None:
        """Release the memory and the folder. The state stays in the folder."""
        if self._closed:
            return
        self._closed = True
        if self._tables is not None:
            self._tables.close(self._position if self._is_whole and self._epoch else None)
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def store_in(folder: Path, setup: ViewSetup, policy: MemoryPolicy) -> Callable[[Mapping[str, pa.Schema]], Store]:
    """Return a function that opens the state of a view in a folder, given the stored columns of each source."""
    return store_opener(folder, "view", policy, _described(setup))


def _described(setup: ViewSetup) -> dict[str, Any]:
    """Return what identifies a view, as JSON data."""
    sources = {
        f"source {name}": ", ".join(
            f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in source.schema
        )
        + (" (static)" if source.static else "")
        for name, source in setup.sources.items()
    }
    return {"query": " ".join(setup.sql.split()), **sources}


def _working(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, working_type(plain_type(field.type))) for field in schema])


def _distinct(names: tuple[str, ...]) -> list[str]:
    """Return the names, with suffixes where needed to make them unique."""
    unique_names: list[str] = []
    for name in names:
        number, own = 1, name
        while own in unique_names:
            own = f"{name}_{number}"
            number += 1
        unique_names.append(own)
    return unique_names
