"""Find many values in many sorted groups: an index of buckets, a partition of the queries, a search in lockstep.

The sorted side is one array ``on`` of codes, cut into groups by ``starts``: group ``g`` is ``on[starts[g] :
starts[g + 1]]``, ascending. A *slot* is a position in that array.

The index divides the range of each group into buckets of equal width, a power of two, about one for every few rows,
and holds the first slot of each. So a search is one look into the index and a short search in the bucket's slots:
constant on values that are spread evenly, and logarithmic at worst, when all lie in one bucket.

A search costs cache misses, not comparisons. Hence queries are first partitioned by their bucket, so that those close
together in time are close in memory too, and then searched in blocks, all in step, so that their misses overlap. The
idea of a radix-partitioned probe is from Manegold, Boncz and Kersten, "Optimizing main-memory join on modern hardware"
(2002); the branchless search in lockstep from Kim et al., "FAST: fast architecture sensitive tree search" (2010).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import BytesOut, Codes, CodesOut, Ints, IntsOut, IntTable, IntTableOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import WINDOW, below_in_window, prefetch

MINIMUM, MAXIMUM, SHIFT, FIRST = range(4)
GROUP_COLUMNS = 4
"""What the index holds of a group: its least and greatest value, its buckets' width as a power of two, and its first
entry in the index (-1 if the group is empty)."""

BLOCK = 64
"""Queries in step: enough to keep the memory busy, few enough for the first cache."""


@inlined
def width_of(minimum: Any, maximum: Any, buckets: Any) -> Any:
    """Return the width of buckets, as a power of two, such that a number of them covers a range."""
    extent = np.uint64(maximum) - np.uint64(minimum)
    shift = np.int64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if extent >> np.uint64(shift + step - 1) >= np.uint64(buckets):
            shift += step
    return shift


@inlined
def bucket_of(value: Any, minimum: Any, shift: Any) -> Any:
    """Return the bucket of a value."""
    # Unsigned, because the range of a group may exceed that of a signed integer.
    return np.int64((np.uint64(value) - np.uint64(minimum)) >> np.uint64(shift))


@compiled
def plan_index(on: Ints, starts: Ints, rows_per_bucket: int, groups: IntTableOut) -> int:
    """Describe each group's buckets, and return the number of entries of the index.

    Parameters
    ----------
    on, starts
        The sorted groups.
    rows_per_bucket
        Rows for each bucket, on average, if they were spread evenly.
    groups
        Out: one row of `GROUP_COLUMNS` for each group.

    Notes
    -----
    Constant time for each group.
    """
    entries = 0
    for group in range(len(starts) - 1):
        first, end = starts[group], starts[group + 1]
        if first == end:
            groups[group, FIRST] = -1
            continue
        minimum, maximum = on[first], on[end - 1]
        buckets: Any = 1
        if end - first > WINDOW:
            buckets = max((end - first) // rows_per_bucket, 1)
        shift = width_of(minimum, maximum, buckets)
        groups[group, MINIMUM] = minimum
        groups[group, MAXIMUM] = maximum
        groups[group, SHIFT] = shift
        groups[group, FIRST] = entries
        entries += bucket_of(maximum, minimum, shift) + 2
    return entries


@compiled
def fill_index(
    on: Ints, starts: Ints, groups: IntTable, first_slot: int, end_slot: int, group: int, index: CodesOut
) -> None:
    """Write the entries that a range of slots decides: the first slot of each bucket, and each group's end.

    Parameters
    ----------
    on, starts, groups
        The sorted groups and their plan.
    first_slot, end_slot
        The range. Ranges that do not overlap may be filled at once by several threads.
    group
        The group of the first slot.
    index
        Out: the entries.

    Notes
    -----
    Linear in the range and the entries it decides.
    """
    for slot in range(first_slot, end_slot):
        while slot >= starts[group + 1]:
            group += 1
        minimum, shift, first = groups[group, MINIMUM], groups[group, SHIFT], groups[group, FIRST]
        bucket = bucket_of(on[slot], minimum, shift)
        before = -1
        if slot > starts[group]:
            before = bucket_of(on[slot - 1], minimum, shift)
        for entry in range(first + before + 1, first + bucket + 1):
            index[entry] = slot
        if slot + 1 == starts[group + 1]:
            index[first + bucket + 1] = slot + 1


@compiled
def partition_count(
    keys: Codes,
    on: Ints,
    groups: IntTable,
    forward: bool,
    strict: bool,
    shift: int,
    seen: BytesOut,
    buckets: CodesOut,
    counts: IntsOut,
) -> int:
    """Find each query's bucket, and count the queries of each partition.

    A query serves the slots at or after its value if backward (it is the last before them), those at or before it if
    forward. One that serves none, or whose group does not exist, is dropped.

    Parameters
    ----------
    keys, on
        The queries: a group (negative if there is none) and a value for each.
    groups
        The plan of the index.
    forward
        The direction of the join.
    strict
        Whether a query does not serve slots of the same value.
    shift
        A partition is ``bucket >> shift``, so partitions are ranges of slots.
    seen
        Out: set to 1 for each group that a query needs.
    buckets
        Out: entry in the index for each query, -1 if dropped.
    counts
        Out: queries in each partition, added to what is there.

    Returns
    -------
    int
        Queries that are left.
    """
    kept = 0
    for query in range(len(keys)):
        key = keys[query]
        buckets[query] = -1
        if key < 0:
            continue
        seen[key] = 1
        first = groups[key, FIRST]
        minimum, maximum = groups[key, MINIMUM], groups[key, MAXIMUM]
        value = on[query]
        if forward:
            useless = value < minimum or (strict and value == minimum)
        else:
            useless = value > maximum or (strict and value == maximum)
        if first < 0 or useless:
            continue
        bucket = first + bucket_of(min(max(value, minimum), maximum), minimum, groups[key, SHIFT])
        buckets[query] = bucket
        counts[bucket >> shift] += 1
        kept += 1
    return kept


@compiled
def partition_scatter(
    on: Ints, buckets: Codes, shift: int, offsets: IntsOut, out_on: IntsOut, out_buckets: CodesOut, out_rows: CodesOut
) -> None:
    """Bring the queries of each partition together.

    Parameters
    ----------
    on, buckets, shift
        As for `partition_count`.
    offsets
        First position of each partition in the output; moved to its end.
    out_on, out_buckets, out_rows
        Out: value, bucket and row of each query that is left.
    """
    for query in range(len(on)):
        bucket = buckets[query]
        if bucket < 0:
            continue
        partition = bucket >> shift
        position = offsets[partition]
        offsets[partition] = position + 1
        out_on[position] = on[query]
        out_buckets[position] = bucket
        out_rows[position] = query


@compiled
def locate(
    values: Ints, buckets: Codes, queries: int, on: Ints, index: Codes, forward: bool, strict: bool, slots: CodesOut
) -> None:
    """Find the slot that each query serves first.

    Backward that is the first slot at or after the value, forward the last one at or before it; if strict, slots of
    the same value do not count.

    Parameters
    ----------
    values, buckets
        The queries, best in the order of their partitions.
    queries
        How many there are.
    on, index
        The sorted groups, with `WINDOW` spare items at the end, and their index.
    forward, strict
        As for `partition_count`, which has dropped those that serve no slot.
    slots
        Out: slot of each query. May be the same array as ``buckets``.

    Notes
    -----
    O(log n) for n rows in one bucket. Spans longer than `WINDOW` are halved in lockstep, the rest is one comparison of
    vectors. About 12 ns for a query where partitions fit the second cache and get tens of thousands of queries each.
    """
    # Searching for the first slot past the value, instead of the first one not below it.
    inclusive = forward != strict
    shortfall = np.int64(1 if forward else 0)
    low = np.empty(BLOCK, np.int64)
    span = np.empty(BLOCK, np.int64)
    wide = np.empty(BLOCK, np.int64)
    for block in range(0, queries, BLOCK):
        size = min(BLOCK, queries - block)
        wides: Any = 0
        longest: Any = np.int64(0)
        for i in range(size):
            entry = np.uint64(buckets[block + i])
            first = np.int64(index[entry])
            length = np.int64(index[entry + np.uint64(1)]) - first
            low[i] = first
            span[i] = length
            wide[wides] = i
            wides += length > WINDOW
            longest = max(longest, length)
            middle = np.uint64(first + (length >> 1) if length > WINDOW else first)
            # A window that does not start with a cache line lies in three of them.
            prefetch(on, middle)
            prefetch(on, middle + np.uint64(8))
            prefetch(on, middle + np.uint64(WINDOW - 1))
        while longest > WINDOW:
            for j in range(wides):
                i = wide[j]
                half = span[i] >> 1
                middle_value, value = on[np.uint64(low[i] + half - 1)], values[block + i]
                # A mask, because a branch would be mispredicted every other time.
                low[i] += half & -np.int64((middle_value < value) | (inclusive & (middle_value == value)))
                span[i] -= half
            longest -= longest >> 1
        for i in range(size):
            below = below_in_window(on, np.uint64(low[i]), span[i], values[block + i], inclusive)
            slots[block + i] = low[i] + below - shortfall
