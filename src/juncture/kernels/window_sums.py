"""Counts and sums over windows around sorted left slots, of right rows in any order.

The slots are in groups, as for `juncture.kernels.search`, and have the least and the greatest right value that they
match, ``low`` and ``high``, both ascending in a group. So the slots that match a right row are a range of its group:
from the first one whose ``high`` is not less than the row's value to the first one whose ``low`` is greater. The row
adds its *words*, 1 and the values to be summed, where the range starts, and subtracts them where it ends. Running
totals over the slots are the sums of each.

Slots with the windows [0, 2], [1, 3] and [5, 7] of one group, and a right row at 2 with the value 10::

    range   the slots 0 and 1
    add_at  (1, 10) at slot 0 and (-1, -10) at slot 2
    totals  counts 1, 1, 0 and sums 10, 10, 0
"""

from __future__ import annotations

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntTable, IntTableOut
from juncture.kernels.compiled import compiled
from juncture.kernels.intrinsics import WINDOW, below_in_window, prefetch
from juncture.kernels.search import advance

GROUP_END = -1
"""The end of a range that reaches the end of its group, where totals start anew."""

_AHEAD = 32  # number of rows by which the cache line of a slot or a left row is prefetched


@compiled
def range_ends(
    slots: Codes, on: Ints, rows: Codes, count: int, keys: Codes, starts: Ints, low: Ints, ends: CodesOut
) -> None:
    """Find the end of the range of each of ``count`` right rows, or `GROUP_END`, given the range's first slot.

    ``keys`` are the groups of rows, and ``starts`` the first slots of groups. ``low`` has `WINDOW` spare items at the
    end. Logarithmic in the length of a range; a short one takes one vector comparison.
    """
    for i in range(count):
        later = min(i + _AHEAD, count - 1)
        prefetch(low, np.uint64(slots[later]))
        prefetch(keys, np.uint64(rows[later]))
        end = starts[keys[rows[i]] + 1]
        first = np.int64(slots[i])
        below = below_in_window(low, np.uint64(first), min(end - first, WINDOW), on[i], True)
        position = first + below
        if below == WINDOW:
            position = advance(low, position, end, on[i], True)
        ends[i] = GROUP_END if position == end else position


@compiled
def add_at(
    slots: Codes,
    rows: Codes,
    words: IntTable,
    first: int,
    end: int,
    low: int,
    high: int,
    sign: int,
    totals: IntTableOut,
    rest: CodesOut,
    rest_count: int,
) -> int:
    """Add the words of right rows, times a sign, at their slots, and return the number of rows in ``rest``.

    ``words[row]`` are those behind the first word, which is 1. Only slots in ``[low, high)`` are touched, so that
    threads may own ranges of slots; ``rest`` receives the positions of the other rows, except at `GROUP_END`.
    """
    flat, flat_words, width = totals.reshape(-1), words.reshape(-1), totals.shape[1]
    for position in range(first, end):
        later = min(position + _AHEAD, end - 1)
        prefetch(flat, np.uint64(width * max(np.int64(slots[later]), 0)))
        prefetch(flat_words, np.uint64((width - 1) * np.int64(rows[later])))
        slot = np.int64(slots[position])
        if slot == GROUP_END:
            continue
        if slot < low or slot >= high:
            rest[rest_count] = position
            rest_count += 1
            continue
        row = np.int64(rows[position])
        totals[slot, 0] += sign
        for word in range(width - 1):
            totals[slot, word + 1] += sign * words[row, word]
    return rest_count


@compiled
def sum_slots(
    totals: IntTableOut, starts: Ints, rows: Codes, first_group: int, end_group: int, sums: IntTableOut
) -> None:
    """Write the running totals of each slot's group to ``sums[word, row]``, where ``rows`` are those of the slots."""
    for group in range(first_group, end_group):
        for word in range(totals.shape[1]):
            running = np.int64(0)
            for slot in range(starts[group], starts[group + 1]):
                running += totals[slot, word]
                sums[word, rows[slot]] = running
