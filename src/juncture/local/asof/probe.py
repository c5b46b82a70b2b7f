"""The algorithm `probe`: stream the right side past the sorted left, part by part, several parts at once.

Each part is decoded, its keys looked up, its rows brought to the slots they serve first, and offered to these (see
`juncture.kernels.asof`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.tie_order import order_codes
from juncture.kernels import asof as kernels
from juncture.kernels.array_types import Ints
from juncture.local.asof.batches import ranked
from juncture.local.asof.sides import RightRows
from juncture.local.asof.slot_index import Scratch, SlotIndex, batches_of, rows_at_most
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import Slots
from juncture.spec.asof import Direction

_TIES_MOST = 1 << 22
_TIE_BYTES = 150  # the memory of a tie until it is broken

_SLOT, _RANK, _POINTER = range(3)
"""What is recorded of a tie."""


class TieFloodError(Exception):
    """Too many rows tie: the join should start again with codes that break ties."""


class _Scratch(Scratch):
    """Arrays that each thread uses again for each batch."""

    def __init__(self, rows: int, code_columns: int, ties: int) -> None:
        super().__init__(rows)
        self.codes = np.empty((rows, code_columns), np.int64)
        self.ties = np.empty((ties, 3), np.int64)


class _Ties:
    """Ties of one direction: slot, rank and pointer of each row that equals a candidate."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[Ints] = []
        self._lock = Lock()

    def add(self, rows: Ints) -> None:
        """Keep a copy of some ties."""
        with self._lock:
            self._rows.append(rows.copy())
            self.count += len(rows)

    def drain(self, best: Ints) -> Ints:
        """Return the ties whose rank is still the last that its slot holds, and forget all."""
        with self._lock:
            rows = np.concatenate(self._rows) if self._rows else np.zeros((0, 3), np.int64)
            self._rows, self.count = [], 0
        last = best[rows[:, _SLOT], -1]
        live: Ints = rows[(last[:, 0] == rows[:, _RANK]) & (last[:, -1] != kernels.NOWHERE)]
        return live


