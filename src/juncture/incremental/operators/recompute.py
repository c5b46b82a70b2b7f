"""Maintained joins that compute the result of each left row separately: affected left rows are recomputed.

Changed right rows determine the affected left rows. Their results are subtracted with the right rows before the epoch,
and added with those after it. Unchanged results cancel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import joined_batches, rows_at
from juncture.incremental.changes.identity import ResultChanges
from juncture.incremental.state.arrangement import Arrangement, Deltas, Journal, Slots
from juncture.incremental.state.run import Delta, Run
from juncture.kernels.array_types import Ints, Positions
from juncture.local.inequality.join import execute
from juncture.local.many.answers import FINDERS
from juncture.local.many.spine import Spine
from juncture.matching.condition import Condition
from juncture.matching.output import Output
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.spec.aggregate import Aggregate
from juncture.spec.equi import Equi
from juncture.spec.many import Duplicates, ResolvedTable
from juncture.spec.schema import Side


@dataclass(frozen=True)
class Candidates:
    """Right rows that left rows may match, with weights. ``runs`` has their runs and positions."""

    batch: pa.RecordBatch
    weights: Ints
    runs: list[tuple[Run, Positions]]


class RecomputeOperator(ABC):
    """A join that computes the result of each left row separately."""

    def __init__(self, arrangements: Mapping[Side, Arrangement]) -> None:
        self._arrangements = arrangements

    def apply(self, deltas: Deltas, journal: Journal, changes: ResultChanges) -> None:
        """Apply changes of both sides, and add the changes of the result."""
        (left, left_runs), (right, right_runs) = deltas["left"], deltas["right"]
        affected = _distinct(self.affected(right)) if len(right) else []
        before = [run.weights[positions] for run, positions in affected]
        old = [_of_run(run, positions, -weights) for (run, positions), weights in zip(affected, before, strict=True)]
        self.begin(right_runs)
        self._answer(old, journal, changes)
        others = _others(left, left_runs, affected)
        for side, (delta, slots) in deltas.items():
            arrangement = self._arrangements[side]
            arrangement.change(delta, slots, np.zeros((arrangement.lines, len(delta)), np.int64), journal)
        new = [_of_run(run, positions, run.weights[positions]) for run, positions in affected]
        self._answer([*new, others], journal, changes)
        self.end(changes)

    def _answer(self, parts: Sequence[Delta], journal: Journal, changes: ResultChanges) -> None:
        parts = [part for part in parts if len(part)]
        if parts:
            probe_rows = Delta.joined(parts)
            self.answer(probe_rows, self._candidates(probe_rows), journal, changes)

    def populate(self, deltas: Deltas, journal: Journal, changes: ResultChanges) -> None:
        """Add the first rows of both sides, and their results."""
        self.apply(deltas, journal, changes)

    def begin(self, slots: list[Slots]) -> None:
        """Record what is needed of right rows before they change: nothing if right rows are never results."""
        del slots

    def end(self, changes: ResultChanges) -> None:
        """Add the changes of right rows in the result."""
        del changes

    @abstractmethod
    def affected(self, right: Delta) -> Iterator[tuple[Run, Positions]]:
        """Yield the stored left rows whose results may change with right rows, before these change."""

    @abstractmethod
    def candidates(self, probe_rows: Delta) -> Iterator[tuple[Run, Positions]]:
        """Yield the stored right rows that may be in the results of left rows."""

    @abstractmethod
    def answer(self, probe_rows: Delta, candidates: Candidates, journal: Journal, changes: ResultChanges, /) -> None:
        """Add the results of left rows with their weights; negative ones subtract."""

    def _candidates(self, probe_rows: Delta) -> Candidates:
        runs = _distinct(self.candidates(probe_rows))
        batches = [run.taken(positions) for run, positions in runs]
        weights = [run.weights[positions] for run, positions in runs]
        schema = self._arrangements["right"].schema
        batch = joined_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)
        return Candidates(batch, np.concatenate([np.zeros(0, np.int64), *weights]), runs)


def _distinct(matches: Iterable[tuple[Run, Positions]]) -> list[tuple[Run, Positions]]:
    of_runs: dict[int, tuple[Run, list[Positions]]] = {}
    for run, positions in matches:
        of_runs.setdefault(id(run), (run, []))[1].append(positions)
    return [(run, np.unique(np.concatenate(positions))) for run, positions in of_runs.values()]


def _of_run(run: Run, positions: Positions, weights: Ints) -> Delta:
    here = np.flatnonzero(weights)
    return replace(run.at(positions[here]), weights=weights[here])


def _others(left: Delta, slots: list[Slots], affected: list[tuple[Run, Positions]]) -> Delta:
    """Return the changed left rows without those that are recomputed anyway."""
    weights = left.weights.copy()
    of_runs = {id(run): positions for run, positions in affected}
    for each in slots:
        if id(each.run) in of_runs:
            # Their results are subtracted and added again with the current weights.
            there = np.isin(each.positions, of_runs[id(each.run)])
            np.subtract.at(weights, each.rows[there], each.weights[there])
    return replace(left, weights=weights).some(np.flatnonzero(weights))


class MatchOperator(RecomputeOperator):
    """A join whose results depend on all matches of a left row."""

    def affected(self, right: Delta) -> Iterator[tuple[Run, Positions]]:
        """Yield the stored left rows that right rows match."""
        for run, _, positions in self._arrangements["left"].matching_rows(right):
            yield run, positions

    def candidates(self, probe_rows: Delta) -> Iterator[tuple[Run, Positions]]:
        """Yield the right rows that left rows match."""
        for run, _, positions in self._arrangements["right"].matching_rows(probe_rows):
            yield run, positions


class LookupOperator(MatchOperator):
    """An equality join that returns each left row once, with at most one match."""

    def __init__(
        self,
        condition: Condition,
        arrangements: Mapping[Side, Arrangement],
        duplicates: Duplicates,
        output: Output,
    ) -> None:
        super().__init__(arrangements)
        self._join: Any = replace(condition.join, how="left", spec=replace(condition.join.spec, how="left"))
        self._keeps_unmatched = condition.join.how != "inner"
        self._find = FINDERS[Equi]["lookup" if condition.join.predicate is None else "hash"]
        self._output = output
        self._table = ResolvedTable(
            name="", join=self._join, columns=(), aggregates=(), duplicates=duplicates, check_available_at=None
        )

    def answer(self, probe_rows: Delta, candidates: Candidates, _journal: Journal, changes: ResultChanges) -> None:
        """Add left rows beside the right row that each matches."""
        # Two copies of a row are as many matches as more.
        copies = np.repeat(np.arange(len(candidates.weights)), np.minimum(candidates.weights, 2))
        right = rows_at(candidates.batch, copies)
        sources = [TableSource(pa.Table.from_batches([each])) for each in (probe_rows.batch, right)]
        with join_context(threads=1) as context:
            pointers = self._find(self._join, self._table, Spine(context), sources[0], sources[1], context)
        matched, alone = np.flatnonzero(pointers >= 0), np.flatnonzero(pointers < 0)
        if len(matched):
            pairs = self._output.pairs(rows_at(probe_rows.batch, matched), rows_at(right, pointers[matched]))
            changes.add(pairs, probe_rows.weights[matched])
        if self._keeps_unmatched and len(alone):
            changes.add(self._output.alone(rows_at(probe_rows.batch, alone), "left"), probe_rows.weights[alone])


class AggregateOperator(MatchOperator):
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

    def answer(self, probe_rows: Delta, candidates: Candidates, _journal: Journal, changes: ResultChanges) -> None:
        """Add left rows with aggregates over the right rows that they match."""
        copies = np.repeat(np.arange(len(candidates.weights)), candidates.weights)
        right = rows_at(candidates.batch, copies)
        sources = [TableSource(pa.Table.from_batches([each])) for each in (probe_rows.batch, right)]
        with join_context(threads=1) as context:
            batch = joined_batches(list(execute(self._join, sources[0], sources[1], context)))
        if self._keeps_unmatched:
            changes.add(batch, probe_rows.weights)
            return
        width = batch.num_columns - self._counts
        counts = [batch.column(index).to_numpy() for index in range(width, batch.num_columns)]
        rows = np.flatnonzero(np.logical_or.reduce([count > 0 for count in counts]))
        changes.add(rows_at(batch.select(range(width)), rows), probe_rows.weights[rows])
