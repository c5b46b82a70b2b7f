"""Maintained aggregates over windows: left rows whose windows have a changed right row are recomputed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.incremental.changes.result_changes import Changes
from juncture.incremental.operators.recompute import Candidates, ProbeRows, RecomputeOperator
from juncture.incremental.state.arrangement import Arrangement, Delta, Journal, Place
from juncture.incremental.state.run import Run
from juncture.local.inequality.join import execute
from juncture.matching.condition import Condition
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.spec.aggregate import Aggregate
from juncture.spec.schema import Side

Positions = npt.NDArray[np.signedinteger]


class AggregateOperator(RecomputeOperator):
    """A join that returns each left row with aggregates over its matches."""

    def __init__(self, condition: Condition, arrangements: Mapping[Side, Arrangement]) -> None:
        super().__init__(arrangements)
        join: Any = condition.join
        self._keeps_unmatched = join.how != "inner"
        # A candidate need not match: it may lie in a gap between windows, or fail what is left of a predicate.
        windows = () if self._keeps_unmatched else join.window_names or (None,)
        counts = [Aggregate(f" {name or ''}", None, "count", pa.int64(), window=name) for name in windows]
        self._counts = len(counts)
        aggregates = (*join.aggregates, *counts)
        self._join = replace(join, how="left", spec=replace(join.spec, how="left"), aggregates=aggregates)

    def begin(self, places: list[Place]) -> None:
        """Do nothing, because right rows are never results."""

    def end(self, changes: Changes) -> None:
        """Do nothing."""

    def affected(self, right: Delta) -> Iterator[tuple[Run, Positions]]:
        """Yield the stored left rows that right rows match."""
        for run, _, positions in self._arrangements["left"].matching_rows(right):
            yield run, positions

    def candidates(self, probe_rows: ProbeRows) -> Iterator[tuple[Run, Positions]]:
        """Yield the right rows that left rows match."""
        for run, _, positions in self._arrangements["right"].matching_rows(probe_rows.as_delta()):
            yield run, positions

    def answer(self, probe_rows: ProbeRows, candidates: Candidates, _journal: Journal, changes: Changes) -> None:
        """Add left rows with aggregates over the right rows that they match."""
        copies = np.repeat(np.arange(len(candidates.weights)), candidates.weights)
        right = rows_of(candidates.batch, array_of(copies, pa.int64()))
        sources = [TableSource(pa.Table.from_batches([each])) for each in (probe_rows.batch, right)]
        with join_context(threads=1) as context:
            batch = joined_batches(list(execute(self._join, sources[0], sources[1], context)))
        if self._keeps_unmatched:
            changes.add(batch, probe_rows.weights)
            return
        shown = batch.num_columns - self._counts
        counts = [batch.column(place).to_numpy() for place in range(shown, batch.num_columns)]
        rows = np.flatnonzero(np.logical_or.reduce([count > 0 for count in counts]))
        changes.add(rows_of(batch.select(range(shown)), array_of(rows, pa.int64())), probe_rows.weights[rows])
