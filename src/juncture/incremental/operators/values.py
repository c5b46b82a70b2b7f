"""The values of groups that MIN, MAX and DISTINCT need under deletes: rows of a group and a value, in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.columnar.arrays import array_of, joined_batches, raw_values, rows_of
from juncture.incremental.changes.change_batch import ChangeBatch
from juncture.incremental.changes.identity import identity_of
from juncture.incremental.operators.operator import batch_of, schema_of
from juncture.incremental.operators.order import RowOrder, codes_in_order, has_exact_codes, order_codes, values_of
from juncture.incremental.operators.top import SortKey, sorted_rows
from juncture.incremental.state.arrangement import Arrangement, Journal, Slots, interval_codes
from juncture.incremental.state.run import Delta, Run
from juncture.incremental.state.tables import StateTable
from juncture.kernels.array_types import Codes, Ints, Mask, Words
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE


class _GroupNumbers:
    """Numbers of groups as keys: rows on disk are in their order."""

    def hashes(self, keys: Codes) -> Words:
        hashes: Words = keys.astype(np.uint64)
        return hashes

    def forget(self) -> None:
        """Do nothing: numbers take no memory."""


class GroupValues:
    """The values of type ``of`` in each group, with their counts. Groups have numbers that stay the same.

    Values with 64-bit order codes are found by binary search. For others, such as text, all values of a group are
    scanned. With ``distinct``, equal values are stored once. With an ``order``, values are structs of sort keys and a
    last field. They are stored by the code of the first key, and the least is the last field of the first one.
    """

    def __init__(self, of: pa.DataType, *, distinct: bool, order: Sequence[RowOrder] = ()) -> None:
        self._type = of
        self._order = order
        self._coded = has_exact_codes(of)
        # Rows between two codes are found by two lines.
        self._code_lines = 2 if order else int(self._coded)
        self._distinct = distinct
        schema = schema_of([pa.int32(), of])
        self._identity = identity_of(schema, "a MIN, MAX or DISTINCT")
        self.arrangement = Arrangement(schema, self._identity, self._code_lines, unique=distinct)
        self._journal = Journal()
        self._groups = np.zeros(0, np.int32)
        self._appeared: tuple[Ints, pa.Array, Ints] | None = None
        self._is_added = False

    @property
    def table(self) -> StateTable:
        """The values as a table."""
        return StateTable(self.arrangement, _GroupNumbers(), groups_of, _number_hashes, self._code_lines)

    def begin(self, groups: Codes) -> None:
        """Begin an epoch with the numbers of the affected groups."""
        self._groups, self._journal, self._appeared, self._is_added = groups, Journal(), None, False

    def add(self, rows: Ints, values: pa.Array, weights: Ints) -> None:
        """Add all values of an epoch, once, with weights. ``rows`` are positions among the affected groups."""
        if self._is_added:
            return
        self._is_added = True
        groups = array_of(self._groups[rows], pa.int32())
        changes = ChangeBatch(batch_of([groups, values], self.arrangement.schema), weights)
        (batch, weights), hashes = self._identity.consolidated(changes)
        codes = np.zeros((0, len(weights)), np.int64)
        if self._order:
            key, first = batch.column(1).flatten()[0], self._order[0]
            codes = interval_codes(codes_in_order(key, descending=first.descending, nulls_first=first.nulls_first))
        elif self._coded:
            codes = order_codes(batch.column(1))[None]
        delta, slots, missing = self.arrangement.locate(Delta.of(batch, weights, groups_of(batch), codes, hashes))
        assert not missing.any()
        if self._distinct:
            self._appeared = self._transitions(delta, slots)
        self.arrangement.change(delta, slots, np.zeros((0, len(delta)), np.int64), self._journal)

    def _transitions(self, delta: Delta, slots: list[Slots]) -> tuple[Ints, pa.Array, Ints]:
        """Return the values that changes make appear or disappear, as `appeared` does."""
        before = np.zeros(len(delta), np.int64)
        for each in slots:
            np.add.at(before, each.rows, each.run.weights[each.positions])
        after = (before + delta.weights > 0).astype(np.int64)
        changed = np.flatnonzero(after != (before > 0))
        numbers = groups_of(delta.batch)[changed]
        by_number = np.argsort(self._groups)
        positions = by_number[np.searchsorted(self._groups[by_number], numbers)]
        distinct = rows_of(delta.batch.column(1), array_of(changed, pa.int64()))
        return positions, distinct, 2 * after[changed] - 1

    def appeared(self, rows: Ints, values: pa.Array, weights: Ints) -> tuple[Ints, pa.Array, Ints]:
        """Add values like `add`, and return those that appear or disappear: groups, values, and weights 1 or -1."""
        self.add(rows, values, weights)
        assert self._appeared is not None
        return self._appeared

    def commit(self) -> None:
        """Commit the values."""
        self._journal = Journal()
        self.arrangement.compact()

    def abandon(self) -> None:
        """Restore the values before the epoch."""
        self._journal.undo()

    def extreme(self, groups: Codes, *, greatest: bool) -> pa.Array:
        """Return the least or greatest value of each group, or the first in the order; null without values."""
        if self._order:
            return self._first(groups)
        return self._searched(groups, greatest=greatest) if self._coded else self._scanned(groups, greatest=greatest)

    def _searched(self, groups: Codes, *, greatest: bool) -> pa.Array:
        start, farthest = (MAX_CODE, MIN_CODE) if greatest else (MIN_CODE, MAX_CODE)
        best = np.full(len(groups), farthest)
        self.arrangement.neighbours(groups, np.full(len(groups), start), 1, best, forward=not greatest)
        exists = best != farthest
        # The farthest code also marks groups without values, so look whether that value exists.
        last = np.flatnonzero(~exists)
        if len(last) and self.arrangement.rows:
            if self.arrangement.pages is not None:
                self.arrangement.pages.fetch_between(groups[last], best[last], best[last])
            for run in self.arrangement.runs:
                exists[last] |= _have_rows(run, groups[last])
        return values_of(best, self._type, exists)

    def _first(self, groups: Codes) -> pa.Array:
        by_group = np.argsort(groups)
        ranked = groups[by_group]
        least = np.full(len(groups), MAX_CODE)
        self.arrangement.neighbours(ranked, np.full(len(groups), MIN_CODE), 1, least, forward=True)
        pieces = [np.zeros(0, np.int64)]
        batches = [pa.RecordBatch.from_pylist([], self.arrangement.schema)]
        for run, rows, positions in self.arrangement.between(ranked, least, least):
            batches.append(run.taken(positions))
            pieces.append(by_group[rows])
        numbers = np.concatenate(pieces)
        fields = joined_batches(batches).column(1).flatten()
        candidates = batch_of(
            [array_of(numbers, pa.int64()), *fields], schema_of([pa.int64(), *(f.type for f in fields)])
        )
        keys = [SortKey(index, each.descending, each.nulls_first) for index, each in enumerate(self._order, start=1)]
        order = sorted_rows(candidates, [SortKey(0, False, False), *keys])
        distinct, first = np.unique(numbers[order], return_index=True)
        chosen: Ints = np.full(len(groups), -1, np.int64)
        chosen[distinct] = order[first]
        return fields[-1].take(array_of(chosen, pa.int64(), chosen >= 0))

    def _scanned(self, groups: Codes, *, greatest: bool) -> pa.Array:
        order = np.argsort(groups)
        probe = Delta.probing(groups[order], self.arrangement.schema)
        batches = [run.taken(positions) for run, _, positions in self.arrangement.matching_rows(probe)]
        if not batches:
            return pa.nulls(len(order), self._type)
        table = pa.Table.from_batches([joined_batches(batches)])
        kind = "max" if greatest else "min"
        grouped = table.group_by("0", use_threads=False).aggregate([("1", kind)])
        at = pc.index_in(array_of(groups, pa.int32()), value_set=grouped.column("0").combine_chunks())
        return grouped.column(f"1_{kind}").combine_chunks().take(at)


def _number_hashes(run: Run) -> Words:
    return _GroupNumbers().hashes(run.groups)


def groups_of(batch: pa.RecordBatch) -> Codes:
    """Return the numbers of the groups of values."""
    groups: Codes = raw_values(batch.column(0), np.int32).copy()
    return groups


def _have_rows(run: Run, groups: Codes) -> Mask:
    at = np.searchsorted(run.groups, groups)
    here = np.flatnonzero(at < len(run.groups))
    here = here[run.groups[at[here]] == groups[here]]
    firsts, sizes = run.starts[at[here]], run.starts[at[here] + 1] - run.starts[at[here]]
    starts = np.cumsum(sizes) - sizes
    weights = run.weights[np.repeat(firsts - starts, sizes) + np.arange(sizes.sum())]
    have = np.zeros(len(groups), np.bool_)
    if len(here):
        have[here] = np.logical_or.reduceat(weights != 0, starts)
    return have
