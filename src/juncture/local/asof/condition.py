"""As-of joins with a further condition: from where a left row's ``on`` goes, look outward until enough rows satisfy it.

What the condition asks to be equal becomes part of the key, and what it asks of one side alone is looked at once. For
what is left pairs are tried in rounds: a few of the nearest right rows of every left row first, then more and more of
those further out, for the left rows alone that still lack a match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.columnar.key_table import KeyCodes
from juncture.kernels import asof_available as kernels
from juncture.kernels.array_types import Codes, Ints, Rows
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.sort import mark_runs
from juncture.local.asof.batches import Batch, nothing, search_batches, sorted_by_key, turned
from juncture.local.asof.sides import Left, RightRows, SideCodes
from juncture.local.keys import equal_columns, equal_types
from juncture.ordered.domain import Domain, RankCoder
from juncture.predicate.decompose.shape import shape
from juncture.predicate.evaluate.evaluate import matches
from juncture.predicate.language.nodes import Node, columns
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import Slots, sort_slots
from juncture.runtime.sources import Source
from juncture.runtime.take import gather, joined
from juncture.spec.asof import Direction, ResolvedAsof
from juncture.spec.condition import EqualValues
from juncture.spec.predicate_condition import equalities_of
from juncture.spec.schema import SIDES, Side

_FIRST_ROWS = 2  # how many right rows of each left one are tried first
_GROWTH = 4
_PAIRS = 1 << 16  # how many pairs a thread tries at once
_ROW_BYTES = 40  # what keys and order of a row take besides the columns of the condition


@dataclass(frozen=True)
class Condition:
    """A condition, taken apart. None is no condition."""

    equalities: tuple[EqualValues, ...]
    left_filter: Node | None  # what a left row has to satisfy by itself
    right_filter: Node | None  # what a right row has to satisfy by itself
    predicate: Node | None  # what pairs have to satisfy besides
    names: dict[Side, tuple[str, ...]]  # the columns of each side that the condition reads

    @classmethod
    def of(cls, where: Node) -> Condition:
        """Take a condition apart."""
        parts = shape(where)
        equalities, exact = equalities_of(parts)
        is_left = not exact or parts.residual is not None or bool(parts.intervals)
        read = columns(where)
        names = {side: tuple(dict.fromkeys(each.name for each in read if each.side == side)) for side in SIDES}
        return cls(tuple(equalities), parts.left_filter, parts.right_filter, where if is_left else None, names)

    def row_bytes(self, source: Source, side: Side) -> int:
        """Return about how many bytes a search holds of each row of a side."""
        return _ROW_BYTES + 2 * source.plain_bytes_of(self.names[side]) // max(source.num_rows, 1)


class _Rows:
    """What the condition looks at of some rows of a side."""

    def __init__(self, source: Source, names: Sequence[str], numbers: Ints, context: JoinContext) -> None:
        self._names = [*names, "row " + " ".join(names)]
        self._columns = [_combined(column) for column in gather(source, names, numbers, context)]

    def take(self, rows: Ints | Rows) -> pa.Table:
        """Return some of them. A table without columns would have no rows, so that one is added."""
        index = array_of(rows, pa.int32() if rows.dtype == np.int32 else pa.int64())
        return pa.table([*(rows_of(column, index) for column in self._columns), index], names=self._names)


def _combined(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return joined(column.chunks) if column.num_chunks else column


def search_where(
    condition: Condition,
    join: ResolvedAsof,
    left: Left,
    source: Source,
    first_row: int,
    right: RightRows,
    directions: Sequence[Direction],
    candidate_count: int,
    context: JoinContext,
    *,
    at_once: bool,
    within_tolerance: bool,
) -> list[Ints]:
    """Return each slot's best right rows in each direction that satisfy a condition, as `probe` does.

    `first_row` is the number of the first row of `left` in `source`. With `at_once`, all right rows are buffered,
    rather than as many at a time as fit. With `within_tolerance`, the search ends at the tolerance.

    Time O(R log R + L log R) and that of the pairs tried: for each left row about as many as there are right rows
    nearer than its matches, or all on that side if too few satisfy the condition.
    """
    left_values = _Rows(source, condition.names["left"], left.slots.rows + np.int64(first_row), context)
    keys = KeyCodes(*_key_types(condition))
    slots = _narrowed(condition, "left", keys, left_values, left.slots, context)
    by_distance = within_tolerance and join.tolerance is not None and not isinstance(right.coder, RankCoder)

    def searcher(loaded: SideCodes) -> Callable[[Direction], Ints]:
        batch = sorted_by_key(loaded, left.slots.key_count, right, context)
        right_values = _Rows(right.source, condition.names["right"], batch.pointers, context)
        every = Slots(batch.on, np.arange(len(batch.pointers), dtype=np.int32), batch.starts)
        rows = _narrowed(condition, "right", keys, right_values, every, context)

        def search(direction: Direction) -> Ints:
            farthest = _farthest(slots, left, join.domain, direction.forward) if by_distance else np.zeros(0, np.int64)
            spans = _spans(slots, rows, farthest, direction, context)
            return _Walk(
                condition.predicate, left, slots, left_values, batch, rows, right_values, direction, candidate_count
            ).run(spans, context)

        return search

    row_bytes = condition.row_bytes(right.source, "right")
    return search_batches(
        left.slots, right, directions, candidate_count, context, searcher, at_once=at_once, row_bytes=row_bytes
    )


def _key_types(condition: Condition) -> tuple[list[pa.DataType], list[pa.DataType]]:
    """Return the types of the columns of a key: a number for that of ``by``, and what else is equal."""
    left, right = ([pa.int32(), *equal_types(condition.equalities, side)] for side in SIDES)
    return left, right


def _narrowed(
    condition: Condition, side: Side, keys: KeyCodes, rows: _Rows, slots: Slots, context: JoinContext
) -> Slots:
    """Return the rows of a side that pass its filter, by all that is equal; their numbers are those of the slots."""
    node = condition.left_filter if side == "left" else condition.right_filter
    count = len(slots)
    passed = np.arange(count, dtype=np.int32)
    if node is not None and count:
        table = rows.take(passed)
        passed = passed[(matches(node, left=table) if side == "left" else matches(node, right=table)).to_numpy(False)]
    if node is None and not condition.equalities:
        return Slots(slots.on, passed, slots.starts)
    groups = np.repeat(np.arange(slots.key_count, dtype=np.int32), np.diff(slots.starts))
    codes: Codes = np.full(count, EMPTY, np.int32)
    codes[passed] = groups[passed]
    key_count = slots.key_count
    if condition.equalities:
        codes[passed] = _key_codes(condition, side, keys, rows, groups[passed], passed)
        key_count = keys.count
    row_numbers = np.flatnonzero(codes != EMPTY).astype(np.int32)
    return sort_slots(codes, slots.on, row_numbers, max(key_count, 1), context)


def _key_codes(condition: Condition, side: Side, keys: KeyCodes, rows: _Rows, groups: Codes, passed: Rows) -> Codes:
    """Return codes of the keys of some rows: left ones are given new ones, right ones looked up."""
    codes = np.full(len(passed), EMPTY, np.int32)
    if len(passed) == 0:
        return codes
    columns = [array_of(groups, pa.int32()), *equal_columns(condition.equalities, side, rows.take(passed))]
    (keys.add if side == "left" else keys.find)(columns, codes)
    return codes


def _farthest(slots: Slots, left: Left, domain: Domain, forward: bool) -> Ints:
    """Return the farthest code that each slot may take, or one that is a little farther among floats."""
    on = slots.on[: len(slots)]
    limits = np.asarray(left.limits, np.uint64)
    limits = limits[left.slots.rows[slots.rows]] if len(limits) > 1 else np.broadcast_to(limits, len(on))
    return domain.around(on, limits)[forward]


def _spans(slots: Slots, rows: Slots, farthest: Ints, direction: Direction, context: JoinContext) -> Ints:
    """Return the right rows of each slot's key on the wanted side: the nearest, and how many there are."""
    spans = np.zeros((len(slots), 2), np.int64)
    # A key that only the left side has comes after all that the right side was sorted into.
    missing = max(0, slots.key_count - rows.key_count)
    starts = np.concatenate([rows.starts, np.repeat(rows.starts[-1:], missing)])

    def find(part: tuple[int, int, int]) -> None:
        kernels.find_spans(
            slots.on, slots.starts, *part, rows.on, starts, farthest, direction.forward, direction.strict, spans
        )

    context.threads.run(find, slots.ranges(context))
    return spans


