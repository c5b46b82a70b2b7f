"""The stateful processor of hosted joins of changes: one bucket per key, with its state in Spark's state store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from juncture.errors import JunctureError, StateError
from juncture.hosting.change_bucket import BucketChanges
from juncture.hosting.stored_runs import StoredRuns
from juncture.hosting.wire import CHECKPOINT, check_buckets, received, sent
from juncture.incremental.join import ChangeSetup, described
from juncture.incremental.population import Weighted
from juncture.incremental.state.records import Position, unweighted
from juncture.planner.statistics import Resources
from juncture.spark.tasks.packets import Content, Packet, error_packet, read_packets
from juncture.spark.tasks.stage import settle
from juncture.spec.schema import SIDES, Side
from juncture.streams.snapshot import to_ipc

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

METRICS = (*(f"{side}_{name}" for side in SIDES for name in ("rows", "state_rows", "unmatched_deletes")), "output_rows")
"""Metrics of a micro-batch: new changes, stored rows and unmatched deletes of each side, and changes of the result."""

RESULT_COLUMNS = ", ".join(["content string, rows binary", *(f"{name} long" for name in METRICS)])

_VERSION = "changes 1"
"""Version of the state; change it with each change of the format."""


class ChangeProcessor(StatefulProcessor):
    """Maintains the result of a join, bucket by bucket."""

    def __init__(self, setup: ChangeSetup, buckets: int, resources: Resources) -> None:
        self._setup = setup
        self._buckets = buckets
        self._resources = resources

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Create the state variables."""
        self._progress = handle.getValueState("progress", "progress string")
        self._tables = handle.getMapState("tables", "name string", "rows binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002 - all that is asked of a bucket is in its state
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Yield the changes of the result for the changes in one bucket."""
        settle()
        try:
            join, stored_runs = self._restored()
            missing = dict(join.position.missing)
            changes = _by_side(read_packets(map(received, rows)))
            answer = join.step(changes)
            self._keep(join, stored_runs)
        except JunctureError as error:
            yield _sent(Content.ERROR, [to_ipc(error_packet(error).rows)], {})
            return
        # Spark cannot convert frames without rows.
        if answer:
            yield _sent(Content.OUTPUT, [to_ipc(pa.Table.from_batches([batch])) for batch in answer], {})
        metrics = {"output_rows": sum(batch.num_rows for batch in answer)}
        for side in SIDES:
            metrics[f"{side}_rows"] = sum(batch.num_rows for batch, _ in changes[side])
            metrics[f"{side}_state_rows"] = getattr(join, side).rows
            metrics[f"{side}_unmatched_deletes"] = join.position.missing[side] - missing[side]
        yield _sent(Content.EMPTY, [None], metrics)

    def close(self) -> None:
        """Do nothing: all state is in the state store."""

    def _restored(self) -> tuple[BucketChanges, StoredRuns]:
        """Return the join after the last micro-batch, and its rows in the state store."""
        join = BucketChanges(self._setup, self._resources)
        stored = self._progress.get()
        if stored is None:
            return join, StoredRuns(self._tables, {})
        saved = json.loads(stored[0])
        if saved.get("version") != _VERSION:
            raise StateError(
                f"The state in {CHECKPOINT} belongs to a join of append-only streams, or was written by another "
                "version of Juncture. Start the query as before, or with a new checkpoint and output.",
                name="JN-CHECKPOINT-MISMATCH",
            )
        for name, value in described(self._setup).items():
            if saved["join"].get(name) != value:
                raise StateError(
                    f"The state in {CHECKPOINT} belongs to another join: its {name} is {saved['join'].get(name)}, but "
                    f"this join has {value}. Start this join with a new checkpoint and output.",
                    name="JN-CHECKPOINT-MISMATCH",
                )
        check_buckets(saved["buckets"], self._buckets)
        join.position = Position(saved["epoch"], None, saved["missing"])
        stored_runs = StoredRuns(self._tables, saved["rows"])
        stored_runs.read(join)
        return join, stored_runs

    def _keep(self, join: BucketChanges, stored_runs: StoredRuns) -> None:
        """Write the state of the join."""
        saved = {
            "version": _VERSION,
            "join": described(self._setup),
            "buckets": self._buckets,
            "epoch": join.position.epoch,
            "missing": dict(join.position.missing),
            "rows": stored_runs.write(join),
        }
        self._progress.update((json.dumps(saved),))


def _by_side(packets: Iterable[Packet]) -> dict[Side, list[Weighted]]:
    """Return the changes of each side."""
    changes: dict[Side, list[Weighted]] = {side: [] for side in SIDES}
    for packet in packets:
        side: Side = "left" if packet.side == "left" else "right"
        changes[side] += [unweighted(batch) for batch in packet.rows.to_batches()]
    return changes


def _sent(content: Content, cells: Sequence[pa.Buffer | None], metrics: dict[str, int]) -> pd.DataFrame:
    """Return packets as a pandas DataFrame."""
    return sent(content, cells, {name: metrics.get(name, 0) for name in METRICS})
