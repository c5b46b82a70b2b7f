"""The stateful processor of hosted stream joins: one bucket per key, with its state in Spark's state store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from juncture.errors import JunctureError, StateError
from juncture.hosting.stored_rows import StoredRows
from juncture.hosting.stream_bucket import BucketJoin
from juncture.hosting.stream_scatter import GREATEST
from juncture.hosting.wire import CHECKPOINT, check_buckets, received, sent
from juncture.spark.tasks.packets import Content, Packet, error_packet, read_packets
from juncture.spark.tasks.stage import settle
from juncture.spec.schema import SIDES, Side
from juncture.streams.checkpoint import check_same
from juncture.streams.plan import StreamPlan
from juncture.streams.setup import Setup
from juncture.streams.snapshot import Snapshot, to_ipc

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

METRICS = tuple(f"{side}_{name}" for side in SIDES for name in ("rows", "state_rows", "state_bytes", "late_rows"))
"""Metrics of a bucket in a micro-batch: for each side the number of new, stored and late rows, and the stored bytes."""

RESULT_COLUMNS = ", ".join(
    [
        "content string, rows binary, output_rows long",
        *(f"{name} long" for name in METRICS),
        *(f"{side}_passed double" for side in SIDES),
    ]
)
"""Packets, metrics, the number of emitted rows, and the position of each side."""

_VERSION = 2
"""Version of the state; increase it with each change of the format."""


class JoinProcessor(StatefulProcessor):
    """Joins the rows of buckets."""

    def __init__(self, setup: Setup, buckets: int) -> None:
        self._setup = setup
        self._buckets = buckets

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
        """Yield the results of the packets of one bucket."""
        settle()
        try:
            join, rows_held = self._restored()
            late = [each.late_rows for each in (join.state.left, join.state.right)]
            rows_by_side, greatest = _sorted(read_packets(map(received, rows)))
            batches = join.step(rows_by_side, greatest)
            self._keep(join, rows_held)
        except JunctureError as error:
            yield _frame(Content.ERROR, [to_ipc(error_packet(error).rows)])
            return
        # Spark cannot convert frames without rows.
        if batches:
            yield _frame(Content.OUTPUT, [to_ipc(pa.Table.from_batches([batch])) for batch in batches])
        metrics: dict[str, float | None] = {"output_rows": sum(batch.num_rows for batch in batches)}
        metrics |= {f"{side}_passed": join.passed(side) for side in SIDES}
        for side, before in zip(SIDES, late, strict=True):
            state = getattr(join.state, side)
            values = sum(map(len, rows_by_side[side])), state.rows, state.bytes, state.late_rows - before
            metrics.update(zip([name for name in METRICS if name.startswith(side)], values, strict=True))
        yield _frame(Content.EMPTY, [None], metrics)

    def close(self) -> None:
        """Do nothing: all state is in the state store."""

    def _restored(self) -> tuple[BucketJoin, StoredRows]:
        """Return the join after the last micro-batch, and its rows in the state store."""
        plan = _plan_of(json.dumps(self._setup.to_dict()))
        stored = self._progress.get()
        if stored is None:
            return BucketJoin(plan), StoredRows(self._tables, {})
        saved = json.loads(stored[0])
        if saved.get("version") != _VERSION:
            raise StateError(
                f"The state in {CHECKPOINT} was written by another version of Juncture. Start the query with that "
                "version, or with a new checkpoint and output.",
                name="JN-STATE-VERSION",
            )
        check_buckets(saved["buckets"], self._buckets)
        snapshot = Snapshot(saved["setup"], saved["progress"], {})
        check_same(CHECKPOINT, snapshot, self._setup)
        join, rows = BucketJoin.of(plan, snapshot), StoredRows(self._tables, saved["rows"])
        rows.read(join)
        return join, rows

    def _keep(self, join: BucketJoin, rows: StoredRows) -> None:
        """Write the state of the join."""
        saved = {
            "version": _VERSION,
            "setup": self._setup.to_dict(),
            "progress": join.progress(),
            "rows": rows.write(join),
            "buckets": self._buckets,
        }
        self._progress.update((json.dumps(saved),))


@lru_cache(maxsize=8)
def _plan_of(setup: str) -> StreamPlan:
    """Return the plan of a join, cached in each worker."""
    return StreamPlan(Setup.from_dict(json.loads(setup)))


def _sorted(
    packets: Iterable[Packet],
) -> tuple[dict[Side, list[pa.RecordBatch]], dict[Side, list[list[int | None]]]]:
    """Return the rows of each side, and its greatest codes."""
    rows: dict[Side, list[pa.RecordBatch]] = {side: [] for side in SIDES}
    greatest: dict[Side, list[list[int | None]]] = {side: [] for side in SIDES}
    for packet in packets:
        side: Side = "left" if packet.side == "left" else "right"
        if packet.content is Content.FRONTIER:
            greatest[side].append(packet.rows[GREATEST].to_pylist())
        else:
            rows[side] += packet.rows.to_batches()
    return rows, greatest


def _frame(
    content: Content, cells: Sequence[pa.Buffer | None], metrics: Mapping[str, float | None] | None = None
) -> pd.DataFrame:
    """Return packets as a pandas DataFrame."""
    values_by_name = {name: (metrics or {}).get(name, 0) for name in ("output_rows", *METRICS)}
    values_by_name |= {f"{side}_passed": (metrics or {}).get(f"{side}_passed") for side in SIDES}
    return sent(content, cells, values_by_name)
