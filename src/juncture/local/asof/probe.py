"""The algorithm `probe`: stream the right side past the sorted left, part by part, several parts at once.

Each part is decoded, its keys looked up, its rows brought to the slots they serve first, and offered to these (see
`juncture.kernels.asof`). There is one set of candidates, whatever the number of threads: the slots are cut into
stripes, and a thread owns one stripe at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from threading import Lock, local

import numpy as np

from juncture.columnar.arrays import sliced
from juncture.columnar.tie_order import order_codes
from juncture.kernels import asof as kernels
from juncture.kernels import search
from juncture.kernels.array_types import Codes, Ints
from juncture.local.asof.batches import ranked
from juncture.local.asof.sides import RightRows
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import Slots
from juncture.spec.asof import Direction

_BATCH_ROWS = 1 << 22
_BATCHES_PER_THREAD = 3  # how many batches, at least, the rows that are left are cut into
_ROWS_PER_BUCKET = 2
_PARTITIONS_MOST = 512
_STRIPES_PER_THREAD = 4
_STRIPES_MOST = 64
_TIES_MOST = 1 << 22
_TIE_BYTES = 150  # the memory of a tie until it is broken
_SHARE = 1 / 8  # for right rows that threads look at, and for ties that are written down

_SCRATCH_ROW_BYTES = 40


_SLOT, _RANK, _POINTER = range(3)
"""What is recorded of a tie."""


class TieFloodError(Exception):
    """Too many rows tie: the join should start again with codes that break ties."""


class _Index:
    """The bucket index of the slots, cut into partitions for the cache and stripes for the threads."""

    def __init__(self, slots: Slots, context: JoinContext) -> None:
        self.groups = np.zeros((slots.key_count, search.GROUP_COLUMNS), np.int64)
        entries = search.plan_index(slots.on, slots.starts, _ROWS_PER_BUCKET, self.groups)
        self.entries = np.empty(entries, np.int32)
        context.threads.run(
            lambda part: search.fill_index(slots.on, slots.starts, self.groups, *part, self.entries),
            slots.ranges(context),
        )
        wanted = min(max(len(slots) // (2 * context.threads.sizes.cache_rows), 1), _PARTITIONS_MOST)
        self.shift = max(0, (-(-entries // wanted) - 1).bit_length())
        self.partitions = ((entries - 1) >> self.shift) + 1
        stripes = max(1, min(self.partitions, _STRIPES_PER_THREAD * context.threads.count, _STRIPES_MOST))
        self.edges = [self.partitions * i // stripes for i in range(stripes + 1)]
        # The first slot of each stripe, and the number of slots at the end.
        self.slots = [0, *(int(self.entries[edge << self.shift]) for edge in self.edges[1:-1]), len(slots)]
        self.locks = [Lock() for _ in range(stripes)]


class _Scratch(local):
    """Arrays that each thread uses again for each batch."""

    def __init__(self, rows: int, code_columns: int, ties: int) -> None:
        self.keys = np.empty(rows, np.int32)
        self.on = np.empty(rows, np.int64)
        self.codes = np.empty((rows, code_columns), np.int64)
        self.buckets = np.empty(rows, np.int32)
        self.moved_on = np.empty(rows, np.int64)
        self.moved_slots = np.empty(rows, np.int32)
        self.moved_rows = np.empty(rows, np.int32)
        self.rest = np.empty(rows, np.int32)
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
        self, slots: Slots, right: RightRows, directions: Sequence[Direction], places: int, context: JoinContext
    ) -> None:
        self.slots = slots
        self.right = right
        self.directions = directions
        self.index = _Index(slots, context)
        words = len(right.code_columns) + 2
        self.best = [np.full((len(slots), places, words), kernels.NOWHERE, np.int64) for _ in directions]
        self.ties = [_Ties() for _ in directions]
        self.batches = _batches(right, context)
        most = max((sum(right.source.part_rows[part] for part in batch) for batch in self.batches), default=0)
        self.context = context
        self.ties_most = _most(context, "ties", _TIES_MOST, _TIE_BYTES)
        rows = min(most, _rows_at_once(right, context))
        self.scratch = _Scratch(rows, len(right.code_columns), context.threads.sizes.cache_rows)

    def scan(self, numbered: tuple[int, list[int]]) -> int:
        """Offer the rows of a batch of parts to their slots, and return how many there are."""
        number, parts = numbered
        base, total = int(self.right.source.bounds[parts[0]]), 0
        for rows in self._loads(parts):
            for which in range(len(self.directions)):
                counts = self._partition(which, rows)
                self._offer(which, counts, base + total, number)
                if self.ties[which].count > self.ties_most:
                    self._relieve(which)
            total += rows
        return total

    def _loads(self, parts: list[int]) -> Iterator[int]:
        """Fill the thread's arrays with codes again and again, and yield how many rows they hold."""
        scratch, right, done = self.scratch, self.right, 0
        for part in parts:
            for whole in right.batches(part):
                for batch in sliced(whole, len(scratch.keys)):
                    if done + batch.num_rows > len(scratch.keys):
                        yield done
                        done = 0
                    rows = slice(done, done + batch.num_rows)
                    right.encode(batch, scratch.keys[rows], scratch.on[rows])
                    for column, name in enumerate(right.code_columns):
                        codes = order_codes(batch.column(name), decided=right.decided)
                        scratch.codes[rows, column] = ~codes if right.first else codes
                    done = rows.stop
        yield done

    def _partition(self, which: int, rows: int) -> Ints:
        """Find the slots of a batch's rows, partition by partition, and return how many each partition has."""
        index, scratch, direction = self.index, self.scratch, self.directions[which]
        keys, on, buckets = scratch.keys[:rows], scratch.on[:rows], scratch.buckets[:rows]
        counts = np.zeros(index.partitions, np.int64)
        kept = search.partition_count(
            keys, on, index.groups, direction.forward, direction.strict, index.shift, buckets, counts
        )
        offsets = np.cumsum(counts) - counts
        slots = scratch.moved_slots
        search.partition_scatter(on, buckets, index.shift, offsets, scratch.moved_on, slots, scratch.moved_rows)
        search.locate(
            scratch.moved_on, slots, kept, self.slots.on, index.entries, direction.forward, direction.strict, slots
        )
        return counts

    def _offer(self, which: int, counts: Ints, base: int, number: int) -> None:
        """Offer the rows stripe by stripe, each thread beginning with another."""
        index, scratch = self.index, self.scratch
        ends = np.concatenate([[0], np.cumsum(counts)])
        offer = partial(self._offer_range, which, base)
        moved = scratch.moved_slots, scratch.moved_on, scratch.moved_rows
        stripes = len(index.locks)
        left_over = 0
        for i in range(stripes):
            stripe = (number * _STRIPES_PER_THREAD + i) % stripes
            first, end = (int(ends[edge]) for edge in index.edges[stripe : stripe + 2])
            if first < end:
                left_over = offer(moved, stripe, first, end, left_over)
        if not left_over:
            return
        # The rows between two stripes, whose slot is the next one: others own these.
        rest = scratch.rest[:left_over]
        owners = np.searchsorted(index.slots, moved[0][rest], "right").astype(np.uint8)
        rest = rest[np.argsort(owners, kind="stable")]
        moved = moved[0][rest], moved[1][rest], moved[2][rest]
        cuts = np.searchsorted(np.sort(owners), np.arange(1, len(index.slots) + 1))
        for stripe, (first, end) in enumerate(pairwise(cuts.tolist())):
            if first < end:
                offer(moved, stripe, first, end, 0)

    def _offer_range(
        self, which: int, base: int, moved: tuple[Codes, Ints, Codes], stripe: int, first: int, end: int, left_over: int
    ) -> int:
        """Offer a range of rows to one stripe, and return how many rows belong to others so far."""
        scratch, right, best = self.scratch, self.right, self.best[which]
        low, high = self.index.slots[stripe : stripe + 2]
        forward = self.directions[which].forward
        state = np.array([first, 0, left_over], np.int64)
        slots, on, rows = moved
        with self.index.locks[stripe]:
            while state[0] < end:
                state[1] = 0
                if best.shape[1:] == (1, 2) and not right.decided:
                    room = len(scratch.ties)
                    kernels.offer(
                        slots, on, rows, end, low, high, base, forward, room, best[:, 0], scratch.ties, scratch.rest,
                        state,
                    )  # fmt: skip
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
        """Give tied places, from `_Ties.drain`, to the rows that win them; with `within`, order those of a slot too."""
        best, slots = self.best[which], ties[:, _SLOT]
        competes = np.zeros(best.shape[:2], np.bool_)
        if within:
            same = (best[:, 1:, 0] == best[:, :-1, 0]) & (best[:, 1:, -1] != kernels.NOWHERE)
            competes[:, 1:] = same
            competes[:, :-1] |= same
        competes[slots] |= best[slots, :, 0] == best[slots, -1:, 0]
        held, places = np.nonzero(competes)
        if len(held) == 0:
            return
        words = np.concatenate([best[held, places][:, [0, -1]], ties[:, [_RANK, _POINTER]]])
        slots, words, ends = ranked(np.concatenate([held, slots]), words, self.right, context)
        # The winners take the places of their rank, the last one first.
        places = (best[slots, :, 0] == words[:, :1]).argmax(axis=1) + ends - 1 - np.arange(len(slots))
        kept = places < best.shape[1]
        best[slots[kept], places[kept], -1] = words[kept, -1]


