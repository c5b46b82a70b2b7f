"""Counts and sums over the windows of a spine's rows, added up while right rows stream past the sorted spine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, plain, validity
from juncture.kernels import window_sums as kernels
from juncture.kernels.array_types import Ints, IntTable
from juncture.kernels.intrinsics import WINDOW
from juncture.local.asof.sides import RightRows
from juncture.local.asof.slot_index import Scratch, SlotIndex, batches_of
from juncture.local.inequality.conditions import CodedCondition
from juncture.local.prune import within_right_range
from juncture.local.reasons import CodedKeys
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError
from juncture.ordered.domain import Domain
from juncture.ordered.kinds import domain_of
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sort import Slots
from juncture.runtime.sources import Source
from juncture.runtime.take import gather
from juncture.spec.aggregate import Aggregate
from juncture.spec.range import ResolvedRange

_SUM_TYPES = pa.int64(), pa.uint64()
_SUMS_MOST = 1 << 62
_WORD_BYTES = 8
_SHARE = 1 / 2  # of memory for totals and the aggregates

Word = tuple[str, bool]
"""A column, and whether its values are added up or counted."""


def can_stream(join: ResolvedRange) -> bool:
    """Return whether a join only counts, or sums integers, over windows of constant ends.

    With these, each right row is in the windows of consecutive rows of the sorted spine.
    """
    value = join.condition.first
    return (
        value is not None
        and join.condition.predicate is None
        and all(limit.column is None for limit in value.limits)
        and all(
            each.function == "count" or (each.function == "sum" and each.type in _SUM_TYPES) for each in join.aggregates
        )
    )


def streamed_sums(
    join: ResolvedRange, keys: CodedKeys, slots: Slots, left: Source, right: Source, context: JoinContext
) -> list[pa.Array] | None:
    """Return the aggregates of each row of the spine; None if there is no room for them.

    `keys` and `slots` are the spine's keys, and its rows in order. Raises `TooWideError` if a value has no code or sums
    may need more than 64 bits.

    Takes 8 bytes for each slot and each word: for the matches, and for each column to be summed or with nulls. Each
    right row costs some 40 ns and core beside decoding it.
    """
    context = context.within(MemoryBudget(context.memory.total_bytes))
    windows = join.window_names or (None,)
    words = _words_of(join.aggregates, right)
    # Slots have totals, sums, and the ends of their windows.
    row_bytes = _WORD_BYTES * (2 * (1 + len(words)) + 2) * len(windows)
    if left.num_rows * row_bytes > context.memory.reserve("sums", _SHARE).total_bytes:
        return None
    right = within_right_range(join, left, right, context)
    rows = RightRows(
        source=right,
        on=join.right_on,
        by=join.right_by,
        coder=join.domain,
        keys=keys.keys,
        parts=range(len(right.part_rows)),
        code_columns=tuple(dict.fromkeys(column for column, _ in words)),
    )
    work = _Pass(slots, rows, words, list(_ends(join, slots, left, context)), context)
    advance, done = context.progress.of("right"), 0
    for count in context.threads.map(work.scan, enumerate(work.batches)):
        done += count
        advance(done, rows.rows)
    if work.greatest * right.num_rows >= _SUMS_MOST:
        raise TooWideError
    sums = dict(zip(windows, work.finish(left.num_rows), strict=True))
    return [_aggregate(each, sums[each.window], words) for each in join.aggregates]


def _words_of(aggregates: Sequence[Aggregate], right: Source) -> dict[Word, int]:
    """Return what is added up beside the number of matches, and the place of each."""
    words = dict[Word, int]()
    for each in aggregates:
        if each.column is not None:
            if right.nulls(each.column) != 0:
                words.setdefault((each.column, False), len(words) + 1)
            if each.function == "sum":
                words.setdefault((each.column, True), len(words) + 1)
    return words


def _aggregate(aggregate: Aggregate, sums: IntTable, words: dict[Word, int]) -> pa.Array:
    """Return an aggregate of each row of the spine."""
    column = aggregate.column
    counts = sums[0] if column is None else sums[words.get((column, False), 0)]
    if aggregate.function == "count":
        return array_of(counts, aggregate.type)
    assert column is not None
    return array_of(sums[words[column, True]], aggregate.type, counts > 0)


def _ends(join: ResolvedRange, slots: Slots, left: Source, context: JoinContext) -> Iterator[tuple[Ints, Ints]]:
    """Yield the least and the greatest right code that each slot matches, in each window."""
    columns = gather(left, [join.left_on], slots.rows.astype(np.int64), context)
    [batch] = pa.table(columns, names=[join.left_on]).combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], pa.schema([left.schema.field(join.left_on)]))
    ]
    coded = CodedCondition.of(join)
    for name in join.window_names or (None,):
        value = (coded if name is None else coded.in_window(name)).first
        assert value is not None
        low, high, possible = value.ends(batch)
        if possible is not None and not possible.all():
            raise TooWideError
        yield (
            np.full(len(slots), MIN_CODE) if low is None else low,
            np.full(len(slots), MAX_CODE) if high is None else high,
        )


class _Window:
    """The totals of one window, and what finds the slots that match a right row."""

    def __init__(self, slots: Slots, low: Ints, high: Ints, words: int, context: JoinContext) -> None:
        self.low, high = (np.append(codes, np.zeros(WINDOW, np.int64)) for codes in (low, high))
        self.index = SlotIndex(replace(slots, on=high), context)
        self.totals = context.array((len(slots), words), np.int64)
        self.totals[:] = 0


class _Scratch(Scratch):
    """Arrays that each thread uses again for each batch."""

    def __init__(self, rows: int, words: int) -> None:
        super().__init__(rows)
        self.words = np.empty((rows, words), np.int64)
        self.ends = np.empty(rows, np.int32)
        self.greatest = 0


class _Pass:
    """One pass of the right side: the totals of each window, and what the threads share."""

    def __init__(
        self,
        slots: Slots,
        right: RightRows,
        words: dict[Word, int],
        ends: list[tuple[Ints, Ints]],
        context: JoinContext,
    ) -> None:
        self.batches, rows = batches_of(right, context, _WORD_BYTES * (1 + len(words)))
        self.greatest = 0
        self._slots = slots
        self._right = right
        self._words = words
        self._domains = {column: _domain_of(right.source, column) for column, is_sum in words if is_sum}
        self._windows = [_Window(slots, low, high, 1 + len(words), context) for low, high in ends]
        self._scratch = _Scratch(rows, len(words))
        self._context = context
        self._lock = Lock()

    def scan(self, numbered: tuple[int, list[int]]) -> int:
        """Add the rows of a batch of parts to the totals, and return how many there are."""
        number, parts = numbered
        total, scratch = 0, self._scratch
        for rows in scratch.fill(self._right, parts, self._take_words if self._words else None):
            for window in self._windows:
                edges = window.index.locate(scratch, rows)
                slots, numbers, count = scratch.moved_slots, scratch.moved_rows, int(edges[-1])
                kernels.range_ends(
                    slots,
                    scratch.moved_on,
                    numbers,
                    count,
                    scratch.keys,
                    self._slots.starts,
                    window.low,
                    scratch.ends,
                )
                for window_slots, sign in ((slots, 1), (scratch.ends, -1)):
                    add = partial(self._add, window.totals, sign)
                    window.index.offer(add, (window_slots, numbers), edges, number, scratch.rest)
            total += rows
        with self._lock:
            self.greatest = max(self.greatest, scratch.greatest)
        return total

    def _take_words(self, batch: pa.RecordBatch, rows: slice) -> None:
        for (column, is_sum), number in self._words.items():
            array, target = plain(batch.column(column)), self._scratch.words[rows, number - 1]
            present = validity(array)
            if not is_sum:
                target[:] = 1 if present is None else present
                continue
            steps, _ = self._domains[column].encode(array)
            np.copyto(target, steps)
            if present is not None:
                target[~present] = 0
            ends = int(target.min(initial=0)), int(target.max(initial=0))
            self._scratch.greatest = max(self._scratch.greatest, -ends[0], ends[1])

    def _add(
        self,
        totals: IntTable,
        sign: int,
        moved: tuple[npt.NDArray[Any], ...],
        first: int,
        end: int,
        low: int,
        high: int,
        rest_count: int,
    ) -> int:
        scratch = self._scratch
        slots, rows = moved
        return kernels.add_at(slots, rows, scratch.words, first, end, low, high, sign, totals, scratch.rest, rest_count)

    def finish(self, left_rows: int) -> Iterator[IntTable]:
        """Yield the sums of each word for each row of the spine, in each window."""
        slots = self._slots
        for window in self._windows:
            width = window.totals.shape[1]
            sums = self._context.array((width, left_rows), np.int64)
            if len(slots) < left_rows:
                sums[:] = 0

            def write(groups: tuple[int, int], totals: IntTable = window.totals, sums: IntTable = sums) -> None:
                kernels.sum_slots(totals, slots.starts, slots.rows, *groups, sums)

            self._context.threads.run(write, slots.group_ranges(self._context))
            yield sums


def _domain_of(right: Source, column: str) -> Domain:
    domain = domain_of(right.schema.field(column).type)
    assert domain is not None
    return domain.unshifted
