"""Maintained as-of joins: a right row affects the left rows between its neighbours.

A new right row takes over the left rows up to the next right row (with ``matches=k``, the kth one). A deleted one
returns them. All neighbours are those before the epoch. This is sufficient even if rows come and go at once: a left
row whose result changes is between the earlier neighbours of one of them.

With ``available_at`` or ``where``, a neighbour need not be a match. A right row then affects all left rows of its key
in the direction of the join, and a left row searches all right rows of its key, both up to the tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import float_codes, floats_of, rows_at
from juncture.incremental.changes.identity import ResultChanges
from juncture.incremental.operators.recompute import Candidates, RecomputeOperator
from juncture.incremental.state.arrangement import Arrangement, Journal, Slots
from juncture.incremental.state.run import Delta, Run
from juncture.kernels.array_types import Codes, Ints, Positions
from juncture.local.asof.join import find
from juncture.matching.asof import left_ranges
from juncture.matching.output import Output
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, moved
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.spec.asof import ResolvedAsof
from juncture.spec.schema import Side

_ROUNDED_BITS = 51  # two distances of floats may seem equal if they differ by less than this many bits


class AsofOperator(RecomputeOperator):
    """A maintained as-of join. If ``how`` keeps unmatched right rows, each has counts of left rows by its copy."""

    def __init__(self, join: ResolvedAsof, arrangements: Mapping[Side, Arrangement], output: Output) -> None:
        super().__init__(arrangements)
        self._join = join
        self._output = output
        self._how = join.how
        self._matches = 1 if self._how in ("semi", "anti") else join.spec.matches
        spec = replace(join.spec, how="left", matches=self._matches)
        self._search = replace(join, how="left", spec=spec)
        self._skips_rows = join.available_at is not None or join.where is not None
        self._touched: list[tuple[Run, Positions, Ints]] = []
        self._earlier_runs: set[int] = set()

    # Affected rows

    def affected(self, right: Delta) -> Iterator[tuple[Run, Positions]]:
        """Yield the stored left rows between the neighbours of right rows."""
        first = right.first
        keys, codes = right.keys[first:], np.ascontiguousarray(right.codes[0, first:])
        least, most = left_ranges(self._join, codes)
        for low, high in self._between(keys, codes):
            low, high = np.maximum(low, least), np.minimum(high, most)
            for run, _, positions in self._arrangements["left"].between(keys, low, high):
                yield run, positions

    def _between(self, keys: Codes, codes: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield the code ranges of left rows whose results may have right rows."""
        if self._skips_rows:
            yield self._in_directions(codes, forward=False), self._in_directions(codes, forward=True)
            return
        low, high, is_nearest = codes, codes, len(self._join.directions) > 1
        reaches_end = is_nearest or not self._join.spec.allow_exact_matches
        for direction in self._join.directions:
            if direction.forward:
                before = self._neighbour(keys, moved(codes, -1), forward=False)
                is_first = (before == MIN_CODE) | (codes == MIN_CODE)
                low = np.where(is_first, MIN_CODE, before if reaches_end else before + 1)
            else:
                after = self._neighbour(keys, moved(codes, 1), forward=True)
                is_last = (after == MAX_CODE) | (codes == MAX_CODE)
                high = np.where(is_last, MAX_CODE, after if reaches_end else after - 1)
        yield low, high
        if is_nearest and self._join.domain.floating:
            yield self._as_far(keys, codes), np.full(len(codes), MAX_CODE)

    def _in_directions(self, codes: Ints, *, forward: bool) -> Ints:
        """Return the least codes of left rows that may match right rows, or the greatest (``forward``)."""
        # A left row that searches backward is after its match.
        searched = any(each.forward != forward for each in self._join.directions)
        return np.full(len(codes), MAX_CODE if forward else MIN_CODE) if searched else codes

    def _as_far(self, keys: Codes, codes: Ints) -> Ints:
        """Return the least code from which a right row may seem as near as the next one, due to rounding."""
        after = self._neighbour(keys, moved(codes, 1), forward=True, nth=1)
        values, following = floats_of(codes), floats_of(after)
        with np.errstate(over="ignore", invalid="ignore"):
            far = values + (following - values) * 2.0**_ROUNDED_BITS
        bounds = np.where(np.isnan(far) | np.isinf(values), MIN_CODE, float_codes(far))
        return np.where(after == MAX_CODE, MAX_CODE, np.minimum(bounds, _INFINITY))

    def candidates(self, probe_rows: Delta) -> Iterator[tuple[Run, Positions]]:
        """Yield the nearest right rows of left rows in the direction of the join."""
        first = probe_rows.first
        keys, codes = probe_rows.keys[first:], np.ascontiguousarray(probe_rows.codes[0, first:])
        if self._skips_rows:
            yield from self._all_candidates(keys, codes)
            return
        strict = int(not self._join.spec.allow_exact_matches)
        low, high = moved(codes, strict), moved(codes, -strict)
        for direction in self._join.directions:
            if direction.forward:
                high = self._neighbour(keys, moved(codes, strict), forward=True)
            else:
                low = self._neighbour(keys, moved(codes, -strict), forward=False)
        if len(self._join.directions) > 1 and self._join.domain.floating:
            low = self._as_near(codes, low)
        for run, _, positions in self._arrangements["right"].between(keys, low, high):
            yield run, positions

    def _all_candidates(self, keys: Codes, codes: Ints) -> Iterator[tuple[Run, Positions]]:
        """Yield all right rows of left rows in the direction of the join, up to a constant tolerance."""
        low, high = left_ranges(self._join, codes)
        if len(self._join.directions) == 1:
            low, high = (codes, high) if self._join.directions[0].forward else (low, codes)
        for run, _, positions in self._arrangements["right"].between(keys, low, high):
            yield run, positions

    def _as_near(self, codes: Ints, low: Ints) -> Ints:
        """Return the least code down to which a right row may seem as near as another one, due to rounding."""
        values, farthest = floats_of(codes), floats_of(low)
        with np.errstate(over="ignore", invalid="ignore"):
            far = farthest - (values - farthest) * 2.0**-_ROUNDED_BITS
        bounds = np.where(np.isnan(far) | (low == MIN_CODE), MIN_CODE, float_codes(far))
        return np.minimum(bounds, low)

    def _neighbour(self, keys: Codes, codes: Ints, *, forward: bool, nth: int | None = None) -> Ints:
        """Return the code of the nth right row from some codes on, or a nearer one; the extreme code for none."""
        neighbours = np.full(len(keys), MAX_CODE if forward else MIN_CODE)
        self._arrangements["right"].neighbours(keys, codes, nth or self._matches, neighbours, forward=forward)
        return neighbours

    # Results

    def answer(self, probe_rows: Delta, candidates: Candidates, journal: Journal, changes: ResultChanges) -> None:
        """Add the results of left rows."""
        # More copies of a row than a left row can take only indicate a tie.
        copies = np.minimum(candidates.weights, self._matches + 1)
        entries = np.repeat(np.arange(len(copies)), copies)
        right = rows_at(candidates.batch, entries)
        left_source, right_source = (TableSource(pa.Table.from_batches([each])) for each in (probe_rows.batch, right))
        with join_context(threads=1) as context:
            pointers = find(self._search, left_source, right_source, context, merges=True).pointers
        here = pointers >= 0
        matched = here.any(axis=1)
        if self._how in ("semi", "anti"):
            self._alone(probe_rows, np.flatnonzero(matched == (self._how == "semi")), changes)
            return
        rows = np.repeat(np.arange(len(pointers)), here.sum(axis=1))
        taken = entries[pointers[here]]
        if len(rows):
            pairs = self._output.pairs(
                rows_at(probe_rows.batch, rows),
                rows_at(candidates.batch, taken),
            )
            changes.add(pairs, probe_rows.weights[rows])
        if self._how in ("left", "full"):
            self._alone(probe_rows, np.flatnonzero(~matched), changes)
        if self._arrangements["right"].lines:
            self._count(rows, taken, probe_rows.weights[rows], candidates, journal)

    def _alone(self, probe_rows: Delta, rows: Ints, changes: ResultChanges) -> None:
        if len(rows):
            batch = rows_at(probe_rows.batch, rows)
            changes.add(self._output.alone(batch, "left"), probe_rows.weights[rows])

    # Unmatched right rows

    def _count(self, rows: Ints, taken: Ints, weights: Ints, candidates: Candidates, journal: Journal) -> None:
        copy = _occurrence(rows, taken)
        first = 0
        for run, positions in candidates.runs:
            here = (taken >= first) & (taken < first + len(positions))
            lines, slots, by = copy[here], positions[taken[here] - first], weights[here]
            first += len(positions)
            distinct, index = np.unique(slots, return_inverse=True)
            self._touch(run, distinct)
            run.mark_changed(distinct)
            for line in range(len(run.counts)):
                added = np.zeros(len(distinct), np.int64)
                np.add.at(added, index[lines == line], by[lines == line])
                journal.change(run.counts[line], distinct, added)

    def _touch(self, run: Run, positions: Positions) -> None:
        self._touched.append((run, positions, _without_match(run, positions)))

    def begin(self, slots: list[Slots]) -> None:
        """Record how many copies of changed right rows have no match."""
        self._touched = []
        self._earlier_runs = {id(run) for run in self._arrangements["right"].runs}
        for each in slots:
            self._touch(each.run, each.positions)

    def end(self, changes: ResultChanges) -> None:
        """Add the right rows whose number of unmatched copies has changed."""
        arrangement = self._arrangements["right"]
        if not arrangement.lines:
            return
        for run in self._changed(arrangement.runs):
            if self._was_there(run):
                positions = np.concatenate([there for each, there, _ in self._touched if each is run])
                slots, first = np.unique(positions, return_index=True)
                before = np.concatenate([count for each, _, count in self._touched if each is run])[first]
            else:
                slots, before = np.arange(len(run)), np.zeros(len(run), np.int64)
            by = _without_match(run, slots) - before
            some = np.flatnonzero(by)
            if len(some):
                changes.add(self._output.alone(run.taken(slots[some]), "right"), by[some])

    def _changed(self, runs: Sequence[Run]) -> list[Run]:
        touched = {id(run) for run, _, _ in self._touched}
        return [run for run in runs if id(run) in touched or not self._was_there(run)]

    def _was_there(self, run: Run) -> bool:
        return run.is_fetched or id(run) in self._earlier_runs


_INFINITY = int(float_codes(np.array([np.inf]))[0])


def _without_match(run: Run, positions: Positions) -> Ints:
    """Return how many copies of each right row no left row takes."""
    matched: Ints = (run.counts[:, positions] > 0).sum(axis=0)
    return run.weights[positions] - matched


def _occurrence(rows: Ints, taken: Ints) -> Ints:
    """Return how many times a row has taken the same one before."""
    order = np.lexsort((taken, rows))
    starts = np.ones(len(order), np.bool_)
    starts[1:] = (rows[order][1:] != rows[order][:-1]) | (taken[order][1:] != taken[order][:-1])
    positions = np.arange(len(order))
    first = np.maximum.accumulate(np.where(starts, positions, 0)) if len(order) else positions
    occurrences = np.empty(len(order), np.int64)
    occurrences[order] = positions - first
    return occurrences