def probe(
    slots: Slots, right: RightRows, directions: Sequence[Direction], places: int, context: JoinContext
) -> list[Ints]:
    """Return each slot's best right rows in each direction: ``[slot, place, word]``, as in `juncture.kernels.asof`.

    `places` is the number of candidates of each slot. Raises `TieFloodError` if millions of rows tie and the caller
    wants to know, and `UndecidedError` if codes do not break all ties, although the caller expects it.

    Some 50 ns and core for a right row, half of it decoding Parquet; 16 bytes a slot and direction for one place, and
    for each thread about 40 bytes for each of four million rows.
    """
    work = _Pass(slots, right, directions, places, context)
    advance, total, done = context.progress.of("right"), right.rows, 0
    for rows in context.threads.map(work.scan, enumerate(work.batches)):
        done += rows
        advance(done, total)
    work.finish(context)
    return work.best


def _spread(best: Ints, starts: Ints, direction: Direction, groups: tuple[int, int]) -> None:
    kernels.spread(best, starts, *groups, direction.forward)


def _rows_at_once(right: RightRows, context: JoinContext) -> int:
    row_bytes = context.threads.count * (_SCRATCH_ROW_BYTES + 8 * len(right.code_columns))
    return _most(context, "right rows looked at", _BATCH_ROWS, row_bytes)


def _most(context: JoinContext, what: str, count: int, each_bytes: int) -> int:
    """Return the maximum number of items at once: the given one, or what fits in their share of the memory."""
    return max(1, min(count, context.memory.reserve(what, _SHARE).total_bytes // each_bytes))


def _batches(right: RightRows, context: JoinContext) -> list[list[int]]:
    """Group consecutive parts into batches, smaller ones towards the end, so that all threads end at about one time."""
    most, batches_left = _rows_at_once(right, context), _BATCHES_PER_THREAD * context.threads.count
    batches: list[list[int]] = []
    left, held, wanted = right.rows, 0, 0
    for part in right.parts:
        rows = right.source.part_rows[part]
        if not batches or held + rows > wanted or batches[-1][-1] + 1 != part:
            batches.append([])
            held, wanted = 0, min(most, max(context.threads.sizes.task_rows, left // batches_left))
        batches[-1].append(part)
        held += rows
        left -= rows
    return batches
