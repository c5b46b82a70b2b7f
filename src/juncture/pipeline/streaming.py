"""Pipelines as streams: a query for each sink, with a checkpoint, from which it goes on."""

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
"""What Spark is told for streams: where joins of two keep their state, and how many tasks do. The latter belongs to
the checkpoint, so that it is the same on every machine."""

_POLL_S = 0.2


def started(
    file: File, folder: Path, engine: SparkEngine, only: Sequence[str], downstream_of: Sequence[str], every: str | None
) -> dict[str, Any]:
    """Start the queries of a pipeline's sinks.

    Parameters
    ----------
    file, folder
        The pipeline, and where its file is.
    engine
        What runs it.
    only, downstream_of
        What is to be done, as `chosen_sinks` takes them.
    every
        How often to look for rows; None to do what is there.

    Raises
    ------
    PlanError
        If a sink has no source that is a stream, or Spark has no stream of it. None runs then.
    """
    chosen = chosen_sinks(file, only, downstream_of)
    for name in chosen:
        reads = needed_for(file, [file.sinks[name].from_])
        if not any(comes(source) for each, source in file.sources.items() if each in reads):
            raise PlanError(
                f"The sink {name!r} reads {file.sinks[name].from_!r}, and none of its sources is a stream. Say "
                'order = { on = "ts" } or stream = true in the source whose rows come.'
            )
    needed = needed_for(file, [file.sinks[name].from_ for name in chosen])
    for name in [*file.sources, *steps_in_order(file)]:
        if name in needed:
            engine.make(name)
    return begun({name: (engine, file.sinks[name], checkpoint_of(file, name, folder)) for name in chosen}, every)


def begun(sinks: Mapping[str, tuple[SparkEngine, SinkSection, Path]], every: str | None) -> dict[str, StreamingQuery]:
    """Start a query for each sink, with its checkpoint.

    Parameters
    ----------
    sinks
        The sinks by name, with what runs each, which has made what it reads, and where its checkpoint is.
    every
        How often to look for rows; None to do what is there.

    Raises
    ------
    PlanError
        If Spark has no stream of a sink. None runs then.
    """
    trigger: dict[str, Any] = {"availableNow": True} if every is None else {"processingTime": every}
    queries: dict[str, StreamingQuery] = {}
    try:
        for name, (engine, sink, checkpoint) in sinks.items():
            queries[name] = engine.start(sink, checkpoint, trigger)
    except BaseException as error:
        for query in queries.values():
            query.stop()
        if type(error).__module__.startswith("pyspark."):
            raise PlanError(f"Spark has no stream of the sink {name!r}: {str(error).partition(chr(10))[0]}") from error
        raise
    return queries


def finished(file: File, queries: Mapping[str, Any], shown: PhaseProgress) -> RunReport:
    """Wait until queries end, and return what they did; an interrupt ends them after the rows under way.

    Raises
    ------
    DataError
        If one of them fails. The others are ended.
    """
    began = time.monotonic()
    try:
        while any(query.isActive for query in queries.values()):
            time.sleep(_POLL_S)
            batches = sum(1 + (query.lastProgress or {"batchId": -1})["batchId"] for query in queries.values())
            shown.phase(f"{batches} batches", 0, 0)
            for name, query in queries.items():
                if not query.isActive and query.exception() is not None:
                    raise DataError(f"The stream of the sink {name!r} ended: {_first_line(query.exception())}")
    finally:
        for query in queries.values():
            query.stop()
    for name, query in queries.items():
        if query.exception() is not None:
            raise DataError(f"The stream of the sink {name!r} ended: {_first_line(query.exception())}")
    seconds = time.monotonic() - began
    places = {name: file.sinks[name].path or str(file.sinks[name].table) for name in queries}
    return RunReport(tuple(Written(name, places[name], None, seconds) for name in queries), (), seconds)


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0]
