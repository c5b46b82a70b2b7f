"""An answer that follows its tables: changes go from a source through what keeps the answer to a sink, epoch by epoch.

Each epoch takes three steps, and the process may die between any two of them:

1. The answer is brought up to date. State, offset and outgoing rows are written at once.
2. The sink takes the outgoing rows, with the number of the epoch.
3. The source learns that it need not tell the epoch again.

When it starts again, the state says which epoch is the last, and where the source goes on; a sink that lacks that epoch
gets it from the state. So every change of the source is taken once, and every change of the answer given once.

After an error the follower starts again in the same way, in place, with the next call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of
from juncture.errors import PlanError, SpecError, StateError, did_you_mean
from juncture.incremental.change_batch import WEIGHT
from juncture.incremental.sinks.sink import Sink
from juncture.incremental.sources.source import Read, Source, SourceEpoch

_STATE, _SOURCE = "state", "source"


class MaintainedQuery(Protocol):
    """What keeps an answer up to date: a join of two tables, or a view of several."""

    schema: pa.Schema

    def check_open(self) -> None:
        """Raise an error if it is closed, or if an error has left it with less than whole epochs."""

    @property
    def epoch(self) -> int:
        """How many epochs it has taken."""

    @property
    def offset(self) -> Any:
        """What it was given as ``offset`` last."""

    def populate(self, *, offset: Any, **tables: Any) -> list[pa.RecordBatch]:
        """Take the tables as they are at first, and return the answer."""

    def apply(self, *, offset: Any, **changes: Any) -> list[pa.RecordBatch]:
        """Take the changes of an epoch, and return those of the answer."""

    def last(self) -> list[pa.RecordBatch]:
        """Return what the last epoch gave, unless it was the first: then `result` is."""

    def result(self) -> pa.Table:
        """Return the answer as it is."""

    def table(self, name: Any, /) -> pa.Table:
        """Return the rows of a table as they are."""


@dataclass(frozen=True)
class FollowProgress:
    """What one epoch was.

    Attributes
    ----------
    epoch
        Its number.
    transactions
        How many transactions of the source it had.
    rows_in, rows_out
        How many changes came from the source, and how many went to the sink.
    seconds
        How long it took, from the first change to the sink.
    offset
        Where the source is.
    """

    epoch: int
    transactions: int
    rows_in: int
    rows_out: int
    seconds: float
    offset: Any


class Follower:
    """An answer that follows its tables. It is made by `juncture.follow`."""

    def __init__(
        self,
        query: MaintainedQuery,
        source: Source,
        sink: Sink,
        tables: Mapping[str, str],
        epoch_rows: int,
        on_epoch: Callable[[FollowProgress], object] | None,
        on_read: Read | None,
    ) -> None:
        if WEIGHT not in query.schema.names:
            raise SpecError(
                f"Column {WEIGHT!r} is missing from the changes of the result. Pass output='weight' to jn.changes(…).",
                name="JN-FOLLOW-OUTPUT",
            )
        for name in tables.values():
            if name not in source.tables:
                raise SpecError(
                    f"tables= has {name!r}, which is not a table of the source. {did_you_mean(name, source.tables)}",
                    name="JN-ARGUMENT-VALUE",
                )
        self._query, self._source, self._sink = query, source, sink
        self._names = {there: here for here, there in tables.items()}
        self._epoch_rows = epoch_rows
        self._on_epoch = on_epoch or (lambda _: None)
        self._on_read = on_read or (lambda _table, _rows: None)
        self._stopped = threading.Event()
        self._is_closed = False
        self._state: str | None = None

    def start(self) -> None:
        """Populate what has no rows yet, or go on where it was left; `run` and `step` do so first, and after an error.

        Raises
        ------
        PlanError
            If it is closed.
        StateError
            If state, source and sink do not belong together, or an error has left the state with less than whole
            epochs, so that it has to be opened again.
        """
        if self._is_closed:
            raise PlanError("The follower is closed. Create another one with jn.follow(…).", name="JN-STATE-CLOSED")
        if self._state is not None:
            return
        self._query.check_open()
        if self._query.epoch:
            state, offset = self._left()
            self._catch_up(self._sink.open(self._query.schema, state))
            self._source.start(offset)
        else:
            state = uuid4().hex
            self._sink.open(self._query.schema, state)
            self._populate(state)
        self._state = state

    def _left(self) -> tuple[str, Any]:
        """Return which state it is, and where its source is."""
        offset = self._query.offset
        if not isinstance(offset, dict) or set(offset) != {_STATE, _SOURCE}:
            raise StateError(
                f"The state's offset {offset!r} was not written by jn.follow(…), so its position in the source is "
                "unknown. Follow with a new state.",
                name="JN-STATE-OFFSET",
            )
        return offset[_STATE], offset[_SOURCE]

    def _populate(self, state: str) -> None:
        began_s = time.monotonic()
        snapshot = self._source.snapshot(self._on_read)
        tables = self._named(snapshot.tables)
        answer = self._query.populate(offset={_STATE: state, _SOURCE: snapshot.offset}, **tables)
        rows = sum(table.num_rows for table in tables.values())
        self._give(answer)
        self._source.start(snapshot.offset)
        self._report(SourceEpoch({}, snapshot.offset, 0, rows), answer, began_s)

    def _named(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Return tables by what the answer calls them, those that it knows."""
        return {self._names[name]: table for name, table in tables.items() if name in self._names}

    def _catch_up(self, taken: int | None) -> None:
        """Give the sink the last epoch, if it lacks it."""
        epoch = self._query.epoch
        if taken == epoch:
            return
        if taken is not None and taken != epoch - 1:
            raise StateError(
                f"The sink is at epoch {taken:,}, but the state is at epoch {epoch:,}. One of them is an older copy. "
                "Pass a new state, and another sink or replace=True.",
                name="JN-SINK-EPOCH",
            )
        self._give(self._query.last() if epoch > 1 else _as_changes(self._query.result(), self._query.schema))

    def _give(self, answer: Sequence[pa.RecordBatch]) -> None:
        self._sink.write(self._query.epoch, answer)

    def step(self, timeout_s: float = 1.0) -> FollowProgress | None:
        """Take one epoch; return None if nothing has changed within the time.

        After any error it may be called again. It then goes back to the last epoch of the state, gives it to the sink
        if the sink lacks it, and reads the source from there: nothing is lost, and nothing comes twice.

        Raises
        ------
        PlanError
            If it is closed.
        SchemaError, DataError, StateError
            If the source has changed its columns, a change cannot be taken, or something that is needed is lost.
        """
        self.start()
        try:
            return self._step(timeout_s)
        except BaseException:
            # Source and state may be epochs apart, and the sink may lack one: the next call starts from the state.
            self._state = None
            raise

    def _step(self, timeout_s: float) -> FollowProgress | None:
        epoch = self._source.next(self._epoch_rows, timeout_s)
        if epoch is None:
            return None
        began_s = time.monotonic()
        offset = {_STATE: self._state, _SOURCE: epoch.offset}
        answer = self._query.apply(offset=offset, **self._named(self._changes(epoch)))
        self._give(answer)
        self._source.acknowledge(epoch.offset)
        return self._report(epoch, answer, began_s)

    def _changes(self, epoch: SourceEpoch) -> dict[str, list[pa.RecordBatch]]:
        """Return the changes of an epoch, with the rows that truncated tables had."""
        changes = {name: list(batches) for name, batches in epoch.changes.items()}
        for name in epoch.truncated:
            if name in self._names:
                rows = _widened(self._query.table(self._names[name]), self._source.tables[name])
                changes[name] = [*_weighted(rows, -1), *changes.get(name, [])]
        return changes

    def _report(self, epoch: SourceEpoch, answer: Sequence[pa.RecordBatch], began_s: float) -> FollowProgress:
        rows_out = sum(batch.num_rows for batch in answer)
        took_s = time.monotonic() - began_s
        progress = FollowProgress(self._query.epoch, epoch.transactions, epoch.rows, rows_out, took_s, epoch.offset)
        self._on_epoch(progress)
        return progress

    def run(self, *, seconds: float | None = None) -> None:
        """Follow until `stop` is called, or for some time.

        Parameters
        ----------
        seconds
            How long, once it has started; None for no end.

        Raises
        ------
        PlanError, SchemaError, DataError, StateError
            As `step` does.
        """
        self.start()
        until = None if seconds is None else time.monotonic() + seconds
        while not self._stopped.is_set():
            left_s = 0.2 if until is None else min(0.2, until - time.monotonic())
            if left_s <= 0:
                return
            self.step(left_s)
        self._stopped.clear()

    def stop(self) -> None:
        """Have `run` return after the epoch that it is at; from any thread, a signal, or ``on_epoch``."""
        self._stopped.set()

    def close(self) -> None:
        """Close the source and the sink. What keeps the answer stays open: it is not the follower's."""
        self._is_closed = True
        self._source.close()
        self._sink.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows as the source has them. Columns that the answer does not look at are not held, and are null."""
    held = {name.lower(): place for place, name in enumerate(table.column_names)}
    columns = [
        table.column(held[field.name.lower()]).cast(field.type)
        if field.name.lower() in held
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _weighted(table: pa.Table, weight: int) -> list[pa.RecordBatch]:
    weights = array_of(np.full(table.num_rows, weight, np.int64), pa.int64())
    batches: list[pa.RecordBatch] = table.append_column(WEIGHT, weights).to_batches()
    return batches


def _as_changes(table: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return all rows of an answer as they came at first."""
    return [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in _weighted(table, 1) if batch.num_rows]
