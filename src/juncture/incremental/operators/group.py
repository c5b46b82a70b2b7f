"""Grouping: one output row per distinct key. A changed group is retracted and emitted again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, concatenated, rows_of, true_rows, validity
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.incremental.changes.identity import identity_of
from juncture.incremental.expressions.expression import Expression, evaluate, shifted, text_of
from juncture.incremental.expressions.functions import FUNCTIONS
from juncture.incremental.operators.accumulators import (
    Accumulator,
    CountAccumulator,
    ExtremeAccumulator,
    GroupLayout,
    SumAccumulator,
    TruthAccumulator,
    VarianceAccumulator,
)
from juncture.incremental.operators.eviction import Frontiers, final_rows
from juncture.incremental.operators.keys import KeyDomain
from juncture.incremental.operators.operator import ViewOperator, batch_of, schema_of
from juncture.incremental.operators.order import RowOrder
from juncture.incremental.operators.sums import Sums
from juncture.incremental.operators.values import GroupValues, groups_of
from juncture.incremental.state.arrangement import Arrangement
from juncture.incremental.state.run import Delta, Run
from juncture.incremental.state.tables import StateTable
from juncture.kernels.array_types import Codes, Ints, IntTable, Words

_SIZE, _NUMBER = 0, 1
"""Lines of each group's state: the number of its rows, and a number that stays the same while it exists."""

_OWN_LINES = 2

_SCATTERED_CODES = 4  # up to this number of codes per row, codes are scattered in place of being sorted


AggregateFunction = Literal[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "first",
    "bool_and",
    "bool_or",
    "var_pop",
    "var_samp",
    "stddev_pop",
    "stddev_samp",
]


@dataclass(frozen=True)
class GroupAggregate:
    """An aggregate and its result type."""

    function: AggregateFunction
    value: Expression | None  # None for ``count(*)``
    distinct: bool
    type: pa.DataType
    order: tuple[RowOrder, ...] = ()  # in which ``first`` returns the first value
    keeps_nulls: bool = False  # whether that may be NULL

    def shifted(self, new_indices: Mapping[int, int]) -> GroupAggregate:
        """Return the aggregate with the columns of its value moved."""
        if self.value is None:
            return self
        order = tuple(replace(each, value=shifted(each.value, new_indices)) for each in self.order)
        return replace(self, value=shifted(self.value, new_indices), order=order)

    @property
    def read(self) -> tuple[Expression, ...]:
        """The sort keys and the value."""
        return (*(each.value for each in self.order), *(() if self.value is None else (self.value,)))

    @property
    def values_key(self) -> tuple[Expression | None, tuple[RowOrder, ...], bool]:
        """What aggregates that share stored values have in common."""
        return self.value, self.order, self.keeps_nulls

    def text(self, names: Sequence[str]) -> str:
        """Return the aggregate as text."""
        value = "*" if self.value is None else text_of(self.value, names)
        order = ", ".join(each.text(names) for each in self.order)
        return f"{self.function}({'distinct ' * self.distinct}{value}{' order by ' * bool(order)}{order})"


@dataclass(frozen=True)
class _Step:
    """The groups that an epoch affects."""

    groups: Codes
    firsts: Ints  # a row of each group in ``keys``
    keys: list[pa.Array]
    state: IntTable
    old_size: Ints
    existing: list[tuple[Run, Ints, Ints]]  # states of existing groups: run, groups, positions
    new: Ints  # the groups that do not exist yet


