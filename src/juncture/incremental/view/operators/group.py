"""Grouping: one output row per distinct key. A changed group is retracted and emitted again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, concatenated, rows_of, true_rows, validity
from juncture.columnar.key_table import KeyCodes, RowCodes
from juncture.incremental.view.expressions import Expression, evaluate
from juncture.incremental.view.functions import FUNCTIONS
from juncture.incremental.view.operators.accumulators import (
    Accumulator,
    CountAccumulator,
    DistinctValues,
    SumAccumulator,
)
from juncture.incremental.view.operators.arranged import identity_of
from juncture.incremental.view.operators.extremes import ExtremeAccumulator
from juncture.incremental.view.operators.operator import Flow, ViewOperator, as_one, batch_of
from juncture.incremental.view.paging import SpillableRows
from juncture.incremental.view.plan import GroupAggregate
from juncture.kernels.array_types import Codes, Ints

_CODED_ALONE = 3
"""Up to this number of key columns, coding each column separately is faster."""


class GroupOperator(ViewOperator):
    """Groups the rows of an input. Nulls are one key, and NaNs are one key. Without keys, there is always one group."""

    def __init__(
        self, label: str, source: ViewOperator, keys: Sequence[Expression], aggregates: Sequence[GroupAggregate]
    ) -> None:
        super().__init__(label, [*(each.type for each in keys), *(each.type for each in aggregates)], (source,))
        self._keys = keys
        self._values = [each.value for each in aggregates]
        types = [each.type for each in keys]
        self._codes = RowCodes(types) if len(types) > _CODED_ALONE else KeyCodes(types, types, nulls_equal=True)
        identity_of(self.schema, label)
        self._sizes = CountAccumulator()
        self._accumulators = [_accumulator(each) for each in aggregates]
        self._room = 0
        self._has_given = False
        self._begun = False

    @property
    def waits(self) -> bool:
        """Whether a step needs changes. Without keys, the first step emits the group even without rows."""
        return bool(self._keys) or self._has_given

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Return the old and new rows of changed groups."""
        batch, weights = as_one(flows[0], self.inputs[0].schema)
        keys = [evaluate(key, batch.columns, batch.num_rows) for key in self._keys]
        codes = np.empty(batch.num_rows, np.int32)
        self._codes.add(keys, codes)
        groups, firsts, rows = np.unique(codes, return_index=True, return_inverse=True)
        if not self._keys:
            groups = np.zeros(1, np.int32)
        self._begin(groups)
        self._sizes.add(rows, None, weights)
        for value, accumulator in zip(self._values, self._accumulators, strict=True):
            self._add(accumulator, value, batch, rows, weights)
        return self._changed(keys, firsts)

    def _begin(self, groups: Codes) -> None:
        """Begin an epoch in all accumulators, with room for new groups."""
        if self._codes.count > self._room:
            self._room = 2 * self._codes.count
            for each in (self._sizes, *self._accumulators):
                each.grow(self._room)
        for each in (self._sizes, *self._accumulators):
            each.begin(groups)
        self._begun = True

    def _add(
        self, accumulator: Accumulator, value: Expression | None, batch: pa.RecordBatch, rows: Ints, weights: Ints
    ) -> None:
        """Add the non-null values to an accumulator."""
        if value is None:
            accumulator.add(rows, None, weights)
            return
        values = evaluate(value, batch.columns, batch.num_rows)
        valid = validity(values)
        if valid is not None:
            valid_rows = np.flatnonzero(valid)
            values, rows, weights = (
                rows_of(values, array_of(valid_rows, pa.int64())),
                rows[valid_rows],
                weights[valid_rows],
            )
        if len(rows):
            accumulator.add(rows, values, weights)

    def _changed(self, keys: list[pa.Array], firsts: Ints) -> Flow:
        """Return the retracted and emitted rows. ``firsts`` has the first input row of each affected group."""
        was, now = self._sizes.old > 0, self._sizes.new > 0
        assert (self._sizes.new >= 0).all(), f"{self.label} received deletes of rows that it does not store"
        if not self._keys:
            was, now = np.array([self._has_given]), np.array([True])
        before = [each.before() for each in self._accumulators]
        after = [each.after() for each in self._accumulators]
        same = was & now
        for pair in zip(before, after, strict=True):
            same[true_rows(FUNCTIONS["distinct_from"](pair, None))] = False
        retracted, emitted = np.flatnonzero(was & ~same), np.flatnonzero(now & ~same)
        if not len(retracted) + len(emitted):
            return []
        # One batch, because the cost downstream is mostly per batch.
        groups = array_of(firsts[np.concatenate([retracted, emitted])] if keys else np.zeros(0, np.int64), pa.int64())
        values = array_of(np.concatenate([retracted, emitted + len(was)]), pa.int64())
        arrays = [rows_of(each, groups) for each in keys]
        arrays += [rows_of(concatenated(pair), values) for pair in zip(before, after, strict=True)]
        weights = np.repeat(np.array([-1, 1], np.int64), [len(retracted), len(emitted)])
        return [(batch_of(arrays, self.schema), weights)]

    def commit(self) -> None:
        """Commit the groups."""
        if self._begun:
            for each in (self._sizes, *self._accumulators):
                each.commit()
        self._has_given = True
        self._begun = False

    def abandon(self) -> None:
        """Discard the changes of the groups."""
        if self._begun:
            for each in self._accumulators:
                each.abandon()
        self._begun = False

    @property
    def rows(self) -> int:
        """Number of groups, including those that became empty."""
        return self._codes.count if self._keys else 1

    @property
    def spillable(self) -> tuple[SpillableRows, ...]:
        """The stored values of MIN and MAX."""
        return tuple(rows for each in self._accumulators for rows in each.spillable)

    @property
    def fixed_bytes(self) -> int:
        """Approximate bytes of memory."""
        return 48 * self.rows + sum(each.nbytes for each in (self._sizes, *self._accumulators))


def _accumulator(aggregate: GroupAggregate) -> Accumulator:
    if aggregate.value is None:
        return CountAccumulator()
    of = aggregate.value.type
    if aggregate.function in ("min", "max"):
        return ExtremeAccumulator(of, greatest=aggregate.function == "max")
    inner: Accumulator = (
        CountAccumulator()
        if aggregate.function == "count"
        else SumAccumulator(of, aggregate.type, average=aggregate.function == "avg")
    )
    return DistinctValues(of, inner) if aggregate.distinct else inner
