"""A maintained query: operators, the rows that they store, and epochs that are applied completely or not at all.

A join is a query of one operator, and a view one that is planned from SQL. A query may have several named answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa

from juncture.errors import DataError, PlanError, StateError
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches, ChangesByName
from juncture.incremental.changes.identity import RowIdentity
from juncture.incremental.changes.source import Source
from juncture.incremental.dataflow import Batches, Dataflow, one_epoch
from juncture.incremental.operators.arranged import ArrangedOperator
from juncture.incremental.operators.operator import ViewOperator
from juncture.incremental.pieces import combined
from juncture.incremental.plan.nodes import PlanNode
from juncture.incremental.plan.physical import OperatorGraph
from juncture.incremental.population import FirstRows, load_all, load_part
from juncture.incremental.replacement import Replacement
from juncture.incremental.state.merging import difference
from juncture.incremental.state.records import Position
from juncture.incremental.state.tables import StateTables
from juncture.runtime.progress import Report

if TYPE_CHECKING:
    from juncture.incremental.state.store import Store

Answer = list[pa.RecordBatch] | Mapping[str, list[pa.RecordBatch]]
"""What a maintained query returns: the changes of its result, or of several results by name."""

_REPLAYED_ROWS = 1 << 14  # approximate number of changes that are applied at once when a query is opened


@dataclass(frozen=True)
class Query:
    """What a runtime maintains."""

    graph: Callable[[], OperatorGraph]  # returns the operators without rows
    sources: Mapping[str, str]  # what messages call the changes of each source, such as "left changes"
    kind: str  # what messages call the query
    opener: str  # how it is opened, for messages
    unmatched_deletes: Literal["error", "count"] = "error"
    static: Collection[str] = field(default=())  # the sources that never change after the first epoch
    ordered: Mapping[str, Source] = field(default_factory=dict)  # the sources with an order
    identity: Callable[[], RowIdentity] | None = None  # compares the rows of the answer, if equal ones are summed


class Runtime:
    """A maintained query, in memory or in a store. ``write`` returns changes of an answer in the format that users get.

    ``store`` opens the store, given the columns of each source; None for a query in memory.
    """

    def __init__(
        self,
        query: Query,
        write: Callable[[str, ChangeBatches], list[pa.RecordBatch]],
        store: Callable[[Mapping[str, pa.Schema]], Store] | None = None,
    ) -> None:
        self._query = query
        self._write = write
        self.dataflow = Dataflow(query.graph(), query.ordered)
        self._identity = None if query.identity is None else query.identity()
        self.position = Position(0, None, dict.fromkeys(query.sources, 0))
        self._is_closed = False
        self._is_consistent = True
        self._last: Batches | None = {name: [] for name in self.dataflow.graph.answers}
        self.store: Store | None = None
        self.tables: StateTables | None = None
        if store is not None:
            self.store = store(self.dataflow.graph.stored_schemas)
            try:
                self.tables = self._tables_in(self.store)
                self._restore(self.store, self.tables)
            except BaseException:
                self.close()
                raise

    def _tables_in(self, store: Store) -> StateTables:
        return StateTables(store, self.dataflow.tables, lambda: self.dataflow.others_bytes)

    # Opening

    def _restore(self, store: Store, tables: StateTables) -> None:
        """Open the committed rows of a store, and apply the changes since its last checkpoint."""
        position = store.position()
        if position is None:
            return
        tables.open()
        self.dataflow.restored()
        for epochs in combined(store.epochs(), _REPLAYED_ROWS):
            try:
                self._replay(epochs, tables)
            except DataError:
                # Rows of different epochs met. One by one, the epochs succeed as they did before.
                self.dataflow.abandon()
                tables.drop()
                for epoch in epochs:
                    self._replay([epoch], tables)
        self.position = position
        tables.after_epoch(position)

    def _replay(self, epochs: Sequence[ChangesByName], tables: StateTables) -> None:
        """Apply the changes of some epochs again, as one."""
        changes_by_name: dict[str, ChangeBatches] = {}
        for epoch in epochs:
            for source, batches in epoch.items():
                changes_by_name.setdefault(source, []).extend(batches)
        for source, batches in changes_by_name.items():
            delta, (_, unmatched) = self.dataflow.graph.source_rows[source].located(batches)
            if unmatched.any():
                raise StateError(
                    f"The {self._query.kind} is damaged: its log has {self._query.sources[source]} that delete rows "
                    "that do not exist. Restore its folder from a backup, or populate a new one.",
                    name="JN-STATE-DAMAGED",
                )
            changes_by_name[source] = [delta.changes]
        self.dataflow.run(changes_by_name, wants_answers=False)
        self.dataflow.commit()
        tables.after_epoch(None)

    # Epochs

    def apply(self, changes: Mapping[str, Iterable[ChangeBatch]], offset: Any) -> Batches:
        """Apply the changes of one epoch, and return those of each answer.

        After an error, the epoch is not applied. If it is unknown whether the store has the epoch, the query is closed.
        """
        self.check_open()
        position = self.position.next(offset)
        if self.tables is not None:
            self.tables.check()
        self._is_consistent = False
        try:
            changes_by_name: dict[str, ChangeBatches] = {}
            for source, each in changes.items():
                changes_by_name[source] = self._located(source, list(each), position)
            answers = {
                name: self._write(name, self._summed(batches))
                for name, batches in self.dataflow.run(changes_by_name).items()
            }
            if self.store is not None:
                self.store.commit(position, changes_by_name, answers)
            self.position = position
        except BaseException:
            self.dataflow.abandon()
            if self.tables is not None:
                self.tables.drop()
            self._check_consistent()
            raise
        self._last = answers
        try:
            self.dataflow.commit()
            if self.tables is not None:
                self.tables.after_epoch(position)
            self.dataflow.forget(position)
        except BaseException:
            # The epoch is committed. Close, because a retry would apply it twice.
            self.close()
            raise
        self._is_consistent = True
        return answers

    def _summed(self, changes: ChangeBatches) -> ChangeBatches:
        """Return changes of an answer, each row once."""
        # Most epochs of one change change one row, or none.
        if self._identity is None or sum(len(weights) for _, weights in changes) < 2:
            return changes
        return [self._identity.consolidated(ChangeBatch.joined(changes, changes[0].rows.schema))[0]]

    def populate(
        self, streams: Mapping[str, Iterable[ChangeBatch]], offset: Any, report: Report | None = None
    ) -> Batches:
        """Load the first rows as the first epoch, and return all answers. After an error, there are no rows."""
        if self.position.epoch:
            raise PlanError(
                f"populate(…) needs a new {self._query.kind}, but this one has applied {self.position.epoch:,} epochs. "
                "Pass changes to apply(…).",
                name="JN-STATE-NOT-EMPTY",
            )
        self.check_open()
        position = self.position.next(offset)
        self._is_consistent = False
        try:
            first = FirstRows(self.dataflow, streams, self._query.static, partial(self._located, position=position))
            answers = load_all(first, self.tables, self._write, report)
            if self.tables is not None:
                self.tables.checkpoint(position)
            self.position = position
        except BaseException:
            self._reset()
            raise
        self._last = None
        self._is_consistent = True
        return answers

    def _located(self, source: str, batches: ChangeBatches, position: Position) -> ChangeBatches:
        """Return the applicable changes of a source, and count late ones and unmatched deletes in the next position."""
        if source not in self.dataflow.graph.source_rows:
            return []
        batches = self.dataflow.in_time(source, batches, self.position, position, self._query.sources[source])
        with one_epoch(self._query.sources[source]):
            delta, (batch, counts) = self.dataflow.graph.source_rows[source].located(batches)
        if counts.any() and self._query.unmatched_deletes == "error":
            raise DataError(
                f"The {self._query.sources[source]} delete a row that does not exist ({int(counts.sum()):,} in all): "
                f"{self._shown_row(source, batch, int(np.flatnonzero(counts)[0]))}. These changes were not applied. "
                "Correct them, or pass unmatched_deletes='count' to skip and count such deletes.",
                name="JN-DELETE-UNMATCHED",
            )
        position.missing[source] += int(counts.sum())
        return [delta.changes] if len(delta) else []

    def _shown_row(self, source: str, batch: pa.RecordBatch, row: int) -> dict[str, Any]:
        scan = self.dataflow.graph.scans.get(source)
        names = batch.schema.names if scan is None else [column for column, _ in scan.columns]
        return dict(zip(names, batch.slice(row, 1).to_pylist()[0].values(), strict=True))

    def _check_consistent(self) -> None:
        """Close the query after a failed epoch, if the store has that epoch nevertheless."""
        stored = None if self.store is None else self.store.position()
        self._is_consistent = self.store is None or self.position.epoch == (0 if stored is None else stored.epoch)
        if not self._is_consistent:
            self.close()

    def _reset(self) -> None:
        self.dataflow = Dataflow(self._query.graph(), self._query.ordered)
        if self.store is not None and self.tables is not None:
            self.tables.close(None)
            self.store.keep_only([])
            self.tables = self._tables_in(self.store)
        self._check_consistent()

    # Replacement

    def hand_over(
        self,
        new: Runtime,
        replacement: Replacement,
        tables: Mapping[str, Iterable[ChangeBatch]],
        identity: Mapping[str, Any],
        *,
        is_alike: bool,
    ) -> Batches:
        """Hand the rows over to a query without rows, as an epoch, and return the changes of its answers.

        Unless ``is_alike``, the answers have other columns, and all rows are inserts. After an error, this query
        continues. ``tables`` has the rows of sources that are not stored, and ``identity`` is the definition of the new
        query in a store.
        """
        position = self.position.next(None)
        self._is_consistent = False
        try:
            new._take_over(self, replacement)
            part = replacement.part
            streams = {**replacement.streams(), **tables}
            static = [name for name, each in part.inputs.items() if new._is_static(replacement.read[each])]

            def locate(source: str, batches: ChangeBatches) -> ChangeBatches:
                return new._located(source, batches, position) if source in tables else batches

            load_part(FirstRows(Dataflow(part), streams, static, locate), new.tables)
            new.dataflow.restored()
            answers = {}
            for name, answer in new.dataflow.graph.answers.items():
                old = self.dataflow.graph.answers.get(name) if is_alike else None
                answers[name] = new._write(name, _difference(old, answer))
            stored_answers = answers if is_alike else None
            if new.tables is not None:
                assert self.store is not None
                commit = partial(self.store.replace, identity, new.dataflow.graph.stored_schemas, stored_answers)
                new.tables.checkpoint(position, commit)
        except BaseException:
            if self.store is not None and self.tables is not None:
                if new.tables is not None:
                    new.tables.close(None)
                self.tables.drop()
            self._check_consistent()
            raise
        new.position, new._last = position, stored_answers
        return answers

    def _take_over(self, old: Runtime, replacement: Replacement) -> None:
        """Begin with the rows of another query that this one keeps."""
        if old.store is None or old.tables is None:
            for each, twin in replacement.stored_twins.items():
                for name, table in each.tables.items():
                    table.copy(twin.tables[name])
            return
        old.tables.release(old.position)
        self.store, self.tables = old.store, self._tables_in(old.store)
        self.tables.open(
            {
                self.dataflow.table_name(each, name): old.dataflow.table_name(twin, name)
                for each, twin in replacement.stored_twins.items()
                for name in each.tables
            }
        )

    def _is_static(self, node: PlanNode) -> bool:
        return node.sources <= frozenset(self._query.static)

    # Reading

    def last(self) -> Batches | None:
        """Return the changes of each answer in the last epoch; None if it was populated, as these are not stored."""
        self.check_open()
        if self.store is None or not self.position.epoch:
            return self._last
        batches = {name: self.store.last(name) for name in self.dataflow.graph.answers}
        last = {name: each for name, each in batches.items() if each is not None}
        return last if len(last) == len(batches) else None

    def living(self, name: str) -> Iterator[ChangeBatch]:
        """Yield the distinct rows of an answer with their weights, if an operator stores them."""
        return self.dataflow.graph.answers[name].living()

    def rows(self, source: str) -> Iterator[ChangeBatch]:
        """Yield the distinct rows of a source with their weights."""
        return self.dataflow.graph.source_rows[source].arrangement.living()

    def check_open(self) -> None:
        """Raise `PlanError` if the query is closed, or `StateError` if an error interrupted an epoch."""
        kind, opener = self._query.kind, self._query.opener
        if not self._is_consistent:
            again = "Populate a new one" if self.store is None else "Close it and open its folder again"
            raise StateError(
                f"The {kind} is incomplete in memory, because an error interrupted an epoch. {again} with {opener}.",
                name="JN-STATE-INCOMPLETE",
            )
        if self._is_closed:
            raise PlanError(f"The {kind} is closed. Open it again with {opener}.", name="JN-STATE-CLOSED")

    def close(self) -> None:
        """Release the memory and the folder. The state stays in the folder."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.tables is not None:
            self.tables.close(self.position if self._is_consistent and self.position.epoch else None)
        if self.store is not None:
            self.store.close()