class GroupOperator(ViewOperator):
    """Groups the rows of an input. Nulls are one key, and NaNs are one key. Without keys, there is always one group.

    A group is a row with its key. Its state is the mutable state of that row, which `GroupLayout` describes.
    """

    def __init__(
        self,
        label: str,
        source: ViewOperator,
        keys: Sequence[Expression],
        aggregates: Sequence[GroupAggregate],
        domain: KeyDomain,
    ) -> None:
        super().__init__(label, [*(each.type for each in keys), *(each.type for each in aggregates)], (source,))
        self._keys = keys
        self._arguments = aggregates
        identity_of(self.schema, label)
        distinct = {each.value for each in aggregates if each.distinct}
        self._values = {
            each.values_key: GroupValues(
                _argument_type(each), distinct=each.value in distinct and not each.order, order=each.order
            )
            for each in aggregates
            if each.value is not None and (each.distinct or each.function in ("min", "max", "first"))
        }
        self._accumulators = [self._accumulator(each) for each in aggregates]
        digits = [(sums.base, len(sums.lines)) for each in self._accumulators for sums in each.sums(0)]
        fixed_lines = _OWN_LINES + sum(each.fixed_lines for each in self._accumulators)
        self._layout = GroupLayout(fixed_lines, tuple(digits))
        # Without keys, a column without values makes room for the row.
        schema = schema_of([each.type for each in keys] or [pa.bool_()])
        self.arrangement = Arrangement(schema, identity_of(schema, label), 0, self._layout.lines)
        self._domain = domain
        domain.arrangements.append(self.arrangement)
        self._next_number = 0
        self._free = np.zeros(0, np.int64)
        self._step: _Step | None = None

    @property
    def waits(self) -> bool:
        """Whether a step needs changes. Without keys, the first step emits the group even without rows."""
        return bool(self._keys) or bool(self.arrangement.rows)

    @property
    def has_parts(self) -> bool:
        """Whether there may be several groups."""
        return bool(self._keys)

    def part_hashes(self, _input_number: int, batch: pa.RecordBatch, /) -> Words:
        """Return the hashes of the keys."""
        keys = [evaluate(key, batch.columns, batch.num_rows) for key in self._keys]
        return self._domain.hashes_of(keys, batch.num_rows)

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the old and new rows of changed groups."""
        batch, weights = ChangeBatch.joined(input_changes[0], self.inputs[0].schema)
        keys = [evaluate(key, batch.columns, batch.num_rows) for key in self._keys]
        groups, firsts, rows = _distinct(self._domain.of(keys, batch.num_rows), self._domain.count)
        if not self._keys:
            groups = np.zeros(1, np.int32)
        self._step = step = self._begin(groups, firsts, keys)
        np.add.at(step.state[_SIZE], rows, weights)
        for argument, accumulator in zip(self._arguments, self._accumulators, strict=True):
            self._add(accumulator, argument, batch, rows, weights)
        return self._changed(step)

    def expected_rows(self, rows: Sequence[float]) -> float:
        """Return the number of old and new rows of as many groups as there are changes."""
        return 2 * min(sum(rows), max(self.rows, 1))

    def _begin(self, groups: Codes, firsts: Ints, keys: list[pa.Array]) -> _Step:
        """Find the state of the affected groups, and begin an epoch in all accumulators."""
        state = np.zeros((self._layout.lines, len(groups)), np.int64)
        exists = np.zeros(len(groups), np.bool_)
        probe = Delta.probing(groups, self.arrangement.schema)
        existing: list[tuple[Run, Ints, Ints]] = []
        for run, here, positions in self.arrangement.matching_rows(probe):
            state[:, here] = np.take(run.counts, positions, axis=1)
            exists[here] = True
            existing.append((run, here.astype(np.int64), positions.astype(np.int64)))
        new = np.flatnonzero(~exists)
        reused = self._free[max(0, len(self._free) - len(new)) :]
        state[_NUMBER, new[: len(reused)]] = reused
        state[_NUMBER, new[len(reused) :]] = np.arange(len(new) - len(reused)) + self._next_number
        numbers = state[_NUMBER].astype(np.int32)
        for values in self._values.values():
            values.begin(numbers)
        old_size = state[_SIZE].copy()
        for accumulator, fixed, sums in self._parts(state):
            accumulator.begin(fixed, sums, numbers)
        return _Step(groups, firsts, keys, state, old_size, existing, new)

    def _parts(self, state: IntTable) -> Iterator[tuple[Accumulator, IntTable, Sequence[Sums]]]:
        digits = iter(self._layout.digits)
        first, first_digit = _OWN_LINES, self._layout.fixed_lines
        for accumulator in self._accumulators:
            sums = []
            for none in accumulator.sums(0):
                base, count = next(digits)
                sums.append(Sums(state[first_digit : first_digit + count], base, none.special))
                first_digit += count
            yield accumulator, state[first : first + accumulator.fixed_lines], sums
            first += accumulator.fixed_lines

    def _add(
        self, accumulator: Accumulator, argument: GroupAggregate, batch: pa.RecordBatch, rows: Ints, weights: Ints
    ) -> None:
        if argument.value is None:
            accumulator.add(rows, None, weights)
            return
        arrays = [evaluate(each, batch.columns, batch.num_rows) for each in argument.read]
        values = arrays[-1]
        valid = None if argument.keeps_nulls else validity(values)
        if argument.order:
            values = pa.StructArray.from_arrays(arrays, fields=list(_argument_type(argument)))
        if valid is not None:
            valid_rows = np.flatnonzero(valid)
            values, rows, weights = (
                rows_of(values, array_of(valid_rows, pa.int64())),
                rows[valid_rows],
                weights[valid_rows],
            )
        if argument.distinct and len(rows):
            # Each is added with its first row, and removed with its last.
            rows, values, weights = self._values[argument.values_key].appeared(rows, values, weights)
        if len(rows):
            accumulator.add(rows, values, weights)

    def _changed(self, step: _Step) -> ChangeBatches:
        was, now = step.old_size > 0, step.state[_SIZE] > 0
        assert (step.state[_SIZE] >= 0).all(), f"{self.label} received deletes of rows that it does not store"
        if not self._keys:
            was, now = np.array([not len(step.new)]), np.array([True])
        before = [each.before() for each in self._accumulators]
        after = [each.after() for each in self._accumulators]
        same = was & now
        for pair in zip(before, after, strict=True):
            same[true_rows(FUNCTIONS["distinct_from"](pair, None))] = False
        retracted, emitted = np.flatnonzero(was & ~same), np.flatnonzero(now & ~same)
        if not len(retracted) + len(emitted):
            return []
        # One batch, because the cost downstream is mostly per batch.
        changed = np.concatenate([retracted, emitted])
        groups = array_of(step.firsts[changed] if step.keys else np.zeros(0, np.int64), pa.int64())
        values = array_of(np.concatenate([retracted, emitted + len(was)]), pa.int64())
        arrays = [rows_of(each, groups) for each in step.keys]
        arrays += [rows_of(concatenated(pair), values) for pair in zip(before, after, strict=True)]
        weights = np.repeat(np.array([-1, 1], np.int64), [len(retracted), len(emitted)])
        return [ChangeBatch(batch_of(arrays, self.schema), weights)]

    def commit(self) -> None:
        """Write the states of the affected groups."""
        if self._step is None:
            return
        step, self._step = self._step, None
        ends = [each.end() for each in self._accumulators]
        sums = [each for _, group_sums in ends for each in group_sums]
        self._widen([(each.base, len(each.lines)) for each in sums])
        state = np.concatenate([step.state[:_OWN_LINES], *(lines for lines, _ in ends), *(each.lines for each in sums)])
        weights = (state[_SIZE] > 0).astype(np.int64) if self._keys else np.ones(1, np.int64)
        for run, here, positions in step.existing:
            self.arrangement.set_state(run, positions, weights[here], np.take(state, here, axis=1))
        self._free = np.concatenate(
            [self._free[: max(0, len(self._free) - len(step.new))], state[_NUMBER][weights == 0]]
        )
        self._next_number = max(self._next_number, int(state[_NUMBER].max(initial=-1)) + 1)
        rows = step.new[weights[step.new] > 0]
        if len(rows):
            firsts = array_of(step.firsts[rows] if step.keys else np.zeros(0, np.int64), pa.int64())
            columns = [rows_of(each, firsts) for each in step.keys] or [pa.nulls(1, pa.bool_())]
            none, batch = np.zeros((0, len(rows)), np.int64), batch_of(columns, self.arrangement.schema)
            hashes, counts = np.zeros(len(rows), np.int64), np.take(state, rows, axis=1)
            self.arrangement.add(Run(Delta(batch, weights[rows], step.groups[rows], none, hashes), counts, 0))
        self.arrangement.compact()
        for values in self._values.values():
            values.commit()

    def abandon(self) -> None:
        """Discard the changes of the groups."""
        if self._step is not None:
            self._step = None
            for values in self._values.values():
                values.abandon()

    def forget(self, frontiers: Frontiers) -> None:
        """Remove final groups with their values. Their numbers are used again."""
        arrangements = [self.arrangement, *(each.arrangement for each in self._values.values())]
        if not self.futures or not any(each.may_evict for each in arrangements):
            return
        numbers = self.arrangement.evict(partial(final_rows, self.futures["groups"], frontiers=frontiers))[_NUMBER]
        self._free = np.concatenate([self._free, numbers])
        for each in self._values.values():
            each.arrangement.evict(lambda batch: np.isin(groups_of(batch), numbers))

    def living(self) -> Iterator[ChangeBatch]:
        """Yield the rows of all groups."""
        for rows in self.arrangement.states():
            numbers = rows.counts[_NUMBER].astype(np.int32)
            for accumulator, fixed, sums in self._parts(rows.counts):
                accumulator.begin(fixed, sums, numbers)
            columns = [*self._keys_of(rows.batch), *(each.before() for each in self._accumulators)]
            for values in self._values.values():
                values.table.drop()
            yield ChangeBatch(batch_of(columns, self.schema), np.ones(len(rows), np.int64))

    def _widen(self, digits: list[tuple[int, int]]) -> None:
        """Make room for more digits of sums in the states of all groups."""
        if tuple(digits) == self._layout.digits:
            return
        self._layout = layout = self._layout.with_digits(digits)
        self.arrangement.lines = layout.lines
        for run in self.arrangement.runs:
            run.counts = layout.current(np.concatenate([run.weights[None], run.counts]))[1:]
            if run.disk_copy is not None:
                run.disk_copy.run.convert = layout.current
        for stored in [] if self.arrangement.pages is None else self.arrangement.pages.stored:
            stored.convert = layout.current

    @property
    def rows(self) -> int:
        """Number of groups, including some that became empty."""
        return self.arrangement.rows

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The groups, and their values for MIN, MAX and DISTINCT."""
        groups = StateTable(
            self.arrangement,
            self._domain,
            self._codes_of,
            partial(self._domain.key_hashes, keys_of=self._keys_of),
            convert=lambda: self._layout.current,
            notes=self._notes,
            recall=self._recall,
        )
        return {"groups": groups} | {f"values {n}": each.table for n, each in enumerate(self._values.values())}

    def _keys_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return list(batch.columns) if self._keys else []

    def _codes_of(self, batch: pa.RecordBatch) -> Codes:
        return self._domain.of(self._keys_of(batch), batch.num_rows)

    def _notes(self) -> dict[str, Any]:
        return {"next": self._next_number, "digits": self._layout.digits, "earlier": self._layout.earlier}

    def _recall(self, notes: dict[str, Any] | None) -> None:
        if notes is not None:
            self._next_number = notes["next"]
            digits, *earlier = (
                tuple((base, count) for base, count in each) for each in (notes["digits"], *notes["earlier"])
            )
            self._layout = GroupLayout(self._layout.fixed_lines, digits, tuple(earlier))
            self.arrangement.lines = self._layout.lines

    def _accumulator(self, aggregate: GroupAggregate) -> Accumulator:
        if aggregate.value is None:
            return CountAccumulator()
        function, values = aggregate.function, self._values.get(aggregate.values_key)
        if function in ("min", "max", "first"):
            assert values is not None
            return ExtremeAccumulator(values, greatest=function == "max")
        if function in ("bool_and", "bool_or"):
            return TruthAccumulator(of_all=function == "bool_and")
        if function == "count":
            return CountAccumulator()
        if function in ("sum", "avg"):
            return SumAccumulator(aggregate.value.type, aggregate.type, average=function == "avg")
        return VarianceAccumulator(is_sample=function.endswith("samp"), is_root=function.startswith("stddev"))


def _argument_type(aggregate: GroupAggregate) -> pa.DataType:
    """Return the type of the values of an aggregate: with an order, structs of the sort keys and the value."""
    types = [each.type for each in aggregate.read]
    return pa.struct([(str(number), each) for number, each in enumerate(types)]) if aggregate.order else types[-1]


def _distinct(codes: Codes, count: int) -> tuple[Codes, Ints, Ints]:
    """Return the distinct codes below ``count``, ascending, their first rows, and the position of each row's code."""
    if count > _SCATTERED_CODES * len(codes):
        groups, firsts, rows = np.unique(codes, return_index=True, return_inverse=True)
        return groups, firsts, rows
    firsts = np.full(count, -1, np.int64)
    # In reverse, so that the first row is written last.
    firsts[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    groups = np.flatnonzero(firsts >= 0).astype(np.int32)
    ranks = np.empty(count, np.int64)
    ranks[groups] = np.arange(len(groups))
    return groups, firsts[groups], ranks[codes]
