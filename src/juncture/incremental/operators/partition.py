"""Queries of DuckDB over the rows of partitions. An epoch computes only the affected part of a partition again.

With an order, a changed row affects the results from ``following`` before it to ``preceding`` after it, where these are
the extents of the frame. The rows that these results read are as far from them in turn. A running value, such as a rank
or a total from the first row on, changes from the first changed row on. It continues from an unchanged result before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, joined_batches, raw_values, rows_at, rows_of
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import Call, Constant, Expression, InputColumn
from juncture.incremental.expressions.functions import FUNCTIONS
from juncture.incremental.operators.arranged import ArrangedOperator
from juncture.incremental.operators.operator import ViewOperator, batch_of
from juncture.incremental.operators.order import RowOrder
from juncture.incremental.state.run import Delta
from juncture.kernels.array_types import Codes, Ints
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, moved

_MOST_CODES = 256  # Distinct codes that are searched one after the other. Beyond, the whole partition is read.

_SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
"""The comparison that is equal to another one with its operands exchanged."""


@dataclass(frozen=True)
class Extent:
    """A distance in the order of a partition: of rows, steps in order codes, or distinct codes, the farthest one."""

    rows: int = 0
    steps: int = 0
    is_unlimited: bool = False
    peers: int = 0  # number of distinct codes

    def __or__(self, other: Extent) -> Extent:
        """Return the farther one."""
        unlimited = self.is_unlimited or other.is_unlimited
        peers = max(self.peers, other.peers)
        return Extent(max(self.rows, other.rows), max(self.steps, other.steps), unlimited, peers)


@dataclass(frozen=True)
class PartitionOrder:
    """The order of the rows of a partition, and what a result depends on."""

    by: RowOrder  # the first sort key
    preceding: Extent  # how far before a row are rows that its result reads, apart from running values
    following: Extent  # how far after it
    running: tuple[str, ...]  # how each result continues: ``add``, ``least``, ``greatest``, or "" if it is not running
    ranks: frozenset[int] = frozenset()  # the positions of row numbers and ranks among the results
    dense: frozenset[int] = frozenset()  # those of dense ranks, which count distinct values
    limit: tuple[int, int] | None = None  # the position of a rank among the results, and the greatest one to return

    def limited(self, conditions: Sequence[Expression], first: int) -> PartitionOrder:
        """Return the order with the lowest limit that follows from conditions. Results start at column ``first``."""
        limits = [self._limit(each, first) for each in conditions]
        limit = min((each for each in limits if each is not None), key=lambda each: each[1], default=self.limit)
        return replace(self, limit=limit)

    def _limit(self, condition: Expression, first: int) -> tuple[int, int] | None:
        """Return the position of a rank, and the greatest for which a condition may be true."""
        if not isinstance(condition, Call) or len(condition.operands) != 2:
            return None
        (one, other), function = condition.operands, condition.function
        if isinstance(one, Constant):
            one, other, function = other, one, _SWAPPED.get(function, function)
        if not isinstance(one, InputColumn) or not isinstance(other, Constant) or not isinstance(other.value, int):
            return None
        if one.index - first not in self.ranks | self.dense or function not in ("equal", "less", "less_equal"):
            return None
        return one.index - first, other.value - (function == "less")


@dataclass(frozen=True)
class _Segments:
    """The affected parts of partitions, by key and code."""

    keys: Codes
    low: Ints  # results with codes from here
    high: Ints  # to here may change
    first: Ints  # they read the rows from here
    last: Ints  # to here
    anchors: Ints  # codes of the last rows before ``low``, or `MIN_CODE`
    of_delta: Ints  # the segment of each changed row


class PartitionOperator(ViewOperator):
    """Returns what a query returns for the rows of each partition.

    The query reads the number of each row, the number of its partition, and the columns ``reads``. A query of windows
    (``adds_columns``) returns the number of a row and values for it. Other queries return rows, at least one without
    ``keys``. The operator's own result, arranged like the rows in ``results``, has the rows to retract.
    """

    def __init__(
        self,
        label: str,
        types: Sequence[pa.DataType],
        rows: ArrangedOperator,
        reads: Sequence[int],
        query: DuckQuery,
        *,
        adds_columns: bool,
        order: PartitionOrder | None,
    ) -> None:
        super().__init__(label, types, (rows,))
        self._rows = rows
        self._reads = reads
        self._query = query
        self._adds_columns = adds_columns
        self._order = order
        self._is_running = order is not None and any(order.running)
        self.computed_rows = 0  # number of rows that the query has read in all epochs
        self.results: ArrangedOperator

    @property
    def reads(self) -> Collection[ViewOperator]:
        """The rows, and the results of the operator."""
        return self._rows, self.results

    @property
    def has_parts(self) -> bool:
        """Whether there are several partitions."""
        return bool(self._rows.keys)

    @property
    def waits(self) -> bool:
        """Whether a step needs changes. A query without partitions returns a row for an empty input too."""
        return bool(self._rows.keys) or self._adds_columns or bool(self.results.arrangement.rows)

    def step(self, _flows: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the old and new rows of the affected parts of partitions."""
        delta = self._rows.delta
        if not len(delta) and self.waits:
            return []
        segments = self._segments(delta)
        if not len(segments.keys):
            return []
        changes = [self._computed(segments, self._gathered(segments, delta))]
        for run, _, positions in self.results.arrangement.between(segments.keys, segments.low, segments.high):
            changes.append(ChangeBatch(run.taken(positions), -run.weights[positions]))
        sums, _ = self.results.identity.consolidated(ChangeBatch.joined(changes, self.schema))
        return [sums] if len(sums.weights) else []

    def expected_rows(self, rows: Sequence[float]) -> float:
        """Return the number of old and new results of whole partitions, or of the rows within a frame."""
        most, order = self.results.rows_per_key, self._order
        if order is not None and not self._is_running and not (order.preceding | order.following).is_unlimited:
            reach = order.preceding | order.following
            most = min(most, 1.0 + 2 * max(reach.rows, reach.peers))
        return 2 * most * sum(rows)

    # The affected parts

    def _segments(self, delta: Delta) -> _Segments:
        """Return the parts of partitions that changes affect."""
        order = self._order
        codes = np.zeros(len(delta), np.int64) if order is None else delta.codes[0]
        is_first = np.ones(len(delta), np.bool_)
        is_first[1:] = delta.keys[1:] != delta.keys[:-1]
        if order is not None:
            is_first[1:] |= codes[1:] != codes[:-1]
        keys, codes, of_delta = delta.keys[is_first], codes[is_first], np.cumsum(is_first) - 1
        if not len(delta):
            keys, codes = self._rows.domain.of([], 1), np.zeros(1, np.int64)
        if order is None:
            least, most = np.full(len(keys), MIN_CODE), np.full(len(keys), MAX_CODE)
            return _Segments(keys, least, most, least, most, least, of_delta)
        if order.limit is not None:
            return self._first_segments(delta, keys, codes, of_delta)
        low = self._reached(keys, codes, order.following, forward=False)
        high = self._reached(keys, codes, Extent(is_unlimited=True) if self._is_running else order.preceding)
        first = self._reached(keys, low, order.preceding, forward=False)
        last = self._reached(keys, high, order.following)
        anchors = self._reached(keys, low, Extent(rows=int(self._is_running)), forward=False)
        # Parts that read the same rows become one.
        starts = np.ones(len(keys), np.bool_)
        starts[1:] = (keys[1:] != keys[:-1]) | (first[1:] > last[:-1])
        at, of_delta = np.flatnonzero(starts), (np.cumsum(starts) - 1)[of_delta]
        ends = np.append(at[1:], len(keys)) - 1
        # All codes ascend within a partition.
        return _Segments(
            keys[at], low[at], high[ends], np.minimum(first[at], anchors[at]), last[ends], anchors[at], of_delta
        )

    def _first_segments(self, delta: Delta, keys: Codes, codes: Ints, of_delta: Ints) -> _Segments:
        """Return the first rows of partitions up to the greatest rank, where changes affect them."""
        assert self._order is not None and self._order.limit is not None
        starts = np.ones(len(keys), np.bool_)
        starts[1:] = keys[1:] != keys[:-1]
        at, numbers = np.flatnonzero(starts), np.cumsum(starts) - 1
        keys, of_delta = keys[at], numbers[of_delta]
        deletes = np.bincount(of_delta, np.maximum(-delta.weights, 0), len(keys)).astype(np.int64)
        # Deleted rows are among those that are counted.
        more = int(deletes.max(initial=0))
        least, high = np.full(len(keys), MIN_CODE), np.full(len(keys), MAX_CODE)
        column, limit = self._order.limit
        if column in self._order.dense:
            high = self._nth_codes(keys, least, max(limit, 1) + more, forward=True)
        else:
            self._rows.arrangement.neighbours(keys, least, limit + more, high, forward=True)
        following = self._order.following
        rows, peers = (each + more * (each > 0) for each in (following.rows, following.peers))
        last = self._reached(keys, high, replace(following, rows=rows, peers=peers))
        low = self._reached(keys, codes[at], following, forward=False)
        here = low <= high
        positions = np.flatnonzero(here)
        numbers = np.where(here, np.cumsum(here) - 1, -1)
        least = least[positions]
        return _Segments(keys[positions], least, high[positions], least, last[positions], least, numbers[of_delta])

    def _reached(self, keys: Codes, codes: Ints, extent: Extent, *, forward: bool = True) -> Ints:
        """Return how far an extent reaches from some codes, at most to the end of the partition."""
        end = MAX_CODE if forward else MIN_CODE
        if extent.is_unlimited:
            return np.full(len(codes), end)
        reached = codes
        if extent.rows:
            reached = np.full(len(codes), end)
            start = moved(codes, 1 if forward else -1)
            self._rows.arrangement.neighbours(keys, start, extent.rows, reached, forward=forward)
        if extent.peers:
            start = moved(codes, 1 if forward else -1)
            far = self._nth_codes(keys, start, extent.peers, forward=forward)
            reached = np.maximum(reached, far) if forward else np.minimum(reached, far)
        if extent.steps:
            far = moved(codes, extent.steps if forward else -extent.steps)
            reached = np.maximum(reached, far) if forward else np.minimum(reached, far)
        return reached

    def _nth_codes(self, keys: Codes, start: Ints, nth: int, *, forward: bool) -> Ints:
        """Return the nth distinct code of each key from some codes on, or the end of the partition."""
        end = np.full(len(keys), MAX_CODE if forward else MIN_CODE)
        ends = end
        for _ in range(nth if nth <= _MOST_CODES else 0):
            ends = end.copy()
            self._rows.arrangement.neighbours(keys, start, 1, ends, forward=forward)
            start = moved(ends, 1 if forward else -1)
        return ends

    def _gathered(self, segments: _Segments, delta: Delta) -> Delta:
        """Return the rows of parts after the epoch by part, code and hash, with the part as the key."""
        here = segments.of_delta >= 0
        if len(delta.codes):
            here &= delta.codes[0] <= segments.last[segments.of_delta]
        changed = delta.some(np.flatnonzero(here))
        parts = [replace(changed, keys=segments.of_delta[here].astype(np.int32))]
        for run, rows, positions in self._rows.arrangement.between(segments.keys, segments.first, segments.last):
            parts.append(replace(run.at(positions), keys=rows))
        gathered = Delta.joined(parts).summed(self._rows.identity)
        assert (gathered.weights > 0).all(), f"{self.label} received deletes of rows that it does not store"
        return gathered

    # Results

    def _computed(self, segments: _Segments, rows: Delta) -> ChangeBatch:
        copies: Ints = np.repeat(np.arange(len(rows)), rows.weights)
        columns = rows_at(rows.batch, copies)
        # The query reads the number of each row, to return values in any order, and to break ties always the same way.
        numbers = array_of(np.arange(len(copies)), pa.int64())
        self.computed_rows += len(copies)
        parts = rows.keys[copies].astype(np.int64)
        read = [columns.column(index) for index in self._reads]
        result = self._query.run([numbers, array_of(parts, pa.int64()), *read])
        if not self._adds_columns:
            return ChangeBatch(batch_of(result.columns, self.schema), np.ones(result.num_rows, np.int64))
        order, values = raw_values(result.column(0), np.int64), result.columns[1:]
        if self._order is not None:
            codes, parts = rows.codes[0][copies][order], parts[order]
            if self._is_running:
                values = self._continued(segments, rows.hashes[copies][order], parts, codes, values)
            affected = (codes >= segments.low[parts]) & (codes <= segments.high[parts])
            if self._order.limit is not None:
                index, most = self._order.limit
                affected &= raw_values(values[index], np.int64) <= most
            chosen = np.flatnonzero(affected)
            order, values = order[chosen], [rows_of(each, array_of(chosen, pa.int64())) for each in values]
        batch = batch_of([*rows_at(columns, order).columns, *values], self.schema)
        return ChangeBatch(batch, np.ones(len(order), np.int64))

    def _continued(
        self, segments: _Segments, hashes: Ints, parts: Ints, codes: Ints, values: list[pa.Array]
    ) -> list[pa.Array]:
        """Return running values that continue from the anchors: the first row of a code by hash, before the part."""
        assert self._order is not None
        begun = np.flatnonzero(segments.first > MIN_CODE)
        if not len(begun):
            return values
        anchors = segments.anchors[begun]
        new = np.flatnonzero((segments.first[parts] > MIN_CODE) & (codes == segments.anchors[parts]))
        batches, old_parts = [self.results.delta.batch.slice(0, 0)], [np.zeros(0, np.int64)]
        for run, rows, positions in self.results.arrangement.between(segments.keys[begun], anchors, anchors):
            copies = np.repeat(positions, run.weights[positions])
            batches.append(run.taken(copies))
            old_parts.append(np.repeat(begun[rows], run.weights[positions]))
        old = joined_batches(batches)
        width = len(self._rows.schema)
        old_hashes = self._rows.identity.hashes(batch_of(old.columns[:width], self._rows.schema))
        count = len(segments.keys)
        continued = []
        for index, function in enumerate(self._order.running):
            each = values[index]
            if function:
                before = _first_values(old.column(width + index), np.concatenate(old_parts), old_hashes, count)
                after = _first_values(rows_of(each, array_of(new, pa.int64())), parts[new], hashes[new], count)
                each = _combined(function, each, before, after, array_of(parts, pa.int64()))
            continued.append(each)
        return continued


