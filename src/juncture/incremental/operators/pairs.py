"""Maintained joins that return pairs of rows: each change of a side is matched with the rows of the other.

The pairs follow the bilinear form: changed left rows with the right rows before the epoch, then changed right rows
with the left rows after it. If ``how`` is not ``inner``, rows have a count of their matches. They are added or
subtracted when the count becomes zero, or is no longer zero.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from juncture.columnar.arrays import rows_at
from juncture.incremental.changes.identity import ResultChanges
from juncture.incremental.state.arrangement import Arrangement, Deltas, Journal, Slots
from juncture.incremental.state.run import Delta, Run, weights_of
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.matching.condition import Condition, unmatched_are_results
from juncture.matching.output import Output
from juncture.spec.schema import Side


class PairOperator:
    """A join whose result has pairs, unmatched rows, or rows that have a match."""

    def __init__(self, condition: Condition, arrangements: Mapping[Side, Arrangement], output: Output) -> None:
        self._condition = condition
        self._arrangements = arrangements
        self._output = output
        self._how = condition.join.how
        self._gives_pairs = self._how not in ("semi", "anti")

    def apply(self, deltas: Deltas, journal: Journal, changes: ResultChanges) -> None:
        """Apply changes of both sides, and add the changes of the result."""
        for side, (delta, slots) in deltas.items():
            if len(delta):
                self._push(side, delta, slots, journal, changes)

    def populate(self, deltas: Deltas, journal: Journal, changes: ResultChanges) -> None:
        """Add the first rows of both sides, and their results."""
        left, _ = deltas["left"]
        arrangement = self._arrangements["left"]
        if len(left):
            arrangement.change(left, [], np.zeros((arrangement.lines, len(left)), np.int64), journal)
        if len(deltas["right"][0]):
            # Unmatched left rows are only known at the end.
            self._push("right", *deltas["right"], journal, changes, alone=False)
        for run in arrangement.runs if arrangement.lines else []:
            mask = self._result_mask("left", run.counts[0] > 0)
            assert mask is not None
            rows = np.flatnonzero(mask)
            if len(rows):
                changes.add(self._output.alone(run.taken(rows), "left"), run.weights[rows])

    def _push(
        self,
        side: Side,
        delta: Delta,
        slots: list[Slots],
        journal: Journal,
        changes: ResultChanges,
        *,
        alone: bool = True,
    ) -> None:
        other: Side = "right" if side == "left" else "left"
        matched = np.zeros(len(delta), np.int64)
        keeps_matched = bool(self._arrangements[side].lines)
        counts_others = bool(self._arrangements[other].lines)
        gained: list[tuple[Run, Codes, Ints]] = []
        for run, rows, positions in self._arrangements[other].matching_rows(delta):
            rows, positions = self._matches(side, delta, run, rows, positions, changes)
            if keeps_matched:
                np.add.at(matched, rows, run.weights[positions])
            if counts_others:
                gained.append((run, positions, delta.weights[rows]))
        self._own_alone(side, delta, matched, changes)
        self._recount(other, gained, journal, changes if alone else ResultChanges())
        lines = matched.reshape(1, -1) if self._arrangements[side].lines else np.zeros((0, len(delta)), np.int64)
        self._arrangements[side].change(delta, slots, lines, journal)

    def _matches(
        self, side: Side, delta: Delta, run: Run, rows: Codes, positions: Codes, changes: ResultChanges
    ) -> tuple[Codes, Codes]:
        """Return the candidates that match, and add the pairs."""
        check = self._condition.check
        gives_pairs = self._gives_pairs and changes.are_wanted
        if check is None and not gives_pairs:
            return rows, positions
        own_rows, other_rows = rows_at(delta.batch, rows), run.taken(positions)
        left, right = (own_rows, other_rows) if side == "left" else (other_rows, own_rows)
        match_mask = self._condition.match_mask(left, right)
        if match_mask is not None:
            matching = np.flatnonzero(match_mask)
            rows, positions = rows[match_mask], positions[match_mask]
            left, right = rows_at(left, matching), rows_at(right, matching)
        if gives_pairs:
            weights = weights_of(delta.weights, rows) * weights_of(run.weights, positions)
            changes.add(self._output.pairs(left, right), weights)
        return rows, positions

    def _own_alone(self, side: Side, delta: Delta, matched: Ints, changes: ResultChanges) -> None:
        wanted = self._result_mask(side, matched > 0)
        if wanted is not None and wanted.any():
            chosen = delta.some(np.flatnonzero(wanted))
            changes.add(self._output.alone(chosen.batch, side), chosen.weights)

    def _recount(
        self, side: Side, gained: list[tuple[Run, Codes, Ints]], journal: Journal, changes: ResultChanges
    ) -> None:
        """Update the match counts of stored rows, and add the rows that become or cease to be results."""
        for run in {id(run): run for run, _, _ in gained}.values():
            positions = np.concatenate([there for each, there, _ in gained if each is run])
            weights = np.concatenate([by for each, _, by in gained if each is run])
            distinct, index = np.unique(positions, return_inverse=True)
            by = np.zeros(len(distinct), np.int64)
            np.add.at(by, index, weights)
            before = run.counts[0][distinct]
            run.mark_changed(distinct)
            journal.change(run.counts[0], distinct, by)
            was, now = self._result_mask(side, before > 0), self._result_mask(side, before + by > 0)
            assert was is not None
            assert now is not None
            turned = np.flatnonzero(was != now)
            if len(turned):
                there = distinct[turned]
                sign = np.where(now[turned], 1, -1)
                changes.add(self._output.alone(run.taken(there), side), sign * run.weights[there])

    def _result_mask(self, side: Side, has_match: Mask) -> Mask | None:
        """Return which rows are results by themselves; None if no row is."""
        if side == "left" and self._how == "semi":
            return has_match
        return ~has_match if unmatched_are_results(self._how, side) else None


def counted(how: str, side: Side) -> bool:
    """Return whether rows of a side have match counts."""
    return unmatched_are_results(how, side) or (side == "left" and how == "semi")
