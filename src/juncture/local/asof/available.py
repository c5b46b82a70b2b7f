"""As-of joins of what was known: sort right rows into the keys of the left ones, and search there for known rows.

Each batch of right rows is sorted by key, ``on`` and when it was known (see `juncture.kernels.bucket_sort`), with a
tree of the availability codes; each left row finds its candidates there, and keeps the best of all batches (see
`juncture.kernels.asof_available`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from juncture.kernels import asof_available as kernels
from juncture.kernels import bucket_sort, search
from juncture.kernels.array_types import Ints
from juncture.kernels.intrinsics import WINDOW
from juncture.kernels.sort import mark_runs
from juncture.local.asof.batches import Batch, nothing, search_batches, with_ties_broken
from juncture.local.asof.sides import RightRows, SideCodes
from juncture.local.output.pairs import MaxTree
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import Slots, order_of
from juncture.spec.asof import Direction

_BATCH_ROWS = 1 << 21
"""So few that the next batch uses memory again that this one leaves: new memory costs as much as the work."""
_ROWS_PER_SLOT = 2  # each batch looks at all left rows
_BUCKETS_PER_ROW = 1
_PARTITIONS_MOST = 512


def search_available(
    slots: Slots,
    asof_codes: Ints,
    right: RightRows,
    directions: Sequence[Direction],
    candidate_count: int,
    context: JoinContext,
    *,
    at_once: bool,
) -> list[Ints]:
    """Return each slot's best available right rows in each direction, as `juncture.local.asof.probe.probe` does.

    `asof_codes` has the code of the time of each left row up to which right rows are known to it. With `at_once`, all
    right rows are buffered, rather than as many at a time as fit.

    Time O(R log R + L log R) for each batch, regardless of availability; some 60 ns and core for a right row.
    """

    def searcher(loaded: SideCodes) -> Callable[[Direction], Ints]:
        buckets = _Buckets(slots, len(loaded.keys), context.threads.sizes.cache_rows)

        def find(direction: Direction) -> Ints:
            batch = _Sorting(buckets, loaded, right, direction, context).batch()
            return _best_available(batch, slots, asof_codes, direction, candidate_count, context)

        return find

    batch_rows = max(_BATCH_ROWS, _ROWS_PER_SLOT * len(slots))
    return search_batches(
        slots, right, directions, candidate_count, context, searcher, at_once=at_once, batch_rows=batch_rows
    )


def _best_available(
    batch: Batch, slots: Slots, asof_codes: Ints, direction: Direction, candidate_count: int, context: JoinContext
) -> Ints:
    """Return each slot's best known rows of a batch."""
    tree = MaxTree(~batch.available_at, context)
    best = nothing(slots, candidate_count)

    def find(part: tuple[int, int, int]) -> None:
        kernels.find_available(
            slots.on, asof_codes, slots.starts, *part, batch.on, batch.starts, batch.pointers, batch.ends, tree.values,
            tree.levels, direction.forward, direction.strict, best,
        )  # fmt: skip

    context.threads.run(find, slots.ranges(context))
    return best


