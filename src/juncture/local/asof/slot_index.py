"""What finds the slots of right rows as they stream past sorted left rows, for several threads at once.

Rows are brought to the order of their slots, partition by partition. The slots are cut into stripes, and a thread owns
one stripe at a time, so that there is one set of results, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from threading import Lock, local
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import sliced
from juncture.kernels import search
from juncture.kernels.array_types import Codes, Ints
from juncture.local.asof.sides import RightRows
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import Slots

_BATCH_ROWS = 1 << 22
_BATCHES_PER_THREAD = 3  # how many batches, at least, the rows that are left are cut into
_ROWS_PER_BUCKET = 2
_PARTITIONS_MOST = 512
_STRIPES_PER_THREAD = 4
_STRIPES_MOST = 64
_SHARE = 1 / 8

_SCRATCH_ROW_BYTES = 40

Offer = Callable[[tuple[npt.NDArray[Any], ...], int, int, int, int, int], int]
"""Offers the rows of a range to the slots of a range: arrays of rows, first of their slots, first row and end, first
slot and end, and how many rows belong to other slots so far; returns how many do now.
"""


class Scratch(local):
    """Arrays that each thread uses again for each batch: codes of right rows, and these by partition."""

    def __init__(self, rows: int) -> None:
        self.keys = np.empty(rows, np.int32)
        self.on = np.empty(rows, np.int64)
        self.buckets = np.empty(rows, np.int32)
        self.moved_on = np.empty(rows, np.int64)
        self.moved_slots = np.empty(rows, np.int32)
        self.moved_rows = np.empty(rows, np.int32)
        self.rest = np.empty(rows, np.int32)

    def fill(
        self, right: RightRows, parts: list[int], take: Callable[[pa.RecordBatch, slice], None] | None
    ) -> Iterator[int]:
        """Fill the arrays with codes again and again, and yield how many rows they hold; `take` gets other columns."""
        done = 0
        for part in parts:
            for part_batch in right.batches(part):
                for batch in sliced(part_batch, len(self.keys)):
                    if done + batch.num_rows > len(self.keys):
                        yield done
                        done = 0
                    rows = slice(done, done + batch.num_rows)
                    right.encode(batch, self.keys[rows], self.on[rows])
                    if take is not None:
                        take(batch, rows)
                    done = rows.stop
        yield done


class SlotIndex:
    """The bucket index of the slots, cut into partitions for the cache and stripes for the threads."""

    def __init__(self, slots: Slots, context: JoinContext) -> None:
        self._on = slots.on
        self._groups = np.zeros((slots.key_count, search.GROUP_COLUMNS), np.int64)
        entries = search.plan_index(slots.on, slots.starts, _ROWS_PER_BUCKET, self._groups)
        self._entries = np.empty(entries, np.int32)
        context.threads.run(
            lambda part: search.fill_index(slots.on, slots.starts, self._groups, *part, self._entries),
            slots.ranges(context),
        )
        wanted = min(max(len(slots) // (2 * context.threads.sizes.cache_rows), 1), _PARTITIONS_MOST)
        self._shift = max(0, (-(-entries // wanted) - 1).bit_length())
        self._partitions = ((entries - 1) >> self._shift) + 1
        stripes = max(1, min(self._partitions, _STRIPES_PER_THREAD * context.threads.count, _STRIPES_MOST))
        self._edges = [self._partitions * i // stripes for i in range(stripes + 1)]
        # The first slot of each stripe, and the number of slots at the end.
        self._slots = [0, *(int(self._entries[edge << self._shift]) for edge in self._edges[1:-1]), len(slots)]
        self.locks = [Lock() for _ in range(stripes)]

    def locate(self, scratch: Scratch, rows: int, *, forward: bool = False, strict: bool = False) -> Ints:
        """Find the slots of a batch's rows, partition by partition, and return the edges of partitions."""
        keys, on, buckets = scratch.keys[:rows], scratch.on[:rows], scratch.buckets[:rows]
        counts = np.zeros(self._partitions, np.int64)
        remaining = search.partition_count(keys, on, self._groups, forward, strict, self._shift, buckets, counts)
        offsets = np.cumsum(counts) - counts
        slots = scratch.moved_slots
        search.partition_scatter(on, buckets, self._shift, offsets, scratch.moved_on, slots, scratch.moved_rows)
        search.locate(scratch.moved_on, slots, remaining, self._on, self._entries, forward, strict, slots)
        return np.concatenate([[0], np.cumsum(counts)])

    def offer(self, offer: Offer, moved: tuple[npt.NDArray[Any], ...], edges: Ints, number: int, rest: Codes) -> None:
        """Offer located rows stripe by stripe, each thread beginning with another, and write those of others to `rest`.

        `moved` are arrays of rows by partition, the first one their slots, and `edges` where partitions start and end.
        """
        stripes = len(self.locks)
        rest_count = 0
        for i in range(stripes):
            stripe = (number * _STRIPES_PER_THREAD + i) % stripes
            first, end = (int(edges[edge]) for edge in self._edges[stripe : stripe + 2])
            if first < end:
                with self.locks[stripe]:
                    rest_count = offer(moved, first, end, self._slots[stripe], self._slots[stripe + 1], rest_count)
        if not rest_count:
            return
        # The rows between two stripes, whose slot is the next one: others own these.
        others = rest[:rest_count]
        owners = np.searchsorted(self._slots, moved[0][others], "right").astype(np.uint8)
        others = others[np.argsort(owners, kind="stable")]
        moved = tuple(each[others] for each in moved)
        cuts = np.searchsorted(np.sort(owners), np.arange(1, len(self._slots) + 1))
        for stripe, (first, end) in enumerate(pairwise(cuts.tolist())):
            if first < end:
                with self.locks[stripe]:
                    offer(moved, first, end, self._slots[stripe], self._slots[stripe + 1], 0)


def batches_of(right: RightRows, context: JoinContext, row_bytes: int = 0) -> tuple[list[list[int]], int]:
    """Group consecutive parts into batches, smaller ones towards the end, so that all threads end at about one time.

    Also returns how many rows of them are looked at at once, for which threads have `row_bytes` beside `Scratch`.
    """
    most = rows_at_most(
        context, "right rows looked at", _BATCH_ROWS, context.threads.count * (_SCRATCH_ROW_BYTES + row_bytes)
    )
    batches_left = _BATCHES_PER_THREAD * context.threads.count
    batches: list[list[int]] = []
    sizes, left, batch_rows, wanted = right.source.part_rows, right.rows, 0, 0
    for part in right.parts:
        if not batches or batch_rows + sizes[part] > wanted or batches[-1][-1] + 1 != part:
            batches.append([])
            batch_rows, wanted = 0, min(most, max(context.threads.sizes.task_rows, left // batches_left))
        batches[-1].append(part)
        batch_rows += sizes[part]
        left -= sizes[part]
    return batches, min(most, max((sum(sizes[part] for part in batch) for batch in batches), default=0))


def rows_at_most(context: JoinContext, what: str, count: int, each_bytes: int) -> int:
    """Return the maximum number of items at once: the given one, or what fits in their share of the memory."""
    return max(1, min(count, context.memory.reserve(what, _SHARE).total_bytes // each_bytes))
