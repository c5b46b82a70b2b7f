"""Applies the changes of a source to a maintained query, and its results to a sink, epoch by epoch.

Each epoch takes three steps, and the process may stop between any two of them:

1. The query applies the changes. State, offset and outgoing rows are committed at once.
2. The sink commits the outgoing rows with the number of the epoch.
3. The source may discard the log of the epoch.

After a restart, the state determines the last epoch and the offset of the source. A sink that lacks the last epoch gets
it from the state. So each change is applied exactly once, from the source to the sink.

After an error, the next call of the follower recovers in the same way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of
from juncture.errors import PlanError, SpecError, StateError, did_you_mean
from juncture.incremental.changes.change_batch import WEIGHT
from juncture.incremental.runtime import MaintainedQuery
from juncture.incremental.sinks.sink import Sink
from juncture.incremental.sources.source import Read, Source, SourceEpoch

SINK = "sink"
"""The name of the only sink of a query."""

_STATE, _SOURCE = "state", "source"


@dataclass(frozen=True)
class FollowProgress:
    """Progress of one epoch.

    Attributes
    ----------
    epoch, transactions
        Number of the epoch, and of its transactions in the source.
    input_rows, output_rows
        Number of changes from the source, and to the sinks.
    duration_s
        Time from the first change to the commit of the sink.
    offset
        Position in the source after the epoch, as plain data.
    sink_rows
        Number of changes to each sink of a pipeline.
    """

    epoch: int
    transactions: int
    input_rows: int
    output_rows: int
    duration_s: float
    offset: Any
    sink_rows: Mapping[str, int] = field(default_factory=dict)


class Follower:
    """Applies the changes of a source to a sink, created by `juncture.follow`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> temporary = TemporaryDirectory()
    >>> folder, received = Path(temporary.name), []
    >>> schemas = {"left": pa.schema({"id": pa.int64()}), "right": pa.schema({"id": pa.int64()})}
    >>> for name, schema in schemas.items():
    ...     (folder / name).mkdir()
    ...     pq.write_table(pa.table({"id": [1]}, schema), folder / name / "1.parquet")
    >>> join = jn.changes(schemas["left"], schemas["right"], jn.Equi(on="id"))
    >>> sink = lambda epoch, changes: received.extend(row for batch in changes for row in batch.to_pylist())
    >>> with jn.follow(join, jn.change_files(folder, schemas), sink) as follower:
    ...     progress = follower.step()
    >>> progress.input_rows, received
    (2, [{'id': 1, '_weight': 1}])
    >>> temporary.cleanup()
    """

    def __init__(
        self,
        query: MaintainedQuery,
        source: Source,
        sinks: Mapping[str, Sink],
        tables: Mapping[str, str],
        epoch_rows: int,
        on_epoch: Callable[[FollowProgress], object] | None,
        on_read: Read | None,
    ) -> None:
        if any(WEIGHT not in schema.names for schema in _by_sink(query.schema).values()):
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
        self._query, self._source, self._sinks = query, source, sinks
        self._names = {there: here for here, there in tables.items()}
        self._epoch_rows = epoch_rows
        self._on_epoch = on_epoch or (lambda _: None)
        self._on_read = on_read or (lambda _table, _rows: None)
        self._stopped = threading.Event()
        self._is_closed = False
        self._state: str | None = None
        self._epoch = 0

    def start(self) -> None:
        """Populate an empty state, or resume a populated one.

        `run` and `step` do this first, and again after an error, or after the query of a view was replaced.

        Raises
        ------
        PlanError
            If the follower is closed.
        StateError
            If state, source and sink do not belong together, or an error has interrupted an epoch, so that the state
            has to be opened again.
        """
        if self._is_closed:
            raise PlanError("The follower is closed. Create another one with jn.follow(…).", name="JN-STATE-CLOSED")
        if self._state is not None and self._epoch == self._query.epoch:
            return
        self._query.check_open()
        if self._query.epoch:
            state, offset = self._saved_position()
            self._catch_up(self._opened(state))
            self._source.start(offset)
        else:
            state = uuid4().hex
            self._opened(state)
            self._populate(state)
        self._state, self._epoch = state, self._query.epoch

    def _opened(self, state: str) -> dict[str, int | None]:
        schemas = _by_sink(self._query.schema)
        return {name: sink.open(schemas[name], state) for name, sink in self._sinks.items()}

    def _saved_position(self) -> tuple[str, Any]:
        offset = self._query.offset
        if not isinstance(offset, dict) or set(offset) != {_STATE, _SOURCE}:
            raise StateError(
                f"The state's offset {offset!r} was not written by jn.follow(…), so the position of the state in "
                "the source is unknown. Start again with a new state folder.",
                name="JN-STATE-OFFSET",
            )
        return offset[_STATE], offset[_SOURCE]

    def _populate(self, state: str) -> None:
        began_s = time.monotonic()
        snapshot = self._source.snapshot(self._on_read)
        tables = self._named(snapshot.tables)
        answer = _by_sink(self._query.populate(offset={_STATE: state, _SOURCE: snapshot.offset}, **tables))
        rows = sum(table.num_rows for table in tables.values())
        self._write(answer)
        self._source.start(snapshot.offset)
        self._report(SourceEpoch({}, snapshot.offset, 0, rows), answer, began_s)

    def _named(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tables that the query has, by its own names."""
        return {self._names[name]: table for name, table in tables.items() if name in self._names}

    def _catch_up(self, epochs: Mapping[str, int | None]) -> None:
        epoch = self._query.epoch
        for sink_epoch in epochs.values():
            if sink_epoch not in (None, epoch - 1, epoch):
                raise StateError(
                    f"The sink is at epoch {sink_epoch:,}, but the state is at epoch {epoch:,}. One of them is an "
                    "older copy. Pass a new state folder, and another sink or replace=True.",
                    name="JN-SINK-EPOCH",
                )
        behind = [name for name, sink_epoch in epochs.items() if sink_epoch != epoch]
        if behind:
            answer = _by_sink(self._query.last())
            self._write({name: answer[name] for name in behind})

    def _write(self, answer: Mapping[str, list[pa.RecordBatch]]) -> None:
        for name, changes in answer.items():
            self._sinks[name].write(self._query.epoch, changes)
        self._epoch = self._query.epoch

    def step(self, timeout_s: float = 1.0) -> FollowProgress | None:
        """Apply one epoch.

        After an error, call it again. It resumes from the last epoch in the state, writes that epoch to the sink if it
        is missing there, and reads the source from there. No change is lost or applied twice.

        Parameters
        ----------
        timeout_s
            How long to wait for changes, in seconds.

        Returns
        -------
        FollowProgress or None
            None if nothing has changed in that time.

        Raises
        ------
        PlanError
            If the follower is closed.
        SchemaError, DataError, StateError
            If the columns of the source changed, a change cannot be applied, or the log or the state is lost.
        """
        self.start()
        try:
            return self._step(timeout_s)
        except BaseException:
            # Source and state may be epochs apart, and the sink may miss one: the next call resumes from the state.
            self._state = None
            raise

    def _step(self, timeout_s: float) -> FollowProgress | None:
        epoch = self._source.next(self._epoch_rows, timeout_s)
        if epoch is None:
            return None
        began_s = time.monotonic()
        offset = {_STATE: self._state, _SOURCE: epoch.offset}
        answer = _by_sink(self._query.apply(offset=offset, **self._named(self._changes(epoch))))
        self._write(answer)
        self._source.acknowledge(epoch.offset)
        return self._report(epoch, answer, began_s)

    def _changes(self, epoch: SourceEpoch) -> dict[str, list[pa.RecordBatch]]:
        """Return the changes of an epoch, with deletes of all rows of truncated tables."""
        changes = {name: list(batches) for name, batches in epoch.changes.items()}
        for name in epoch.truncated:
            if name in self._names:
                rows = _widened(self._query.table(self._names[name]), self._source.tables[name])
                changes[name] = [*_weighted(rows, -1), *changes.get(name, [])]
        return changes

    def _report(self, epoch: SourceEpoch, answer: Mapping[str, list[pa.RecordBatch]], began_s: float) -> FollowProgress:
        sink_rows = {name: sum(batch.num_rows for batch in changes) for name, changes in answer.items()}
        progress = FollowProgress(
            self._query.epoch,
            epoch.transactions,
            epoch.rows,
            sum(sink_rows.values()),
            time.monotonic() - began_s,
            epoch.offset,
            sink_rows,
        )
        self._on_epoch(progress)
        return progress

    def run(self, *, timeout_s: float | None = None) -> None:
        """Follow until `stop` is called, or for ``timeout_s`` seconds after the start. Raises the errors of `step`."""
        self.start()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._stopped.is_set():
            left_s = 0.2 if until is None else min(0.2, until - time.monotonic())
            if left_s <= 0:
                return
            self.step(left_s)
        self._stopped.clear()

    def stop(self) -> None:
        """Let `run` return after the current epoch. Call it from any thread, a signal handler, or ``on_epoch``."""
        self._stopped.set()

    def close(self) -> None:
        """Close the source and the sinks. The query stays open."""
        self._is_closed = True
        self._source.close()
        for sink in self._sinks.values():
            sink.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the columns of the source. Columns that the query does not store are null."""
    positions = {name.lower(): position for position, name in enumerate(table.column_names)}
    columns = [
        table.column(positions[field.name.lower()]).cast(field.type)
        if field.name.lower() in positions
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _weighted(table: pa.Table, weight: int) -> list[pa.RecordBatch]:
    weights = array_of(np.full(table.num_rows, weight, np.int64), pa.int64())
    batches: list[pa.RecordBatch] = table.append_column(WEIGHT, weights).to_batches()
    return batches


def _by_sink(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {SINK: value}
