"""Pipelines as Spark streams, of rows or of changes: one query per sink, with a checkpoint from which it continues."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from juncture.errors import DataError, PlanError
from juncture.incremental.changes.change_batch import CHANGE_TYPE, WEIGHT, rows_within
from juncture.joins.changing import plan_changes, view
from juncture.pipeline.changing import change_sink, is_query, with_marks
from juncture.pipeline.engine import PhaseProgress
from juncture.pipeline.expressions import query_of
from juncture.pipeline.graph import changing, needed_for, needed_in_order
from juncture.pipeline.model import Derived, File, JoinStep, SinkSection
from juncture.pipeline.run import RunReport, Written
from juncture.pipeline.sources import comes
from juncture.pipeline.spark import SparkEngine, derived
from juncture.spark.input.sides import FrameSide

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

STREAM_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.shuffle.partitions": "8",
    }
)
"""Spark settings of streams: the state store of joins, and its number of partitions, which is part of the checkpoint
and therefore the same on every machine."""

_POLL_S = 0.2


def started(file: File, engine: SparkEngine, sinks: Sequence[str], poll_ms: int | None) -> dict[str, StreamingQuery]:
    """Start the queries of sinks, or raise without starting any. Without `poll_ms`, they end."""
    for name in sinks:
        reads = needed_for(file, [file.sinks[name].from_])
        if not any(comes(source) for each, source in file.sources.items() if each in reads):
            raise PlanError(
                f"The sink {name!r} reads {file.sinks[name].from_!r}, which has no streaming source. Write order = {{ "
                f'on = "ts" }} or stream = true in the source to stream.',
                name="JN-STREAM-SOURCE",
            )
    for name in needed_in_order(file, [file.sinks[name].from_ for name in sinks]):
        engine.make(name)
    return begun({name: (engine, file.sinks[name], file.checkpoint(name)) for name in sinks}, poll_ms)


def begun(sinks: Mapping[str, tuple[SparkEngine, SinkSection, Path]], poll_ms: int | None) -> dict[str, StreamingQuery]:
    """Start a query for each sink with its engine and checkpoint, or raise without leaving any running."""
    trigger: dict[str, Any] = {"availableNow": True}
    if poll_ms is not None:
        trigger = {"processingTime": f"{poll_ms} milliseconds"}
    queries: dict[str, StreamingQuery] = {}
    try:
        for name, (engine, sink, checkpoint) in sinks.items():
            queries[name] = engine.start(sink, checkpoint, trigger)
    except BaseException as error:
        for query in queries.values():
            query.stop()
        if type(error).__module__.startswith("pyspark."):
            raise PlanError(
                f"The sink {name!r} cannot be streamed by Spark: {str(error).partition(chr(10))[0]}",
                name="JN-STREAM-SINK",
            ) from error
        raise
    return queries


def finished(file: File, queries: Mapping[str, Any], progress: PhaseProgress) -> RunReport:
    """Wait for queries to end, and return the report. An interrupt or a failure stops all queries."""
    began = time.monotonic()
    try:
        while any(query.isActive for query in queries.values()):
            time.sleep(_POLL_S)
            batches = sum(1 + (query.lastProgress or {"batchId": -1})["batchId"] for query in queries.values())
            progress.phase(f"{batches} batches", 0, 0)
            _check_ended({name: query for name, query in queries.items() if not query.isActive})
    finally:
        for query in queries.values():
            query.stop()
    _check_ended(queries)
    seconds = time.monotonic() - began
    locations = {name: file.sinks[name].path or str(file.sinks[name].table) for name in queries}
    return RunReport(tuple(Written(name, locations[name], None, seconds) for name in queries), (), seconds)


def _check_ended(queries: Mapping[str, Any]) -> None:
    for name, query in queries.items():
        error = query.exception()
        if error is not None:
            first_line = str(error).partition("\n")[0]
            raise DataError(f"The stream of the sink {name!r} failed: {first_line}", name="JN-STREAM-FAILED")


class ChangingEngine(SparkEngine):
    """The Spark engine with the changes of the sources and steps of one sink."""

    def __init__(self, file: File, schemas: Any, session: SparkSession, sink: str) -> None:
        super().__init__(file, schemas, session)
        self._live = changing(file)
        self._sink = sink

    def make(self, name: str) -> None:
        """Create the DataFrame of a source or step; of a changing one, a stream of its changes."""
        source = self._file.sources.get(name)
        connector = None if source is None else source.change_connector
        if source is None or connector is None:
            super().make(name)
            return
        self._frames[name] = connector.stream(self._session, source.connected_changes(name), self._sink)

    def _step(self, name: str) -> DataFrame:
        step = self._file.steps[name]
        if name in self._live and is_query(step):
            frames = {each: self.rows_of(each) for each in step.inputs}
            schemas = {each: rows_within(FrameSide.of(frame, each).schema, each)[0] for each, frame in frames.items()}
            sql, names = query_of(step, schemas)
            return view(None, sql, sources={table: frames[each] for table, each in names.items()})
        if isinstance(step, Derived) and name in self._live:
            frame = self.rows_of(step.from_)
            marks = [mark for mark in (WEIGHT, CHANGE_TYPE) if mark in frame.columns]
            return derived(frame, with_marks(step, marks))
        return super()._step(name)

    def _planned_join(self, step: JoinStep) -> Any:
        if not self._live.intersection(step.inputs):
            return super()._planned_join(step)
        return plan_changes(self._side(step.left), self._side(step.right), step.spec)


def started_changes(
    file: File, schemas: Any, session: SparkSession, sinks: Sequence[str], poll_ms: int | None
) -> dict[str, StreamingQuery]:
    """Start the queries that write the changes of sinks. Sinks without changes are skipped."""
    checkpoints = file.state / "changes"
    targets = {}
    for sink in sinks:
        if file.sinks[sink].change_connector is not None:
            engine = ChangingEngine(file, schemas, session, sink)
            for name in needed_in_order(file, [file.sinks[sink].from_]):
                engine.make(name)
            targets[sink] = engine, change_sink(file.sinks[sink]), checkpoints / sink
    return begun(targets, poll_ms)
