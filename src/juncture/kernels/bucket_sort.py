"""Sort right rows by key, value and known code, into the groups of sorted left slots, in buckets of values.

The range of each group of slots is cut into buckets of equal width, about one for every right row that may be there.
Rows are brought into partitions, ranges of buckets that fit the second cache, and within one counted into place. What
is left is to sort the few of each bucket by insertion: linear where values are spread evenly (Dobosiewicz, "Sorting by
distributive partitioning", 1978).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, IntTableOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.search import FIRST, MAXIMUM, MINIMUM, SHIFT, bucket_of, width_of

LONG = 160
"""Buckets of more rows are not sorted by insertion, whose time is quadratic."""

TIED, LONG_BUCKETS, STATES = range(3)
"""What `order_partition` reports: whether rows of the same group, value and known code were seen, and how many buckets
are left to be sorted."""


@compiled
def plan_buckets(on: Ints, starts: Ints, wanted: int, groups: IntTableOut, firsts: IntsOut) -> int:
    """Describe each group's buckets, and return how many there are.

    Parameters
    ----------
    on, starts
        The sorted groups of left slots.
    wanted
        About how many buckets there should be.
    groups
        Out: as for `juncture.kernels.search.plan_index`.
    firsts
        Out: the first bucket of each group; that of the next one if it is empty.
    """
    count: Any = 0
    for group in range(len(starts) - 1):
        first, end = starts[group], starts[group + 1]
        firsts[group] = count
        groups[group, FIRST] = -1
        if first == end:
            continue
        minimum, maximum = on[first], on[end - 1]
        share = np.int64(float(end - first) / float(starts[len(starts) - 1]) * float(wanted)) + 1
        groups[group, MINIMUM] = minimum
        groups[group, MAXIMUM] = maximum
        groups[group, SHIFT] = width_of(minimum, maximum, share)
        groups[group, FIRST] = count
        count += bucket_of(maximum, minimum, groups[group, SHIFT]) + 1
    return int(count)


@compiled
def scatter(
    on: Ints,
    known: Ints,
    buckets: Codes,
    base: int,
    shift: int,
    offsets: IntsOut,
    out_on: IntsOut,
    out_known: IntsOut,
    out_buckets: CodesOut,
    out_pointers: IntsOut,
) -> None:
    """Bring the rows of each partition together.

    Parameters
    ----------
    on, known, buckets
        Value, known code and bucket of some rows; a negative bucket where a row serves no slot.
    base
        The pointer of the first row.
    shift
        A partition is ``bucket >> shift``.
    offsets
        First position of each partition in the output; moved to its end.
    out_on, out_known, out_buckets, out_pointers
        Out: value, known code, bucket and pointer of each row that is left.
    """
    for row in range(len(on)):
        bucket = buckets[row]
        if bucket < 0:
            continue
        partition = bucket >> shift
        position = offsets[partition]
        offsets[partition] = position + 1
        out_on[position] = on[row]
        out_known[position] = known[row]
        out_buckets[position] = bucket
        out_pointers[position] = base + row


@inlined
def _goes_before(value: Any, code: Any, other_value: Any, other_code: Any) -> bool:
    return bool(value < other_value or (value == other_value and code < other_code))


@inlined
def _is_sorted(on: Ints, known: Ints, start: Any, end: Any) -> bool:
    for place in range(start + 1, end):
        if _goes_before(on[place], known[place], on[place - 1], known[place - 1]):
            return False
    return True


@inlined
def _insert(on: IntsOut, known: IntsOut, pointers: IntsOut, start: Any, end: Any) -> None:
    """Sort rows by value and known code, stably."""
    for current in range(start + 1, end):
        value, code = on[current], known[current]
        if not _goes_before(value, code, on[current - 1], known[current - 1]):
            continue
        pointer = pointers[current]
        place = current
        while place > start and _goes_before(value, code, on[place - 1], known[place - 1]):
            on[place], known[place], pointers[place] = on[place - 1], known[place - 1], pointers[place - 1]
            place -= 1
        on[place], known[place], pointers[place] = value, code, pointer


@inlined
def _has_equals(on: Ints, known: Ints, start: Any, end: Any) -> bool:
    equals: Any = 0
    for place in range(start + 1, end):
        equals += np.int64(on[place] == on[place - 1]) & np.int64(known[place] == known[place - 1])
    return bool(equals > 0)


@compiled
def order_partition(
    buckets: Codes,
    on: Ints,
    known: Ints,
    pointers: Ints,
    base: int,
    low: int,
    high: int,
    firsts: Ints,
    group: int,
    out_on: IntsOut,
    out_known: IntsOut,
    out_pointers: IntsOut,
    out_starts: IntsOut,
    long_buckets: IntTableOut,
    state: IntsOut,
) -> None:
    """Sort the rows of one partition by bucket, value and known code, stably.

    Parameters
    ----------
    buckets, on, known, pointers
        Bucket, value, known code and pointer of each row.
    base
        How many rows there are in the partitions before.
    low, high
        The partition's buckets.
    firsts, group
        The first bucket of each group; the first group of those that start in the partition.
    out_on, out_known, out_pointers
        Out: the rows in order.
    out_starts
        Out: where the rows of each group that starts in the partition do, among those of all partitions.
    long_buckets
        Out: start and end, among these rows, of the buckets of more than `LONG` rows that are not in order. They are
        left as they came.
    state
        Out: `STATES` numbers.
    """
    ends = np.zeros(high - low + 1, np.int32)
    for i in range(len(buckets)):
        ends[np.int64(buckets[i]) - low + 1] += 1
    longest: Any = np.int32(0)
    for bucket in range(1, len(ends)):
        longest = max(longest, ends[bucket])
        ends[bucket] += ends[bucket - 1]
    first_group = group
    while group < len(firsts) and firsts[group] < high:
        out_starts[group] = base + ends[firsts[group] - low]
        group += 1
    for i in range(len(buckets)):
        own: Any = np.int64(buckets[i]) - low
        place = np.int64(ends[own])
        ends[own] = place + 1
        out_on[place] = on[i]
        out_known[place] = known[i]
        out_pointers[place] = pointers[i]
    start: Any = np.int64(0)
    end: Any = np.int64(0)
    if longest > LONG:
        for bucket in range(high - low):
            end = np.int64(ends[bucket])
            if end - start <= LONG:
                _insert(out_on, out_known, out_pointers, start, end)
            elif not _is_sorted(out_on, out_known, start, end):
                long_buckets[state[LONG_BUCKETS], 0] = start
                long_buckets[state[LONG_BUCKETS], 1] = end
                state[LONG_BUCKETS] += 1
            start = end
    # Rows of one group are in the order of their buckets by now, so that few have to be moved, and not far.
    start = np.int64(0)
    for each in range(first_group, group + 1):
        end = np.int64(out_starts[each] - base) if each < group else np.int64(len(buckets))
        if longest <= LONG:
            _insert(out_on, out_known, out_pointers, start, end)
        if _has_equals(out_on, out_known, start, end):
            state[TIED] = 1
        start = end