class _Buckets:
    """The buckets of each key, about one for each right row, and their partitions, which fit the second-level cache.

    A partition is ``bucket >> shift``; `edges` are the first bucket of each, and the number of buckets at the end.
    """

    def __init__(self, slots: Slots, rows: int, cache_rows: int) -> None:
        self.groups = np.zeros((slots.key_count, search.GROUP_COLUMNS), np.int64)
        self.firsts = np.empty(slots.key_count, np.int64)
        count = bucket_sort.plan_buckets(slots.on, slots.starts, _BUCKETS_PER_ROW * rows, self.groups, self.firsts)
        wanted = min(max(rows // cache_rows, 1), _PARTITIONS_MOST)
        self.shift = max(0, (-(-count // wanted) - 1).bit_length())
        self.edges = [*range(0, count, 1 << self.shift), count]

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.edges) - 1


class _Sorting:
    """Right rows on their way to the left rows that they serve in one direction."""

    def __init__(
        self, buckets: _Buckets, loaded: SideCodes, right: RightRows, direction: Direction, context: JoinContext
    ) -> None:
        self._buckets = buckets
        self._right = right
        self._direction = direction
        self._context = context
        self._partition(loaded)

    def _partition(self, loaded: SideCodes) -> None:
        """Bring the rows of each partition together, and leave out those that no left row can take."""
        buckets, direction = self._buckets, self._direction
        chunks = self._chunks(loaded)
        counts = np.zeros((len(chunks), buckets.partitions), np.int64)
        numbers = np.empty(len(loaded.keys), np.int32)

        def count(chunk: int) -> None:
            rows = chunks[chunk][0]
            search.partition_count(
                loaded.keys[rows], loaded.on[rows], buckets.groups, direction.forward, direction.strict, buckets.shift,
                numbers[rows], counts[chunk],
            )  # fmt: skip

        self._context.threads.run(count, range(len(chunks)))
        # Rows of a partition go behind those of the partitions before, and of the chunks before their own.
        before = np.cumsum(counts.T.ravel()) - counts.T.ravel()
        offsets = np.ascontiguousarray(before.reshape(buckets.partitions, len(chunks)).T)
        self._ends = [0, *np.cumsum(counts.sum(axis=0)).tolist()]
        row_count = self._ends[-1]
        self._numbers = np.empty(row_count, np.int32)
        self._on, self._available_at, self._pointers = (np.empty(row_count, np.int64) for _ in range(3))

        def scatter(chunk: int) -> None:
            rows, pointer = chunks[chunk]
            bucket_sort.scatter(
                loaded.on[rows], loaded.times[rows], numbers[rows], pointer, buckets.shift, offsets[chunk], self._on,
                self._available_at, self._numbers, self._pointers,
            )  # fmt: skip

        self._context.threads.run(scatter, range(len(chunks)))

    def _chunks(self, loaded: SideCodes) -> list[tuple[slice, int]]:
        """Cut the rows into ranges for threads, each with the pointer of its first row; pointers in it go up by one."""
        bounds, chunks, first = self._right.source.bounds, [], 0
        parts = np.array(loaded.parts, np.int64)
        for run in np.split(parts, np.flatnonzero(np.diff(parts) != 1) + 1) if len(parts) else []:
            pointer, end = int(bounds[run[0]]), int(bounds[run[-1] + 1])
            for start, stop in self._context.threads.slices(end - pointer, 4):
                chunks.append((slice(first + start, first + stop), pointer + start))
            first += end - pointer
        return chunks

    def batch(self) -> Batch:
        """Return the rows in the order of key, ``on`` and when they are known, and of what decides ties."""
        buckets, row_count = self._buckets, self._ends[-1]
        groups = np.searchsorted(buckets.firsts, buckets.edges).tolist()
        on, available_at, pointers = (
            np.zeros(row_count + WINDOW, np.int64),
            np.empty(row_count, np.int64),
            np.empty(row_count, np.int64),
        )
        starts = np.full(len(buckets.firsts) + 1, row_count, np.int64)

        def order(partition: int) -> bool:
            part = slice(*self._ends[partition : partition + 2])
            edges = buckets.edges[partition], buckets.edges[partition + 1]
            return self._order(part, edges, groups[partition], on[part], available_at[part], pointers[part], starts)

        tied = any(list(self._context.threads.map(order, range(buckets.partitions))))
        ends = np.empty(row_count * (tied or self._direction.forward), np.int32)
        if len(ends):
            mark_runs(on[:row_count], starts, ends)
        if tied:
            pointers = with_ties_broken(pointers, ends, available_at, self._right, self._context)
        return Batch(on, starts, ends, available_at, pointers)

    def _order(
        self,
        part: slice,
        edges: tuple[int, int],
        group: int,
        on: Ints,
        available_at: Ints,
        pointers: Ints,
        starts: Ints,
    ) -> bool:
        """Sort the rows of a partition, and return whether some may be equal."""
        long_buckets = np.empty((len(on) // bucket_sort.LONG, 2), np.int64)
        state, (low, high) = np.zeros(bucket_sort.STATES, np.int64), edges
        bucket_sort.order_partition(
            self._numbers[part], self._on[part], self._available_at[part], self._pointers[part], part.start, low, high,
            self._buckets.firsts, group, on, available_at, pointers, starts, long_buckets, state,
        )  # fmt: skip
        unsorted_runs = long_buckets[: state[bucket_sort.LONG_BUCKETS]]
        if len(unsorted_runs):
            _sort_runs(unsorted_runs, on, available_at, pointers, self._context.alone())
            # The kernel looked for equal rows before.
            return True
        return bool(state[bucket_sort.TIED])


def _sort_runs(runs: Ints, on: Ints, available_at: Ints, pointers: Ints, context: JoinContext) -> None:
    """Sort some runs by value and availability code, stably."""
    sizes = runs[:, 1] - runs[:, 0]
    numbers = np.repeat(np.arange(len(runs)), sizes)
    candidate_count = np.arange(len(numbers)) + np.repeat(runs[:, 0] - np.cumsum(sizes) + sizes, sizes)
    order = candidate_count[order_of([numbers, on[candidate_count], available_at[candidate_count]], context)]
    for column in (on, available_at, pointers):
        column[candidate_count] = column[order]
