"""CountedSpans of matches cut into tasks of bounded size, and the pairs of rows that a task stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from juncture.kernels import band
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.intrinsics import WINDOW
from juncture.runtime.context import JoinContext

Check = Callable[[Codes, Codes], Mask]


class MaxTree:
    """The second values in the order of the first, with the greatest of each block, block of blocks and so on."""

    def __init__(self, leaves: Ints, context: JoinContext) -> None:
        sizes, self.levels = levels_of(len(leaves))
        self.values = np.empty(int(self.levels[-1]), np.int64)
        self.values[: len(leaves)] = leaves
        self.values[len(leaves) :] = band.LEAST
        for level in range(1, len(sizes)):
            below, above = int(self.levels[level - 1]), int(self.levels[level])
            nodes = sizes[level - 1] // WINDOW
            cuts = context.threads.slices(nodes, 4, rows_each=WINDOW)
            context.threads.run(partial(self._build, below, above), cuts)

    def _build(self, below: int, above: int, nodes: tuple[int, int]) -> None:
        band.build_level(self.values, below, above, *nodes)


def levels_of(length: int) -> tuple[list[int], Ints]:
    """Return the padded size of each level of a tree with a number of leaves, and the start of each; the end last."""
    sizes = [_padded(length)]
    while sizes[-1] > WINDOW:
        sizes.append(_padded(sizes[-1] // WINDOW))
    return sizes, np.array([0, *accumulate(sizes)], np.int64)


def _padded(length: int) -> int:
    return max(1, -(-length // WINDOW)) * WINDOW


@dataclass(frozen=True)
class MatchSpans:
    """The spans of right positions that the left rows of a batch match."""

    first: Codes
    end: Codes
    rows: Codes | None = None  # the left row of each span, ascending, each row at least once; None for one span a row
    thresholds: Ints | None = None  # for each span, the least second value that matches; None if all of the span do
    check: Check | None = None  # checks pairs of left rows and positions if spans are candidates; None if all match
    one_at_most: bool = False  # whether each row has one span, of one position or none, and all positions match


class BuildSide:
    """The right side in an order in which matches of a left row lie side by side.

    `rows` are the right rows by position; None if positions are row numbers. The `total` number of rows includes those
    that cannot match. The `tree` has second values in this order; None if there are none.
    """

    def __init__(self, rows: Codes | None, total: int, tree: MaxTree | None = None) -> None:
        self.total, self.tree = total, tree
        self._rows = rows

    def __len__(self) -> int:
        return self.total if self._rows is None else len(self._rows)

    @cached_property
    def is_in_order(self) -> bool:
        """Whether positions are row numbers."""
        rows = self._rows
        return rows is None or (len(rows) == self.total and bool((rows[:-1] < rows[1:]).all()))

    def rows_at(self, positions: Codes) -> Codes:
        """Return the right rows at some positions; -1 where the position is negative."""
        if self._rows is None or len(self._rows) == 0 or self.is_in_order:
            return positions
        rows = np.take(self._rows, positions, mode="clip")
        return np.where(positions >= 0, rows, np.int32(-1)) if (positions < 0).any() else rows


@dataclass(frozen=True)
class Prober:
    """What finds the matches of left rows."""

    right: BuildSide
    find: Callable[[pa.RecordBatch], MatchSpans]  # returns the spans of the rows of a batch
    columns: Sequence[str]  # the left columns that it reads
    coded: Sequence[str] = ()  # which of these may be dictionary-encoded
    by_row: bool = (
        False  # whether the matches of a left row come in the order of the right rows, not of their positions
    )
    windows: Mapping[str, Prober] = field(default_factory=dict)  # what finds those in each of several windows, by name


@dataclass(frozen=True)
class CountedSpans:
    """Spans with the number of their matches, none of them with more than a task may make."""

    batch: pa.RecordBatch
    first_row: int  # the number of the batch's first row
    match_spans: MatchSpans  # the spans, with ``rows``
    counts: Ints  # how many positions of each span match


@dataclass(frozen=True)
class Task:
    """A range of spans, about as many pairs as are worth a thread's while."""

    spans: CountedSpans
    first: int
    end: int
    size: int  # the most pairs that it makes
    continued: bool  # whether the first span belongs to the same row as the last one of the task before
    continues: bool  # whether the last span belongs to the same row as the first one of the next task
    last: bool  # whether it is the last of its batch

    @property
    def first_row(self) -> int:
        """The left row, in its batch, of the first span."""
        assert self.spans.match_spans.rows is not None
        return int(self.spans.match_spans.rows[self.first])

    @property
    def last_row(self) -> int:
        """The left row, in its batch, of the last span."""
        assert self.spans.match_spans.rows is not None
        return int(self.spans.match_spans.rows[self.end - 1])


def _counts(match_spans: MatchSpans, right: BuildSide, *, only_whether: bool = False) -> Ints:
    if match_spans.thresholds is None or right.tree is None:
        lengths: Ints = np.maximum(match_spans.end.astype(np.int64) - match_spans.first, 0)
        return lengths
    counts = np.empty(len(match_spans.first), np.int64)
    tree = right.tree
    band.count_above(
        match_spans.first, match_spans.end, match_spans.thresholds, tree.values, tree.levels, only_whether, counts
    )
    return counts


