"""Joins of two streams in the stateful operator."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.columnar.arrays import array_of, rows_of
from juncture.hosting.buckets import Buckets
from juncture.hosting.hosted_join import HostedJoin, LoadedBatch, State, StoredBatch
from juncture.hosting.progress import observed
from juncture.incremental.join import schema_text
from juncture.kernels.array_types import Ints
from juncture.matching.output import combined, project
from juncture.spark.tasks.packets import Content, Packet
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side
from juncture.streams.checkpoint import Snapshot
from juncture.streams.join import StreamJoin
from juncture.streams.plan import Setup, StreamPlan
from juncture.streams.progress import OBSERVED, Scale
from juncture.streams.state.segment import StateBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FRONTIER_COLUMN = "greatest"
"""The column of a frontier packet: the greatest code of each order in a task."""

_COUNTS = ("rows", "state_rows", "state_bytes", "late_rows")
"""The metrics of each side that are summed over buckets."""

Frontiers = Sequence[Sequence[int | None]]
"""The greatest codes of each task."""


@dataclass(frozen=True)
class HostedStreams(HostedJoin):
    """A join of two streams in the stateful operator."""

    setup: Setup
    version = "streams 3"
    state_type = np.bool_

    @property
    def metrics(self) -> dict[str, str]:
        """New, stored and late rows of each side, the stored bytes, and the position of each side."""
        counts = [f"{side}_{name}" for side in SIDES for name in _COUNTS]
        return dict.fromkeys(["output_rows", *counts], "long") | {f"{side}_passed": "double" for side in SIDES}

    @property
    def plan(self) -> StreamPlan:
        """The plan of the join, cached in each process."""
        return _plan_of(json.dumps(self.setup.to_dict()))

    @property
    def join(self) -> Resolved:
        """The join in the types of stored rows."""
        return self.plan.join

    @property
    def shared(self) -> Sequence[object]:
        """The plan, and the parts of it that operators refer to."""
        return self.plan.shared

    def described(self) -> dict[str, Any]:
        """Return the definition as plain data."""
        schemas = {f"{side}_schema": schema_text(self.setup.schema(side)) for side in SIDES}
        described: dict[str, Any] = json.loads(json.dumps(self.setup.to_dict() | schemas))
        return described

    def columns(self, side: Side) -> Sequence[str]:
        """Return the columns of a side that tasks read."""
        names: list[str] = self.plan.read_schemas[side].names
        return names

    def packets(self, side: Side, tables: Iterable[pa.Table], buckets: Buckets) -> Iterator[Packet]:
        """Yield the rows of a side in one task, and its greatest codes, by which buckets without rows advance."""
        plan, orders = self.plan, self.plan.orders[side]
        greatest: list[list[int]] = [[] for _ in orders]
        batch = None
        for table in tables:
            batch = project(table.to_batches()[0], plan.read_schemas[side])
            for order, found in zip(orders, greatest, strict=True):
                codes, valid = order.codes(batch)
                codes = codes if valid is None else codes[valid]
                if len(codes):
                    found.append(int(codes.max()))
            yield from buckets.packets(side, batch, batch, lambda rows: np.arange(rows.num_rows))
        if batch is not None:
            codes = pa.array([max(found, default=None) for found in greatest], pa.int64())
            yield from buckets.to_all(side, Content.FRONTIER, pa.table({FRONTIER_COLUMN: codes}))

    def bucket(self, progress: Mapping[str, Any] | None) -> StreamBucket:
        """Return a bucket without rows, with the progress of an earlier one."""
        plan = self.plan
        return StreamBucket(plan) if progress is None else StreamBucket.of(plan, Snapshot({}, progress, {}))

    def observed(self, results: DataFrame) -> DataFrame:
        """Return results unchanged, with metrics that Spark reports."""
        token = token_hex(4)
        for side in SIDES:
            order = self.plan.orders[side][0]
            kind, delay = order.node.type, float(Fraction(order.delay) * order.domain.step)
            sign = -1.0 if order.order.descending else 1.0
            metrics = {name: F.sum(f"{side}_{name}") for name in _COUNTS}
            metrics["last"] = F.max(f"{side}_passed") + F.lit(delay)
            results = observed(results, token, side, metrics, Scale(kind.kind, kind.zoned, sign, delay))
        return results.observe(OBSERVED.format(join=token, side="out"), F.sum("output_rows").alias("rows"))


def _state_of(stored: StateBatch) -> State:
    return np.stack(stored.masks())


@lru_cache(maxsize=8)
def _plan_of(setup: str) -> StreamPlan:
    return StreamPlan(Setup.from_dict(json.loads(setup)))


class StreamBucket(StreamJoin):
    """A join of two streams that takes whole micro-batches.

    The rows of a micro-batch have no order, and a bucket has only some of them. So they are late relative to the
    frontier of all buckets before the micro-batch, and no row of the micro-batch makes another one late.
    """

    @property
    def names(self) -> tuple[Side, ...]:
        """The sides."""
        return SIDES

    def step(self, packets: Iterable[Packet]) -> list[pa.RecordBatch]:
        """Apply the packets of a micro-batch: rows of this bucket, and the greatest codes of all rows."""
        self._check_open()
        rows: dict[Side, list[pa.RecordBatch]] = {side: [] for side in SIDES}
        greatest: dict[Side, list[Sequence[int | None]]] = {side: [] for side in SIDES}
        for packet in packets:
            side: Side = "left" if packet.side == "left" else "right"
            if packet.content is Content.FRONTIER:
                greatest[side].append(packet.rows[FRONTIER_COLUMN].to_pylist())
            else:
                rows[side] += packet.rows.to_batches()
        self._new_rows = {side: sum(map(len, rows[side])) for side in SIDES}
        self._late_before = dict(self._late_rows)
        for side in SIDES:
            for batch in combined(rows[side]):
                self._ready += self._take(side, batch, batch, advance=False)
        for side in SIDES:
            self._move(side, greatest[side])
        for side in SIDES:
            self._ready += self._operator.expire(side)
        return self._results()

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics of the last step."""
        metrics: dict[str, float | None] = {}
        for side in SIDES:
            state = self._side_state(side)
            late_rows = state.late_rows - self._late_before[side]
            metrics |= {f"{side}_rows": self._new_rows[side], f"{side}_state_rows": state.rows}
            metrics |= {f"{side}_state_bytes": state.bytes, f"{side}_late_rows": late_rows}
            metrics[f"{side}_passed"] = self._passed(side)
        return metrics

    def _passed(self, side: Side) -> float | None:
        """Return the least future position of a side in its first order, in seconds or as a growing number."""
        frontier = self._frontiers[side]
        least = frontier.least[0] if frontier.orders else None
        return None if least is None else frontier.orders[0].measured(least)

    def progress(self) -> dict[str, Any]:
        """Return the progress as plain data: a snapshot without rows."""
        return self._progress()

    def load(self, side: Side, batch: pa.RecordBatch, state: State) -> LoadedBatch:
        """Store rows from the state store. The second line of the state marks rows that have had a match."""
        self._operator.load(side, batch, state[1].astype(np.bool_))
        return LoadedBatch(batch)

    def batches(self, side: Side) -> Iterator[StoredBatch]:
        """Yield the stored rows of a side. Loaded rows are in the batches that were passed to `load`, if unchanged."""
        for held in self._operator.stores[side].batches():
            yield StoredBatch(held.batch, partial(_state_of, held), held.version)

    def rows(self, stored: StoredBatch, positions: Ints) -> pa.RecordBatch:
        """Return some rows of a batch."""
        assert isinstance(stored.source, pa.RecordBatch)
        return rows_of(stored.source, array_of(positions, pa.int64()))

    def _move(self, side: Side, greatest: Frontiers) -> None:
        frontier = self._frontiers[side]
        for codes in greatest:
            frontier.advance(
                [
                    None if code is None else order.behind_one(code)
                    for order, code in zip(frontier.orders, codes, strict=True)
                ]
            )
