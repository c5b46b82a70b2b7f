"""Joins of two streams of changes in the stateful operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.hosting.buckets import Buckets
from juncture.hosting.hosted_join import HostedJoin, LoadedBatch, State, StoredBatch
from juncture.incremental.changes.change_batch import ChangeBatch, read_changes, rows_within
from juncture.incremental.changes.identity import identity_of
from juncture.incremental.dataflow import ANSWER
from juncture.incremental.join import ChangeJoin, ChangeSetup, described
from juncture.incremental.state.records import Position, unweighted, weighted
from juncture.incremental.state.run import Run
from juncture.kernels.array_types import Ints
from juncture.matching.output import project, stored_join, stored_schema
from juncture.planner.statistics import Resources
from juncture.spark.tasks.packets import Packet
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBSERVED = "juncture_changes_{join}"
"""Name of the metrics of a join in ``observedMetrics``."""


@dataclass(frozen=True)
class HostedChanges(HostedJoin):
    """A join of two streams of changes in the stateful operator."""

    setup: ChangeSetup
    resources: Resources
    version = "changes 2"
    state_type = np.int64

    @property
    def metrics(self) -> dict[str, str]:
        """New changes, stored rows and unmatched deletes of each side, and changes of the result."""
        counts = [f"{side}_{name}" for side in SIDES for name in ("rows", "state_rows", "unmatched_deletes")]
        return dict.fromkeys([*counts, "output_rows"], "long")

    @property
    def join(self) -> Resolved:
        """The join in the types of stored rows."""
        return stored_join(self.setup.spec.resolve(self.setup.left_schema, self.setup.right_schema))

    def described(self) -> dict[str, Any]:
        """Return the definition as plain data."""
        return described(self.setup)

    def columns(self, side: Side) -> Sequence[str]:
        """Return the columns of a side that tasks read."""
        names: list[str] = stored_schema(self.join, side).names
        return names

    def packets(self, side: Side, tables: Iterable[pa.Table], buckets: Buckets) -> Iterator[Packet]:
        """Yield the changes of a side in one task. Equal rows go to one bucket, whichever task reads them."""
        join = self.join
        stored = stored_schema(join, side)
        identity = identity_of(stored, side)

        def unkeyed(batch: pa.RecordBatch) -> Ints:
            # Unmatched left and right rows may be equal rows of the result, so they go to one bucket.
            return np.zeros(batch.num_rows, np.int64) if join.how == "full" else identity.hashes(batch)

        for table in tables:
            # Rows within the columns "before" and "after" have all columns.
            for changes, weights in read_changes(table, rows_within(table.schema, side)[0], side):
                batch = project(changes, stored)
                yield from buckets.packets(side, batch, weighted(batch, weights), unkeyed)

    def bucket(self, progress: Mapping[str, Any] | None) -> ChangeBucket:
        """Return a bucket without rows, with the progress of an earlier one."""
        return ChangeBucket.of(self.setup, self.resources, progress)

    def observed(self, results: DataFrame) -> DataFrame:
        """Return results unchanged, with metrics that Spark reports."""
        return results.observe(OBSERVED.format(join=token_hex(4)), *(F.sum(name).alias(name) for name in self.metrics))


class ChangeBucket(ChangeJoin):
    """A join of changes whose rows are in a state store between micro-batches."""

    @classmethod
    def of(cls, setup: ChangeSetup, resources: Resources, progress: Mapping[str, Any] | None) -> ChangeBucket:
        """Return a join without rows, with the progress of an earlier one."""
        join = cls(setup, resources)
        if progress is not None:
            join._runtime.position = Position(progress["epoch"], None, progress["missing"])
        return join

    @property
    def names(self) -> tuple[Side, ...]:
        """The sides."""
        return SIDES

    def step(self, packets: Iterable[Packet]) -> list[pa.RecordBatch]:
        """Apply the changes of a micro-batch in this bucket, and return those of the result."""
        changes: dict[str, list[ChangeBatch]] = {side: [] for side in SIDES}
        for packet in packets:
            side: Side = "left" if packet.side == "left" else "right"
            changes[side] += [unweighted(batch) for batch in packet.rows.to_batches()]
        self._new_rows = {side: sum(batch.num_rows for batch, _ in changes[side]) for side in SIDES}
        self._missing_before = dict(self._runtime.position.missing)
        return self._runtime.apply(changes, None)[ANSWER]

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics of the last step."""
        metrics: dict[str, float | None] = {}
        for side in SIDES:
            unmatched = self._runtime.position.missing[side] - self._missing_before[side]
            metrics |= {f"{side}_rows": self._new_rows[side], f"{side}_unmatched_deletes": unmatched}
            metrics[f"{side}_state_rows"] = self._operator.sides[side].arrangement.rows
        return metrics

    def progress(self) -> dict[str, Any]:
        """Return the progress as plain data, without rows."""
        return {"epoch": self._runtime.position.epoch, "missing": dict(self._runtime.position.missing)}

    def load(self, side: Side, batch: pa.RecordBatch, state: State) -> LoadedBatch:
        """Store rows from the state store. The lines of the state are weights and match counts."""
        arrangement = self._operator.sides[side].arrangement
        batch, hashes = unweighted(batch)
        rows = self._operator.sides[side].delta_of(batch, np.arange(batch.num_rows), hashes)
        # The row numbers are passed as weights, so they return the order of the delta.
        order = rows.weights
        weights, counts = state[0][order].astype(np.int64), np.take(state[1:], order, axis=1).astype(np.int64)
        run = Run(replace(rows, weights=weights), counts, arrangement.matching)
        arrangement.memory = [*arrangement.memory, run]
        return LoadedBatch(run, order)

    def batches(self, side: Side) -> Iterator[StoredBatch]:
        """Yield the stored rows of a side."""
        for run in self._operator.sides[side].arrangement.memory:
            yield StoredBatch(run, partial(state_of, run))

    def rows(self, stored: StoredBatch, positions: Ints) -> pa.RecordBatch:
        """Return some rows of a batch with their hashes."""
        assert isinstance(stored.source, Run)
        return weighted(stored.source.taken(positions), stored.source.hashes[positions])


def state_of(run: Run) -> State:
    """Return the weights and counts of the rows of a run."""
    return np.concatenate([run.weights[None], run.counts])