def only_whether(match_spans: MatchSpans, right: BuildSide, rows: int) -> MatchSpans:
    """Return spans that have one position for rows with a match, and none for others: nothing is left to check."""
    has_match = _counts(match_spans, right, only_whether=True) > 0
    matched = np.zeros(rows, np.int32)
    matched[has_match if match_spans.rows is None else match_spans.rows[has_match]] = 1
    return MatchSpans(np.zeros(rows, np.int32), matched)


def spans_of(
    batch: pa.RecordBatch, match_spans: MatchSpans, right: BuildSide, most: int, *, first_row: int = 0
) -> CountedSpans:
    """Count the matches of the spans, and cut those with more than a task is to make."""
    rows = np.arange(len(match_spans.first), dtype=np.int32) if match_spans.rows is None else match_spans.rows
    counts = _counts(match_spans, right)
    match_spans = MatchSpans(
        match_spans.first,
        match_spans.end,
        rows,
        match_spans.thresholds,
        match_spans.check,
        match_spans.one_at_most,
    )
    if len(counts) == 0 or counts.max() <= most:
        return CountedSpans(batch, first_row, match_spans, counts)
    # A piece cannot have more matches than positions.
    lengths = match_spans.end.astype(np.int64) - match_spans.first
    pieces = np.where(counts > most, -(-lengths // most), 1)
    which = np.repeat(np.arange(len(rows)), pieces)
    number = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = match_spans.first[which] + number * most
    end = np.where(pieces[which] == 1, match_spans.end[which], np.minimum(first + most, match_spans.end[which]))
    thresholds = None if match_spans.thresholds is None else match_spans.thresholds[which]
    match_spans = MatchSpans(first.astype(np.int32), end.astype(np.int32), rows[which], thresholds, match_spans.check)
    counts = _counts(match_spans, right)
    # A piece without matches must not pass for a row without any.
    good = (pieces[which] == 1) | (counts > 0)
    if not good.all():
        match_spans = MatchSpans(
            match_spans.first[good],
            match_spans.end[good],
            rows[which][good],
            None if thresholds is None else thresholds[good],
            match_spans.check,
        )
    return CountedSpans(batch, first_row, match_spans, counts[good])


def cut(spans: CountedSpans, *, keep: bool, most: int) -> list[Task]:
    """Cut spans into tasks; an empty span makes a pair too if rows without a match are kept."""
    rows, counts = spans.match_spans.rows, spans.counts
    assert rows is not None
    if len(counts) == 0:
        return [Task(spans, 0, 0, 0, continued=False, continues=False, last=True)]
    ends = np.cumsum(np.maximum(counts, 1) if keep else counts)
    edges = [0]
    while edges[-1] < len(counts):
        done = int(ends[edges[-1] - 1]) if edges[-1] else 0
        edges.append(max(edges[-1] + 1, int(np.searchsorted(ends, done + most, "right"))))
    return [
        Task(
            spans,
            first,
            end,
            int(ends[end - 1]) - (int(ends[first - 1]) if first else 0),
            continued=first > 0 and rows[first] == rows[first - 1],
            continues=end < len(counts) and rows[end] == rows[end - 1],
            last=end == len(counts),
        )
        for first, end in pairwise(edges)
    ]


def pairs_of(task: Task, right: BuildSide, *, keep: bool) -> tuple[Codes, Codes]:
    """Return left row (in its batch) and right position of a task's pairs, in left order; -1 without a match."""
    match_spans = task.spans.match_spans
    assert match_spans.rows is not None
    lefts, positions = np.empty(task.size, np.int32), np.empty(task.size, np.int32)
    span = match_spans.rows, match_spans.first, match_spans.end
    if match_spans.thresholds is None or right.tree is None:
        written = band.fill_pairs(*span, task.first, task.end, keep, lefts, positions)
    else:
        written = band.fill_above(
            *span, match_spans.thresholds, task.spans.counts, right.tree.values, right.tree.levels,
            task.first, task.end, keep, lefts, positions,
        )  # fmt: skip
    return lefts[:written], positions[:written]


def pairs_of_one(match_spans: MatchSpans, *, keep: bool) -> tuple[Codes, Codes]:
    """Return what `pairs_of` does, of rows that match one position at most: all of their pairs."""
    first, end = match_spans.first, match_spans.end
    if keep:
        return np.arange(len(first), dtype=np.int32), np.where(first < end, first, np.int32(band.NOWHERE))
    lefts, positions = np.empty(len(first), np.int32), np.empty(len(first), np.int32)
    written = band.fill_single(first, end, lefts, positions)
    return lefts[:written], positions[:written]


def with_unmatched(task: Task, lefts: Codes, rights: Codes, *, had: bool) -> tuple[Codes, Codes, bool]:
    """Add the left rows without a match to the pairs of a task that passed a check, with -1 as the right row.

    `had` is whether the task's first row, if it continues from the task before, had a match there. The last result is
    whether the last row has had a match so far.
    """
    if task.end == task.first:
        return lefts, rights, False
    first, last = task.first_row, task.last_row
    here = np.zeros(last + 1 - first, np.bool_)
    here[lefts - first] = True
    here[0] |= task.continued and had
    has = bool(here[-1])
    here[-1] |= task.continues
    alone = (np.flatnonzero(~here) + first).astype(np.int32)
    if len(alone) == 0:
        return lefts, rights, has
    merged = np.concatenate([lefts, alone])
    order = np.argsort(merged, kind="stable")
    nowhere = np.full(len(alone), band.NOWHERE, np.int32)
    return merged[order], np.concatenate([rights, nowhere])[order], has
