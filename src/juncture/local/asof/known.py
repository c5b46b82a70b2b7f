"""As-of joins of what was known: sort the right side, or as much of it as fits at a time, and search it for known rows.

Each batch of right rows is sorted by key, ``on`` and when it was known, with a tree of the least known codes; each left
row finds its candidates there, and keeps the best of all batches (see `juncture.kernels.asof_known`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from juncture.kernels import asof_known as kernels
from juncture.kernels.array_types import Ints, Mask
from juncture.kernels.asof import NOWHERE
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.sort import mark_runs
from juncture.local.asof.merge import load, order_ties, turned
from juncture.local.asof.probe import Direction, RightRows
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import ROWS_MOST, Slots, order_of, sort_slots
from juncture.runtime.tie_keys import tie_keys

_ROW_BYTES = 96
"""What a right row takes while it is sorted."""
_SHARE = 1 / 4
_BATCH_ROWS = 1 << 24
_BATCH_ROWS_LEAST = 1 << 12


def search_known(
    slots: Slots,
    seen: Ints,
    right: RightRows,
    directions: Sequence[Direction],
    places: int,
    context: JoinContext,
    *,
    at_once: bool,
) -> tuple[list[Ints], Mask]:
    """Return each slot's best known right rows in each direction, and which keys the right side has.

    Parameters
    ----------
    slots, right, directions, places, context
        As for `juncture.local.asof.probe.probe`.
    seen
        The code of the time of each left row up to which right rows are known to it.
    at_once
        Whether to hold all right rows, rather than as many at a time as fit.

    Notes
    -----
    Time O(R log R + L log R) for each batch, whatever is known when; some 100 ns and core for a right row.
    """
    room = context.memory.reserve("right rows looked at", _SHARE).total_bytes // _ROW_BYTES
    most = ROWS_MOST if at_once else max(_BATCH_ROWS_LEAST, min(_BATCH_ROWS, room))
    best: list[Ints] = []
    keys = np.zeros(slots.key_count, np.bool_)
    advance, done = context.progress.of("right"), 0
    for parts in _batches(right, most):
        batch = _Batch(slots, right, parts, context)
        keys |= batch.keys
        found = [batch.search(seen, direction, places) for direction in directions]
        if best:
            for ours, theirs in zip(best, found, strict=True):
                _combine(ours, theirs, slots, right, context)
        best = best or found
        done += batch.rows
        advance(done, right.rows)
    return best or [_nothing(slots, places) for _ in directions], keys


def _nothing(slots: Slots, places: int) -> Ints:
    return np.full((len(slots), places, kernels.WORDS), NOWHERE, np.int64)


def _batches(right: RightRows, most: int) -> list[list[int]]:
    """Group the parts into batches of so many rows, or of one part."""
    batches: list[list[int]] = []
    held = 0
    for part in right.parts:
        rows = right.source.part_rows[part]
        if not batches or held + rows > most:
            batches.append([])
            held = 0
        batches[-1].append(part)
        held += rows
    return batches


class _Batch:
    """Right rows in order, and the tree of their known codes."""

    def __init__(self, slots: Slots, right: RightRows, parts: Sequence[int], context: JoinContext) -> None:
        keys, on, known, pointers = load(right, parts, context)
        self.rows = len(keys)
        self._slots = slots
        self._context = context
        rows = np.flatnonzero(keys != EMPTY).astype(np.int32)
        rows = rows[order_of([known[rows]], context)]
        self._ordered = sort_slots(keys, on, rows, slots.key_count, context)
        del keys, on
        rows = self._ordered.rows
        self._ends = np.empty(len(rows), np.int32)
        repeated = mark_runs(self._ordered.on[: len(rows)], self._ordered.starts, self._ends)
        self._levels = np.array(kernels.tree_levels(len(rows)), np.int64)
        self._tree = np.empty(int(self._levels[-1]), np.int64)
        np.take(known, rows, out=self._tree[: len(rows)])
        self._pointers = pointers[rows]
        if repeated:
            self._break_ties(right)
        for start, to in pairwise(self._levels[:-1].tolist()):
            kernels.fill_tree(self._tree, start, to - start, to)

    @property
    def keys(self) -> Mask:
        """Which keys it has."""
        return np.diff(self._ordered.starts) > 0

    def _break_ties(self, right: RightRows) -> None:
        """Order the rows of equal key, ``on`` and known code, the winner last."""
        known = self._tree[: len(self._ends)]
        last = np.ones(len(known), np.bool_)
        last[:-1] = (self._ends[1:] != self._ends[:-1]) | (known[1:] != known[:-1])
        if last.all():
            return
        places = np.flatnonzero(last)
        ends = np.repeat(places + 1, np.diff(places, prepend=-1)).astype(np.int32)
        if right.ties != "ignore":
            order_ties(self._pointers, ends, right, self._context)
        elif right.first:
            self._pointers = turned(self._pointers, ends)

    def search(self, seen: Ints, direction: Direction, places: int) -> Ints:
        """Return the best of these rows for each slot."""
        best = _nothing(self._slots, places)
        slots, ordered = self._slots, self._ordered

        def find(part: tuple[int, int, int]) -> None:
            kernels.find_known(
                slots.on, seen, slots.starts, *part, ordered.on, ordered.starts, self._pointers, self._ends, self._tree,
                self._levels, direction.forward, direction.strict, best,
            )  # fmt: skip

        self._context.threads.run(find, slots.ranges(self._context))
        return best


def _combine(best: Ints, found: Ints, slots: Slots, right: RightRows, context: JoinContext) -> None:
    """Let each slot keep the best of its candidates and others, all of them of later right rows."""
    before = best.copy() if right.ties != "ignore" else best
    tied = np.zeros(len(best), np.uint8)
    merge = partial(_merge_range, best, found, right.first, tied)
    context.threads.run(merge, slots.ranges(context))
    contested = np.flatnonzero(tied)
    if right.ties == "ignore" or len(contested) == 0:
        return
    words = np.concatenate([before[contested], found[contested]], axis=1)
    slot, place = np.nonzero(words[:, :, kernels.POINTER] != NOWHERE)
    rank, known, pointer = (words[slot, place, word] for word in range(kernels.WORDS))
    keys = tie_keys(right.source, right.tie_columns, pointer, context)
    keys = keys if right.first else [~key for key in keys]
    order = order_of([slot, ~rank, ~known, *keys], context)
    slot = slot[order]
    places = np.arange(len(slot)) - np.searchsorted(slot, slot)
    kept = places < best.shape[1]
    best[contested[slot[kept]], places[kept]] = words[slot, place[order]][kept]


def _merge_range(best: Ints, found: Ints, first: bool, tied: npt.NDArray[np.uint8], part: tuple[int, int, int]) -> None:
    kernels.combine(best, found, *part[:2], first, tied)
