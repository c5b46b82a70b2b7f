"""Inner joins by equal keys, over rows that are arranged by them.

With the rows of both sides as they were before the epoch, Δ(L ⋈ R) = ΔL ⋈ R + L ⋈ ΔR + ΔL ⋈ ΔR. So nothing is held
here, joins share what they look up, and neither side has to wait for the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.incremental.arrangement import Delta
from juncture.incremental.run import Run
from juncture.incremental.view.expressions import TRUE, Expression, columns, evaluate
from juncture.incremental.view.operators.arranged import ArrangedOperator
from juncture.incremental.view.operators.operator import Flow, ViewOperator, batch_of
from juncture.kernels.array_types import Codes, Ints

_TAKEN_ROWS = 1 << 20
"""Pairs that are made at a time."""


class JoinOperator(ViewOperator):
    """Gives the pairs of rows whose keys are equal, and for which a condition is true.

    Parameters
    ----------
    label, types
        What it is called, and what it gives.
    left, right
        The rows of both sides.
    condition
        What has to be true besides, of the columns of both sides one after the other.
    shown
        Which columns of both sides it gives.
    """

    def __init__(
        self,
        label: str,
        types: Sequence[pa.DataType],
        left: ArrangedOperator,
        right: ArrangedOperator,
        condition: Expression,
        shown: Sequence[int],
    ) -> None:
        super().__init__(label, types, (left, right))
        self._left = left
        self._right = right
        self._condition = condition
        self._shown = shown
        self._read = sorted({*shown, *columns(condition)})

    def step(self, _flows: Sequence[Flow]) -> Flow:
        """Give the pairs that come and go."""
        left, right = self._left.delta, self._right.delta
        found: Flow = []
        if len(left):
            for run, rows, positions in _pieces(left, self._right.arrangement.runs):
                weights = left.weights[rows] * run.weights[positions]
                found += self._pairs(left.batch, rows, run.taken(positions), None, weights)
        if len(right):
            for run, rows, positions in _pieces(right, self._left.arrangement.runs):
                weights = right.weights[rows] * run.weights[positions]
                found += self._pairs(run.taken(positions), None, right.batch, rows, weights)
        if len(left) and len(right):
            for _, rows, positions in _pieces(left, [_as_run(right)]):
                weights = left.weights[rows] * right.weights[positions]
                found += self._pairs(left.batch, rows, right.batch, positions, weights)
        return found

    def _pairs(
        self, left: pa.RecordBatch, ours: Codes | None, right: pa.RecordBatch, theirs: Codes | None, weights: Ints
    ) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield some rows of both sides beside each other; None for all rows of one."""
        width = left.num_columns
        indices = [None if rows is None else array_of(rows, pa.int32()) for rows in (ours, theirs)]
        made: dict[int, pa.Array] = {}
        for place in self._read:
            is_left = place < width
            column, index = (left.column(place), indices[0]) if is_left else (right.column(place - width), indices[1])
            made[place] = column if index is None else rows_of(column, index)
        if self._condition != TRUE:
            arrays = [made.get(place) for place in range(width + right.num_columns)]
            mask = evaluate(self._condition, arrays, len(weights)).fill_null(False)
            rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            if not len(rows):
                return
            if len(rows) < len(weights):
                index = array_of(rows, pa.int64())
                weights = weights[rows]
                made = {place: rows_of(made[place], index) for place in self._shown}
        yield batch_of([made[place] for place in self._shown], self.schema), weights


def _pieces(delta: Delta, runs: Sequence[Run]) -> Iterator[tuple[Run, Codes, Codes]]:
    for run, rows, positions in delta.find(runs):
        for first in range(0, len(rows), _TAKEN_ROWS):
            yield run, rows[first : first + _TAKEN_ROWS], positions[first : first + _TAKEN_ROWS]


def _as_run(delta: Delta) -> Run:
    """Return changes as rows that are there, to be found by others."""
    lines = np.zeros((0, len(delta)), np.int64)
    # What goes is found like what comes.
    return Run(delta.batch, delta.keys, delta.codes, np.abs(delta.weights), delta.hashes, lines, 0)