@dataclass(frozen=True)
class _Walk:
    """Right rows tried one after the other, the nearest first."""

    predicate: Node | None  # what pairs have to satisfy; None for nothing
    left: Left
    slots: Slots  # the left rows that satisfy the conditions of their side
    left_values: _Rows  # the left columns that the condition reads
    batch: Batch
    rows: Slots  # the right rows that satisfy the conditions of their side
    right_values: _Rows  # the right columns that the condition reads
    direction: Direction
    candidate_count: int  # how many rows to find

    def run(self, spans: Ints, context: JoinContext) -> Ints:
        """Return the first rows that satisfy the condition, for all slots of the left side."""
        best = nothing(self.left.slots, self.candidate_count)
        order = self.rows.rows
        if self.direction.forward:
            # The winner of a tie is the last of its run.
            ends = np.empty(len(order), np.int32)
            mark_runs(self.rows.on[: len(order)], self.rows.starts, ends)
            order = turned(order, ends)
        taken = np.zeros(len(self.slots), np.int64)
        counts = spans[:, kernels.COUNT]
        lacking = np.flatnonzero(counts > 0)
        tried, more = 0, max(_FIRST_ROWS, self.candidate_count)
        while len(lacking):
            at_once = max(1, _PAIRS // more)
            parts = [lacking[start : start + at_once] for start in range(0, len(lacking), at_once)]
            context.threads.run(partial(self._try, spans, order, tried, more, taken, best), parts)
            tried, more = tried + more, min(more * _GROWTH, _PAIRS)
            lacking = lacking[(taken[lacking] < self.candidate_count) & (counts[lacking] > tried)]
        return best

    def _try(self, spans: Ints, order: Rows, tried: int, more: int, taken: Ints, best: Ints, part: Ints) -> None:
        """Try a number of further rows of some slots, and keep those that satisfy the condition."""
        counts = np.minimum(spans[part, kernels.COUNT] - tried, more)
        which = np.repeat(np.arange(len(part)), counts)
        offsets = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + tried
        first = spans[part, kernels.FIRST][which]
        rows = order[first + offsets if self.direction.forward else first - offsets]
        slots = self.slots.rows[part][which]
        if len(self.left.asof_codes):
            here = self.batch.available_at[rows] <= self.left.asof_codes[slots]
            which, rows, slots = which[here], rows[here], slots[here]
        if self.predicate is not None and len(which):
            passed = matches(self.predicate, self.left_values.take(slots), self.right_values.take(rows)).to_numpy(False)
            which, rows, slots = which[passed], rows[passed], slots[passed]
        candidates = taken[part][which] + np.arange(len(which)) - np.searchsorted(which, which)
        fits = candidates < self.candidate_count
        rows, slots, candidates = rows[fits], slots[fits], candidates[fits]
        on = self.batch.on[rows]
        best[slots, candidates, kernels.RANK] = ~on if self.direction.forward else on
        best[slots, candidates, kernels.AVAILABILITY] = self.batch.available_at[rows]
        best[slots, candidates, kernels.POINTER] = self.batch.pointers[rows]
        taken[part] = np.minimum(taken[part] + np.bincount(which, minlength=len(part)), self.candidate_count)