def _first_values(values: pa.Array, parts: Ints, hashes: Ints, count: int) -> pa.Array:
    """Return for each of ``count`` parts the least value of the rows with the least hash, or null."""
    rows = pc.sort_indices(
        pa.table([array_of(parts, pa.int64()), array_of(hashes, pa.int64()), values], ["part", "hash", "value"]),
        sort_keys=[("part", "ascending"), ("hash", "ascending"), ("value", "ascending")],
    ).to_numpy()
    numbers, first = np.unique(parts[rows], return_index=True)
    positions: Ints = np.full(count, -1, np.int64)
    positions[numbers] = rows[first]
    return values.take(array_of(positions, pa.int64(), positions >= 0))


def can_continue(function: str, of: pa.DataType) -> bool:
    """Return whether a function of `PartitionOrder.running` continues values of a type exactly."""
    is_ordered = bool(pat.is_string(of) or pat.is_timestamp(of) or pat.is_date(of))
    return bool(function) and bool(pat.is_integer(of) or pat.is_decimal(of) or (is_ordered and function != "add"))


def _combined(function: str, values: pa.Array, before: pa.Array, after: pa.Array, parts: pa.Array) -> pa.Array:
    """Return running values of parts from those that begin with the part. Values of anchors may be null."""
    if function != "add":
        return FUNCTIONS[function]([values, before.take(parts)], None).cast(values.type)
    zero = pa.scalar(0).cast(values.type)
    no_value = pc.and_(pc.is_null(values), pc.is_null(before.take(parts)))
    values_or_zero = [pc.fill_null(each, zero) for each in (values, before, after)]
    offsets = FUNCTIONS["subtract"](values_or_zero[1:], None).take(parts)
    total = FUNCTIONS["add"]([values_or_zero[0], offsets], None).cast(values.type)
    return pc.if_else(no_value, pa.scalar(None, values.type), total)


class ExpandOperator(ViewOperator):
    """Returns any number of rows for each row: a query returns the number of a row and values for each."""

    is_stateless = True
    multiplies = True

    def __init__(
        self, label: str, types: Sequence[pa.DataType], source: ViewOperator, reads: Sequence[int], query: DuckQuery
    ) -> None:
        super().__init__(label, types, (source,))
        self._reads = reads
        self._query = query

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the rows for each row."""
        return [self._expanded(*change) for change in input_changes[0] if change.rows.num_rows]

    def _expanded(self, batch: pa.RecordBatch, weights: Ints) -> ChangeBatch:
        numbers = array_of(np.arange(batch.num_rows), pa.int64())
        result = self._query.run([numbers, *(batch.column(index) for index in self._reads)])
        rows = raw_values(result.column(0), np.int64)
        arrays = [*rows_at(batch, rows).columns, *result.columns[1:]]
        return ChangeBatch(batch_of(arrays, self.schema), weights[rows])