class _Pass:
    """One pass of the right side: the candidates of each direction, and what the threads share."""

    def __init__(
        self,
        slots: Slots,
        right: RightRows,
        directions: Sequence[Direction],
        candidate_count: int,
        context: JoinContext,
    ) -> None:
        self.slots = slots
        self.right = right
        self.directions = directions
        self.index = SlotIndex(slots, context)
        words = len(right.code_columns) + 2
        self.best = [context.array((len(slots), candidate_count, words), np.int64) for _ in directions]
        for best in self.best:
            best[:] = kernels.NOWHERE
        self.ties = [_Ties() for _ in directions]
        self.batches, rows = batches_of(right, context, 8 * len(right.code_columns))
        self.context = context
        self.ties_most = rows_at_most(context, "ties", _TIES_MOST, _TIE_BYTES)
        self.scratch = _Scratch(rows, len(right.code_columns), context.threads.sizes.cache_rows)

    def scan(self, numbered: tuple[int, list[int]]) -> int:
        """Offer the rows of a batch of parts to their slots, and return how many there are."""
        number, parts = numbered
        base, total, scratch = int(self.right.source.bounds[parts[0]]), 0, self.scratch
        moved = scratch.moved_slots, scratch.moved_on, scratch.moved_rows
        for rows in scratch.fill(self.right, parts, self._take_codes if self.right.code_columns else None):
            for which, direction in enumerate(self.directions):
                edges = self.index.locate(scratch, rows, forward=direction.forward, strict=direction.strict)
                self.index.offer(partial(self._offer, which, base + total), moved, edges, number, scratch.rest)
                if self.ties[which].count > self.ties_most:
                    self._relieve(which)
            total += rows
        return total

    def _take_codes(self, batch: pa.RecordBatch, rows: slice) -> None:
        right = self.right
        for column, name in enumerate(right.code_columns):
            codes = order_codes(batch.column(name), decided=right.decided)
            self.scratch.codes[rows, column] = ~codes if right.first else codes

    def _offer(
        self,
        which: int,
        base: int,
        moved: tuple[npt.NDArray[Any], ...],
        first: int,
        end: int,
        low: int,
        high: int,
        rest_count: int,
    ) -> int:
        """Offer a range of rows to the slots of a range, and return how many rows belong to others so far."""
        scratch, right, best = self.scratch, self.right, self.best[which]
        forward = self.directions[which].forward
        state = np.array([first, 0, rest_count], np.int64)
        slots, on, rows = moved
        while state[0] < end:
            state[1] = 0
            if best.shape[1:] == (1, 2) and not right.decided:
                room = len(scratch.ties)
                kernels.offer(
                    slots, on, rows, end, low, high, base, forward, room, best[:, 0], scratch.ties, scratch.rest, state
                )
            else:
                kernels.offer_many(
                    slots, on, rows, scratch.codes, end, low, high, base, forward, right.decided, right.first, best,
                    scratch.ties, scratch.rest, state,
                )  # fmt: skip
            if state[1] and right.ties == "break":
                self.ties[which].add(scratch.ties[: state[1]])
        return int(state[2])

    def _relieve(self, which: int) -> None:
        """Break all current ties, so that their number stays bounded."""
        with ExitStack() as alone:
            # Threads hold one of the locks at a time, while they change candidates and add ties.
            for lock in self.index.locks:
                alone.enter_context(lock)
            if self.ties[which].count <= self.ties_most:
                return
            ties = self.ties[which].drain(self.best[which])
            if self.right.may_flood and len(ties) > self.ties_most // 2:
                raise TieFloodError
            # The other threads wait, and must not get work.
            self._break_ties(which, ties, self.context.alone(), within=False)

    def finish(self, context: JoinContext) -> None:
        """Break all ties, and copy the candidates to the slots that share them."""
        for which, (direction, best) in enumerate(zip(self.directions, self.best, strict=True)):
            if self.right.ties != "ignore" and not self.right.decided:
                self._break_ties(which, self.ties[which].drain(best), context, within=True)
            fill = partial(_spread, best, self.slots.starts, direction)
            context.threads.run(fill, self.slots.group_ranges(context))

    def _break_ties(self, which: int, ties: Ints, context: JoinContext, *, within: bool) -> None:
        """Replace tied candidates (from `_Ties.drain`) by the winners; with `within`, also order those of a slot."""
        best, slots = self.best[which], ties[:, _SLOT]
        competes = np.zeros(best.shape[:2], np.bool_)
        if within:
            same = (best[:, 1:, 0] == best[:, :-1, 0]) & (best[:, 1:, -1] != kernels.NOWHERE)
            competes[:, 1:] = same
            competes[:, :-1] |= same
        competes[slots] |= best[slots, :, 0] == best[slots, -1:, 0]
        tied_slots, candidates = np.nonzero(competes)
        if len(tied_slots) == 0:
            return
        words = np.concatenate([best[tied_slots, candidates][:, [0, -1]], ties[:, [_RANK, _POINTER]]])
        slots, words, ends = ranked(np.concatenate([tied_slots, slots]), words, self.right, context)
        # The winners become the candidates of their rank, the last one first.
        candidates = (best[slots, :, 0] == words[:, :1]).argmax(axis=1) + ends - 1 - np.arange(len(slots))
        fits = candidates < best.shape[1]
        best[slots[fits], candidates[fits], -1] = words[fits, -1]


def probe(
    slots: Slots, right: RightRows, directions: Sequence[Direction], candidate_count: int, context: JoinContext
) -> list[Ints]:
    """Return each slot's best right rows in each direction: ``[slot, candidate, word]``, as in `juncture.kernels.asof`.

    `candidate_count` is the number of candidates of each slot. Raises `TieFloodError` if millions of rows tie and the
    caller wants to know, and `UndecidedError` if codes do not break all ties, although the caller expects it.

    Some 50 ns and core for a right row, half of it decoding Parquet; 16 bytes a slot and direction for one candidate,
    and for each thread about 40 bytes for each of four million rows.
    """
    work = _Pass(slots, right, directions, candidate_count, context)
    advance, total, done = context.progress.of("right"), right.rows, 0
    for rows in context.threads.map(work.scan, enumerate(work.batches)):
        done += rows
        advance(done, total)
    work.finish(context)
    return work.best


def _spread(best: Ints, starts: Ints, direction: Direction, groups: tuple[int, int]) -> None:
    kernels.spread(best, starts, *groups, direction.forward)
