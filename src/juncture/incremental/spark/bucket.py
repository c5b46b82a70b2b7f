"""One bucket of a join of changes: the rows of both sides that are in it, and what a micro-batch does to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.incremental.join import ChangeJoin
from juncture.incremental.population import Weighted
from juncture.incremental.run import Run
from juncture.incremental.store.saved import Position
from juncture.kernels.array_types import Ints
from juncture.spec.schema import Side

Table = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HeldRun:
    """Rows as they lie in the state store, and the run that they are in memory."""

    run: Run
    order: Ints

    @property
    def state(self) -> Table:
        """Lines, in the order of the state store: how often each row is there, and counts of matches."""
        lines: Table = np.empty((1 + len(self.run.counts), len(self.run)), np.int64)
        lines[:, self.order] = np.concatenate([self.run.weights[None], self.run.counts])
        return lines


class BucketChanges(ChangeJoin):
    """A join of changes of which the rows are kept elsewhere between micro-batches."""

    def step(self, changes: Mapping[Side, list[Weighted]]) -> list[pa.RecordBatch]:
        """Take the changes of a micro-batch that are in this bucket, and return those of the answer."""
        return self._epoch(changes, None)

    def runs(self, side: Side) -> list[Run]:
        """Return the runs of a side."""
        return self._kept.arrangements[side].memory

    def load(self, side: Side, batch: pa.RecordBatch, hashes: Ints, state: Table) -> HeldRun:
        """Hold rows that were held before."""
        arrangement = self._kept.arrangements[side]
        rows = self._kept.delta(side, batch, np.arange(batch.num_rows), hashes)
        # What `delta` takes for weights tells in which order it has put the rows.
        order = rows.weights
        weights, counts = state[0][order], np.take(state[1:], order, axis=1)
        run = Run(rows.batch, rows.keys, rows.codes, weights, rows.hashes, counts, arrangement.matching)
        arrangement.memory = [*arrangement.memory, run]
        return HeldRun(run, order)

    @property
    def position(self) -> Position:
        """How far the join has come."""
        return self._position

    @position.setter
    def position(self, position: Position) -> None:
        self._position = position
