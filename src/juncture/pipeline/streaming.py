"""Pipelines as streams: one query per sink, with a checkpoint from which it continues."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from juncture.errors import DataError, PlanError
from juncture.pipeline.engine import PhaseProgress
from juncture.pipeline.graph import chosen_sinks, needed_for, steps_in_order
from juncture.pipeline.model import File, SinkSection
from juncture.pipeline.run import RunReport, Written
from juncture.pipeline.sinks import checkpoint_of
from juncture.pipeline.sources import comes

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from juncture.pipeline.spark import SparkEngine

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


def started(
    file: File,
    folder: Path,
    engine: SparkEngine,
    only: Sequence[str],
    downstream_of: Sequence[str],
    poll_ms: int | None,
) -> dict[str, Any]:
    """Start the queries of a pipeline's sinks, or raise without starting any. Without `poll_ms`, they end."""
    chosen = chosen_sinks(file, only, downstream_of)
    for name in chosen:
        reads = needed_for(file, [file.sinks[name].from_])
        if not any(comes(source) for each, source in file.sources.items() if each in reads):
            raise PlanError(
                f"The sink {name!r} reads {file.sinks[name].from_!r}, which has no streaming source. Write order = {{ "
                f'on = "ts" }} or stream = true in the source to stream.',
                name="JN-STREAM-SOURCE",
            )
    needed = needed_for(file, [file.sinks[name].from_ for name in chosen])
    for name in [*file.sources, *steps_in_order(file)]:
        if name in needed:
            engine.make(name)
    return begun({name: (engine, file.sinks[name], checkpoint_of(file, name, folder)) for name in chosen}, poll_ms)


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


def finished(file: File, queries: Mapping[str, Any], shown: PhaseProgress) -> RunReport:
    """Wait for queries to end, and return the report. An interrupt or a failure stops all queries."""
    began = time.monotonic()
    try:
        while any(query.isActive for query in queries.values()):
            time.sleep(_POLL_S)
            batches = sum(1 + (query.lastProgress or {"batchId": -1})["batchId"] for query in queries.values())
            shown.phase(f"{batches} batches", 0, 0)
            for name, query in queries.items():
                if not query.isActive and query.exception() is not None:
                    raise DataError(
                        f"The stream of the sink {name!r} failed: {_first_line(query.exception())}",
                        name="JN-STREAM-FAILED",
                    )
    finally:
        for query in queries.values():
            query.stop()
    for name, query in queries.items():
        if query.exception() is not None:
            raise DataError(
                f"The stream of the sink {name!r} failed: {_first_line(query.exception())}", name="JN-STREAM-FAILED"
            )
    seconds = time.monotonic() - began
    places = {name: file.sinks[name].path or str(file.sinks[name].table) for name in queries}
    return RunReport(tuple(Written(name, places[name], None, seconds) for name in queries), (), seconds)


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0]
