"""One bucket of a hosted join of changes: applies the changes of a micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.incremental.join import ChangeJoin
from juncture.incremental.population import Weighted
from juncture.incremental.state.records import Position
from juncture.incremental.state.run import Run
from juncture.kernels.array_types import Ints
from juncture.spec.schema import Side

Table = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BucketRun:
    """A run in memory, and for each of its rows the row of the state store."""

    run: Run
    order: Ints

    @property
    def state(self) -> Table:
        """Lines in the order of the state store: the weight of each row, and match counts."""
        lines: Table = np.empty((1 + len(self.run.counts), len(self.run)), np.int64)
        lines[:, self.order] = np.concatenate([self.run.weights[None], self.run.counts])
        return lines


class BucketChanges(ChangeJoin):
    """A join of changes whose rows are in a state store between micro-batches."""

    def step(self, changes: Mapping[Side, list[Weighted]]) -> list[pa.RecordBatch]:
        """Apply the changes of a micro-batch in this bucket, and return those of the result."""
        return self._epoch(changes, None)

    def runs(self, side: Side) -> list[Run]:
        """Return the runs of a side."""
        return self._kept.arrangements[side].memory

    def load(self, side: Side, batch: pa.RecordBatch, hashes: Ints, state: Table) -> BucketRun:
        """Store rows from the state store."""
        arrangement = self._kept.arrangements[side]
        rows = self._kept.delta(side, batch, np.arange(batch.num_rows), hashes)
        # The row numbers are passed as weights, so they return the order of the delta.
        order = rows.weights
        weights, counts = state[0][order], np.take(state[1:], order, axis=1)
        run = Run(rows.batch, rows.keys, rows.codes, weights, rows.hashes, counts, arrangement.matching)
        arrangement.memory = [*arrangement.memory, run]
        return BucketRun(run, order)

    @property
    def position(self) -> Position:
        """Progress of the join."""
        return self._position

    @position.setter
    def position(self, position: Position) -> None:
        self._position = position
