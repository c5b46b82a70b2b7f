"""Find many values in many sorted groups: an index of buckets, a partition of the queries, a search in lockstep.

The sorted side is one array ``on`` of codes, divided into groups by ``starts``: group ``g`` is ``on[starts[g] :
starts[g + 1]]``, ascending. A *slot* is a position in that array.

The index divides the range of each group into buckets of equal width, a power of two, about one for every few rows, and
has the first slot of each. A search is one read of the index and a short search in the bucket's slots: constant for
evenly spread values, and logarithmic if all are in one bucket.

A search costs cache misses, not comparisons. Queries are therefore first partitioned by bucket, so that those close in
value are close in memory, and then searched in blocks in lockstep, so that their misses overlap. The radix-partitioned
probe is from Manegold, Boncz and Kersten, "Optimizing main-memory join on modern hardware" (2002); the branchless
search in lockstep is from Kim et al., "FAST: fast architecture sensitive tree search" (2010).

Slots at 1, 4, 9 of one group: a query at 5 serves the slots from 2 on backward, and those up to 1 forward.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, IntTable, IntTableOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import WINDOW, below_in_window, prefetch

MINIMUM, MAXIMUM, SHIFT, FIRST = range(4)
GROUP_COLUMNS = 4
"""The index of a group: its least and greatest value, the width of its buckets as a power of two, and its first entry
in the index (-1 if the group is empty).
"""

_AHEAD = 32  # number of queries by which the line of a group is prefetched

BLOCK = 64
"""Queries in lockstep: enough to keep the memory busy, few enough for the first-level cache."""


@inlined
def width_of(minimum: Any, maximum: Any, buckets: Any) -> Any:
    """Return the width of buckets, as a power of two, for a number of buckets to cover a range."""
    extent = np.uint64(maximum) - np.uint64(minimum)
    shift = np.int64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if extent >> np.uint64(shift + step - 1) >= np.uint64(buckets):
            shift += step
    return shift


@inlined
def bucket_of(value: Any, minimum: Any, shift: Any) -> Any:
    """Return the bucket of a value."""
    # Unsigned, since the range of a group may exceed that of a signed integer.
    return np.int64((np.uint64(value) - np.uint64(minimum)) >> np.uint64(shift))


@inlined
def advance(on: Ints, position: Any, end: int, value: int, inclusive: bool) -> Any:
    """Return the first position from here whose value is past another: greater, or not less unless inclusive."""
    step = 1
    while position + step <= end and (
        on[position + step - 1] < value or (inclusive and on[position + step - 1] == value)
    ):
        position += step
        step *= 2
    span = min(step - 1, end - position)
    while span > 0:
        half = span >> 1
        middle = on[position + half]
        if middle < value or (inclusive and middle == value):
            position += half + 1
            span -= half + 1
        else:
            span = half
    return position


@compiled
def plan_index(on: Ints, starts: Ints, rows_per_bucket: int, groups: IntTableOut) -> int:
    """Plan the buckets of each sorted group, and return the number of index entries. Constant time for each group.

    ``rows_per_bucket`` is an average for evenly spread values. Out: ``groups``, one row of `GROUP_COLUMNS` for each
    group.
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
    """Write the index entries of a range of slots: the first slot of each bucket, and each group's end.

    Threads may fill disjoint ranges ``[first_slot, end_slot)`` at once; ``group`` is that of the first slot. Linear in
    the range and its entries.
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
    buckets: CodesOut,
    counts: IntsOut,
) -> int:
    """Find each query's bucket, count the queries of each partition, and return the number of remaining queries.

    Backward, a query serves the slots at or after its value; forward, those at or before it; with ``strict``, not those
    of its own value. A query that serves no slot, or whose group does not exist (or is negative), is dropped: its
    bucket is -1. A partition is ``bucket >> shift``, so partitions are ranges of slots; its queries are added to
    ``counts``.
    """
    remaining, lines = 0, groups.reshape(-1)
    for query in range(len(keys)):
        later = np.int64(keys[min(query + _AHEAD, len(keys) - 1)])
        prefetch(lines, np.uint64(GROUP_COLUMNS * max(later, np.int64(0))))
        key = keys[query]
        buckets[query] = -1
        if key < 0:
            continue
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
        remaining += 1
    return remaining


@compiled
def partition_scatter(
    on: Ints, buckets: Codes, shift: int, offsets: IntsOut, out_on: IntsOut, out_buckets: CodesOut, out_rows: CodesOut
) -> None:
    """Move the queries of each partition together; ``buckets`` and ``shift`` as for `partition_count`.

    ``offsets`` are the next output positions of the partitions, and are advanced. Out: value, bucket and row of each
    remaining query.
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
    """Find the first slot that each query serves.

    Backward, it is the first slot at or after the value; forward, the last one at or before it. With ``strict``, slots
    of the same value do not count. Queries are the remaining ones of `partition_count`, best in the order of their
    partitions; ``on`` has `WINDOW` spare items at the end. ``slots`` may be the same array as ``buckets``.

    O(log n) for n rows in one bucket. Spans longer than `WINDOW` are halved in lockstep, the rest is one vector
    comparison. About 12 ns per query if partitions fit the second-level cache and have tens of thousands of queries
    each.
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
            # A window that is not aligned to cache lines spans three of them.
            prefetch(on, middle)
            prefetch(on, middle + np.uint64(8))
            prefetch(on, middle + np.uint64(WINDOW - 1))
        while longest > WINDOW:
            for j in range(wides):
                i = wide[j]
                half = span[i] >> 1
                middle_value, value = on[np.uint64(low[i] + half - 1)], values[block + i]
                # A mask, since a branch would be mispredicted every other time.
                low[i] += half & -np.int64((middle_value < value) | (inclusive & (middle_value == value)))
                span[i] -= half
            longest -= longest >> 1
        for i in range(size):
            below = below_in_window(on, np.uint64(low[i]), span[i], values[block + i], inclusive)
            slots[block + i] = low[i] + below - shortfall
