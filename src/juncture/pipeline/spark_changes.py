"""Pipelines that are maintained on Spark: changing tables are streams of rows with weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from juncture.incremental.changes.change_batch import CHANGE_TYPE, WEIGHT
from juncture.joins.changing import plan_changes
from juncture.pipeline.changing import change_sink, changing, with_marks
from juncture.pipeline.graph import chosen_sinks, needed_for, steps_in_order
from juncture.pipeline.model import Derived, File, JoinStep
from juncture.pipeline.spark import SparkEngine, derived
from juncture.pipeline.streaming import begun


class ChangingEngine(SparkEngine):
    """The Spark engine with the changes of the sources and steps of one sink."""

    def __init__(self, file: File, folder: Path, schemas: Any, session: SparkSession, sink: str) -> None:
        super().__init__(file, folder, schemas, session)
        self._live = changing(file)
        self._sink = sink

    def make(self, name: str) -> None:
        """Create the DataFrame of a source or step; of a changing one, a stream of its changes."""
        source = self._file.sources.get(name)
        connector = None if source is None else source.change_connector
        if source is None or connector is None:
            super().make(name)
            return
        self._frames[name] = connector.stream(self._session, source.connected(name, self._folder), self._sink)

    def _step(self, name: str) -> DataFrame:
        step = self._file.steps[name]
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
    file: File,
    folder: Path,
    schemas: Any,
    session: SparkSession,
    only: Sequence[str],
    downstream_of: Sequence[str],
    poll_ms: int | None,
) -> dict[str, Any]:
    """Start the queries that write the changes of a pipeline's sinks. Sinks without changes are skipped."""
    kept = folder / file.pipeline.state / "changes"
    sinks = {}
    for sink in chosen_sinks(file, only, downstream_of):
        if file.sinks[sink].change_connector is not None:
            engine = ChangingEngine(file, folder, schemas, session, sink)
            needed = needed_for(file, [file.sinks[sink].from_])
            for name in [*file.sources, *steps_in_order(file)]:
                if name in needed:
                    engine.make(name)
            sinks[sink] = engine, change_sink(file.sinks[sink]), kept / sink
    return begun(sinks, poll_ms)
