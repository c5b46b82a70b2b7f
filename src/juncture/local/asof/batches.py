"""Right rows a batch at a time: sorted, searched, and what each left row finds merged with what it found before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from juncture.kernels import asof_available as kernels
from juncture.kernels.array_types import Ints, Rows
from juncture.kernels.asof import NOWHERE
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.sort import mark_runs
from juncture.local.asof.sides import RightRows, SideCodes, pointers_of, read_codes
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import ROWS_MOST, Slots, order_of, sort_slots
from juncture.runtime.take import tie_keys
from juncture.runtime.threads import grouped
from juncture.spec.asof import Direction

AnyRows = TypeVar("AnyRows", Ints, Rows)

_ROW_BYTES = 96  # what a right row takes while it is sorted
_SHARE = 1 / 4


@dataclass(frozen=True)
class Batch:
    """Right rows by key, ``on``, the time from which they are known, and tie order, the winner last."""

    on: Ints  # the code of each row's ``on``
    starts: Ints  # the first row of each key
    ends: Rows  # the end of each row's run of equal key and ``on``
    available_at: Ints  # the code of the time from which each row is known; zeros if all always are
    pointers: Ints  # row numbers


def nothing(slots: Slots, candidate_count: int) -> Ints:
    """Return empty candidates."""
    return np.full((len(slots), candidate_count, kernels.WORDS), NOWHERE, np.int64)


def search_batches(
    slots: Slots,
    right: RightRows,
    directions: Sequence[Direction],
    candidate_count: int,
    context: JoinContext,
    searcher: Callable[[SideCodes], Callable[[Direction], Ints]],
    *,
    at_once: bool,
    row_bytes: int = 0,
    batch_rows: int = 1 << 24,
) -> list[Ints]:
    """Return each slot's best right rows in each direction, as `juncture.local.asof.probe.probe` does.

    `searcher` returns what finds the best of some rows for each slot: ``[slot, candidate, (rank, availability,
    pointer)]``. With `at_once`, all right rows are buffered; otherwise as many as fit, or `batch_rows`. The search
    needs `row_bytes` for each buffered row besides.
    """
    room = context.memory.reserve("right rows looked at", _SHARE).total_bytes // (_ROW_BYTES + row_bytes)
    few = max(context.threads.sizes.block_rows, min(batch_rows, room))
    best: list[Ints] = []
    advance, done = context.progress.of("right"), 0
    for parts in grouped(right.parts, ROWS_MOST if at_once else few, right.source.part_rows.__getitem__):
        loaded = read_codes(right, parts, right.keys.find, "right", context).with_keys()
        done += len(loaded.keys)
        find = searcher(loaded)
        del loaded
        candidates = [find(direction) for direction in directions]
        if best:
            for best_part, candidates_part in zip(best, candidates, strict=True):
                _combine(best_part, candidates_part, slots, right, context)
        best = best or candidates
        advance(done, right.rows)
    return best or [nothing(slots, candidate_count) for _ in directions]


def sorted_by_key(loaded: SideCodes, key_count: int, right: RightRows, context: JoinContext) -> Batch:
    """Sort rows, all of those that have a key."""
    available_at, rows = loaded.times, np.flatnonzero(loaded.keys != EMPTY).astype(np.int32)
    if right.time is not None:
        rows = rows[order_of([available_at[rows]], context)]
    ordered = sort_slots(loaded.keys, loaded.on, rows, key_count, context)
    rows = ordered.rows
    available_at = available_at[rows] if right.time is not None else np.zeros(len(rows), np.int64)
    pointers = pointers_of(right, loaded.parts)[rows]
    ends = np.empty(len(rows), np.int32)
    if mark_runs(ordered.on[: len(rows)], ordered.starts, ends):
        pointers = with_ties_broken(pointers, ends, available_at, right, context)
    return Batch(ordered.on, ordered.starts, ends, available_at, pointers)


def with_ties_broken(pointers: Ints, ends: Rows, available_at: Ints, right: RightRows, context: JoinContext) -> Ints:
    """Order the rows of equal key, ``on`` and availability code, the winner last."""
    ends = run_ends(ends, available_at)
    if right.ties != "ignore":
        _order_ties(pointers, ends, right, context)
    elif right.first:
        return turned(pointers, ends)
    return pointers


def run_ends(*columns: Ints | Rows) -> Rows:
    """Return the end of each item's run of items that are equal in all columns."""
    last = np.ones(len(columns[0]), np.bool_)
    last[:-1] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    last_rows = np.flatnonzero(last)
    return np.repeat(last_rows + 1, np.diff(last_rows, prepend=-1)).astype(np.int32)


def _order_ties(pointers: Ints, ends: Rows, right: RightRows, context: JoinContext) -> None:
    """Order the rows within each run, given its end, the winner last."""
    inside = np.ones(len(ends), np.bool_)
    inside[1:] = ends[1:] == ends[:-1]
    inside[:-1] |= inside[1:]
    inside[:1] = ends[:1] > 1
    positions = np.flatnonzero(inside)
    if len(positions) == 0:
        return
    tied = pointers[positions]
    keys = tie_keys(right.source, right.tie_columns, tied, context)
    keys = [~key for key in keys] if right.first else keys
    pointers[positions] = tied[order_of([ends[positions].astype(np.int64), *keys], context)]


def turned(rows: AnyRows, ends: Rows) -> AnyRows:
    """Return rows with each run of equal key and ``on``, given its end, turned round."""
    positions = np.arange(len(ends))
    starts = np.maximum.accumulate(np.where(np.diff(ends, prepend=-1) != 0, positions, 0))
    reversed_rows: AnyRows = rows[starts + ends - 1 - positions]
    return reversed_rows


def _combine(best: Ints, others: Ints, slots: Slots, right: RightRows, context: JoinContext) -> None:
    """Let each slot keep the best of its candidates and others, all of them of later right rows."""
    before = best.copy() if right.ties != "ignore" else best
    tied = np.zeros(len(best), np.uint8)
    merge = partial(_merge_range, best, others, right.first, tied)
    context.threads.run(merge, slots.ranges(context))
    contested = np.flatnonzero(tied)
    if right.ties == "ignore" or len(contested) == 0:
        return
    words = np.concatenate([before[contested], others[contested]], axis=1)
    number, ranks = np.nonzero(words[:, :, kernels.POINTER] != NOWHERE)
    owners, ordered, _ = ranked(contested[number], words[number, ranks], right, context)
    ranks = np.searchsorted(owners, owners, "right") - 1 - np.arange(len(owners))
    fits = ranks < best.shape[1]
    best[owners[fits], ranks[fits]] = ordered[fits]


def ranked(slots: Ints, words: Ints, right: RightRows, context: JoinContext) -> tuple[Ints, Ints, Rows]:
    """Return candidates by slot, the best one last, and the end of each run of those equal in all but the pointer.

    `words` are the words of a candidate of each of `slots`, in any order, the pointer last. Reads the tie columns of
    runs of several candidates alone, and sorts these: some 100 bytes and 0.2 µs for each.
    """
    order = order_of([slots, *words[:, :-1].T], context)
    slots, words = slots[order], words[order]
    ends, pointers = run_ends(slots, *words[:, :-1].T), words[:, -1].copy()
    _order_ties(pointers, ends, right, context)
    words[:, -1] = pointers
    return slots, words, ends


def _merge_range(
    best: Ints, others: Ints, first: bool, tied: npt.NDArray[np.uint8], part: tuple[int, int, int]
) -> None:
    kernels.combine(best, others, *part[:2], first, tied)