def _difference(old: ViewOperator | None, new: ViewOperator) -> ChangeBatches:
    """Return the changes between the rows of two operators. Without rows of the same columns, all are inserts."""
    if old is None or old.schema != new.schema:
        return list(new.living())
    assert isinstance(old, ArrangedOperator) and isinstance(new, ArrangedOperator)
    changes = list(difference(old.arrangement.in_order(), new.arrangement.in_order(), new.identity))
    return [ChangeBatch.joined(changes, new.schema)] if changes else []


class MaintainedQuery(ABC):
    """A join of two tables, a view of several, or the steps of a pipeline, whose results are kept up to date."""

    schema: pa.Schema | Mapping[str, pa.Schema]
    """Columns of the changes of the result, or of several results by name."""

    _runtime: Runtime

    @property
    def epoch(self) -> int:
        """Number of epochs applied."""
        return self._runtime.position.epoch

    @property
    def offset(self) -> Any:
        """The last ``offset`` that was passed to `apply` or `populate`."""
        return self._runtime.position.offset

    @abstractmethod
    def populate(self, *_: Any, **tables: Any) -> Answer:
        """Load the initial tables, and return the result. ``offset`` is their position in the source."""

    @abstractmethod
    def apply(self, *_: Any, **changes: Any) -> Answer:
        """Apply the changes of an epoch up to an ``offset``, and return those of the result."""

    @abstractmethod
    def last(self) -> Answer:
        """Return the changes of the last epoch."""

    @abstractmethod
    def table(self, name: Any, /) -> pa.Table:
        """Return the current rows of a table."""

    def check_open(self) -> None:
        """Raise `PlanError` if it is closed, or `StateError` if an error interrupted an epoch."""
        self._runtime.check_open()

    def close(self) -> None:
        """Release the memory and the folder. The state stays in the folder."""
        self._runtime.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
