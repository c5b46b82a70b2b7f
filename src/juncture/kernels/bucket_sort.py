"""Sort right rows by key, value and availability code, into the groups of sorted left slots, in buckets of values.

The range of each group of slots is divided into buckets of equal width, about one per expected right row. Rows are
moved into partitions, ranges of buckets that fit the second-level cache, and within one by counting. Finally the few
rows of each bucket are sorted by insertion: linear if values are evenly spread (Dobosiewicz, "Sorting by distributive
partitioning", 1978).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, IntTableOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.search import FIRST, MAXIMUM, MINIMUM, SHIFT, bucket_of, width_of

LONG = 160
"""Buckets with more rows are not sorted by insertion, which takes quadratic time."""

TIED, LONG_BUCKETS, STATES = range(3)
"""The results of `order_partition`: whether rows of the same group, value and availability code exist, and the
number of unsorted buckets.
"""


@compiled
def plan_buckets(on: Ints, starts: Ints, wanted: int, groups: IntTableOut, firsts: IntsOut) -> int:
    """Plan the buckets of each group of left slots, about ``wanted`` in total, and return their number.

    Out: ``groups`` as for `juncture.kernels.search.plan_index`, and in ``firsts`` the first bucket of each group, or
    that of the next group if it is empty.
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
    available_at: Ints,
    buckets: Codes,
    base: int,
    shift: int,
    offsets: IntsOut,
    out_on: IntsOut,
    out_available_at: IntsOut,
    out_buckets: CodesOut,
    out_pointers: IntsOut,
) -> None:
    """Move rows together by partition, which is ``bucket >> shift``; rows with a negative bucket are dropped.

    ``base`` is the pointer of the first row, and ``offsets`` has the first position of each partition in the output,
    then its end. Out: value, availability code, bucket and pointer of each remaining row.
    """
    for row in range(len(on)):
        bucket = buckets[row]
        if bucket < 0:
            continue
        partition = bucket >> shift
        position = offsets[partition]
        offsets[partition] = position + 1
        out_on[position] = on[row]
        out_available_at[position] = available_at[row]
        out_buckets[position] = bucket
        out_pointers[position] = base + row


@inlined
def _goes_before(value: Any, code: Any, other_value: Any, other_code: Any) -> bool:
    return bool(value < other_value or (value == other_value and code < other_code))


@inlined
def _is_sorted(on: Ints, available_at: Ints, start: Any, end: Any) -> bool:
    for position in range(start + 1, end):
        if _goes_before(on[position], available_at[position], on[position - 1], available_at[position - 1]):
            return False
    return True


@inlined
def _insert(on: IntsOut, available_at: IntsOut, pointers: IntsOut, start: Any, end: Any) -> None:
    """Sort rows by value and availability code, stably."""
    for current in range(start + 1, end):
        value, code = on[current], available_at[current]
        if not _goes_before(value, code, on[current - 1], available_at[current - 1]):
            continue
        pointer = pointers[current]
        position = current
        while position > start and _goes_before(value, code, on[position - 1], available_at[position - 1]):
            on[position], available_at[position], pointers[position] = (
                on[position - 1],
                available_at[position - 1],
                pointers[position - 1],
            )
            position -= 1
        on[position], available_at[position], pointers[position] = value, code, pointer


@inlined
def _has_equals(on: Ints, available_at: Ints, start: Any, end: Any) -> bool:
    equals: Any = 0
    for position in range(start + 1, end):
        equals += np.int64(on[position] == on[position - 1]) & np.int64(
            available_at[position] == available_at[position - 1]
        )
    return bool(equals > 0)


@compiled
def order_partition(
    buckets: Codes,
    on: Ints,
    available_at: Ints,
    pointers: Ints,
    base: int,
    low: int,
    high: int,
    firsts: Ints,
    group: int,
    out_on: IntsOut,
    out_available_at: IntsOut,
    out_pointers: IntsOut,
    out_starts: IntsOut,
    long_buckets: IntTableOut,
    state: IntsOut,
) -> None:
    """Sort the rows of one partition by bucket, value and availability code, stably.

    The partition has the buckets from ``low`` to before ``high``, and ``base`` rows are in partitions before it.
    ``firsts`` has the first bucket of each group, and ``group`` is the first group that starts in the partition. Out:
    the sorted rows; ``out_starts``, the start of each group that starts in the partition, counted over all partitions;
    `STATES` numbers in ``state``; and in ``long_buckets`` the start and end, among these rows, of unsorted buckets of
    more than `LONG` rows, which keep their order.
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
        local_bucket: Any = np.int64(buckets[i]) - low
        position = np.int64(ends[local_bucket])
        ends[local_bucket] = position + 1
        out_on[position] = on[i]
        out_available_at[position] = available_at[i]
        out_pointers[position] = pointers[i]
    start: Any = np.int64(0)
    end: Any = np.int64(0)
    if longest > LONG:
        for bucket in range(high - low):
            end = np.int64(ends[bucket])
            if end - start <= LONG:
                _insert(out_on, out_available_at, out_pointers, start, end)
            elif not _is_sorted(out_on, out_available_at, start, end):
                long_buckets[state[LONG_BUCKETS], 0] = start
                long_buckets[state[LONG_BUCKETS], 1] = end
                state[LONG_BUCKETS] += 1
            start = end
    # Rows of one group are in the order of their buckets now, so few rows move, and not far.
    start = np.int64(0)
    for each in range(first_group, group + 1):
        end = np.int64(out_starts[each] - base) if each < group else np.int64(len(buckets))
        if longest <= LONG:
            _insert(out_on, out_available_at, out_pointers, start, end)
        if _has_equals(out_on, out_available_at, start, end):
            state[TIED] = 1
        start = end
