"""Spans of sorted positions that match queries, and the pairs of these spans.

The sorted side is divided into groups, with an index of buckets (see `juncture.kernels.search`). A *query* is a group
and a closed range of codes, and its result a span of positions ``[first, end)``. Spans give the number of matches
before any is written, so pairs can be made in batches of any size.

Values 1, 4, 4, 9 of one group, and a query from 2 to 4::

    find_spans  first [1], end [3]
    fill_pairs  rows [0, 0], positions [1, 2]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntTable
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import WINDOW, below_in_window, prefetch
from juncture.kernels.search import BLOCK, FIRST, MAXIMUM, MINIMUM, SHIFT

NOWHERE = -1
"""The position of a pair without a match."""


@inlined
def _entry(groups: Ints, key: Any, value: Any) -> Any:
    """Return the index entry of the bucket that contains a value within a group's range."""
    minimum = groups[key, MINIMUM]
    # Unsigned, since the range of a group may exceed that of a signed integer.
    bucket = (np.uint64(value) - np.uint64(minimum)) >> np.uint64(groups[key, SHIFT])
    return groups[key, FIRST] + np.int64(bucket)


@inlined
def _search(on: Ints, index: Codes, entry: Any, value: Any, inclusive: Any) -> Any:
    """Return the first position past a bucket's values that are less than a value (or equal, if inclusive)."""
    low = np.int64(index[np.uint64(entry)])
    span = np.int64(index[np.uint64(entry) + np.uint64(1)]) - low
    while span > WINDOW:
        half = span >> 1
        middle = on[np.uint64(low + half - 1)]
        # A mask, since a branch would be mispredicted every other time.
        low += half & -np.int64((middle < value) | (inclusive & (middle == value)))
        span -= half
    return low + below_in_window(on, np.uint64(low), span, value, inclusive)


@compiled
def find_spans(
    keys: Codes,
    low: Ints,
    high: Ints,
    on: Ints,
    starts: Ints,
    groups: IntTable,
    index: Codes,
    first: CodesOut,
    end: CodesOut,
) -> None:
    """Find the positions of each query's group whose value is in the query's range.

    A query is a group (negative for none), the least and the greatest value; a reversed range matches nothing. ``on``
    and ``starts`` are the sorted groups, with `WINDOW` spare items at the end, and ``groups`` and ``index`` their
    index. Out: the span of each query; ``first`` and ``end`` are 0 if its group is empty or unknown.

    O(log n) for n rows in one bucket. Queries may come in any order: the index entries of a block of queries are read
    together, then the values, so that cache misses overlap. Queries in about the order of the groups rarely miss.
    """
    entries = np.empty(2 * BLOCK, np.int64)
    for block in range(0, len(keys), BLOCK):
        size = min(BLOCK, len(keys) - block)
        for i in range(size):
            key = np.int64(keys[block + i])
            least, greatest = low[block + i], high[block + i]
            entries[2 * i] = NOWHERE
            entries[2 * i + 1] = NOWHERE
            first[block + i] = 0
            end[block + i] = 0
            if key < 0 or least > greatest or groups[key, FIRST] < 0:
                continue
            minimum, maximum = groups[key, MINIMUM], groups[key, MAXIMUM]
            if least <= minimum:
                first[block + i] = starts[key]
            elif least > maximum:
                first[block + i] = starts[key + 1]
            else:
                entries[2 * i] = _entry(groups, key, least)
                prefetch(index, np.uint64(entries[2 * i]))
            if greatest >= maximum:
                end[block + i] = starts[key + 1]
            elif greatest < minimum:
                end[block + i] = starts[key]
            else:
                entries[2 * i + 1] = _entry(groups, key, greatest)
                prefetch(index, np.uint64(entries[2 * i + 1]))
        for i in range(2 * size):
            if entries[i] >= 0:
                position = np.int64(index[np.uint64(entries[i])])
                prefetch(on, np.uint64(position))
                prefetch(on, np.uint64(position + 8))
        for i in range(size):
            if entries[2 * i] >= 0:
                first[block + i] = _search(on, index, entries[2 * i], low[block + i], False)
            if entries[2 * i + 1] >= 0:
                end[block + i] = _search(on, index, entries[2 * i + 1], high[block + i], True)


@compiled
def fill_pairs(
    rows: Codes,
    first: Codes,
    end: Codes,
    first_entry: int,
    end_entry: int,
    keep: bool,
    lefts: CodesOut,
    positions: CodesOut,
) -> int:
    """Write the pairs of the spans ``[first_entry, end_entry)``, and return their number. About 1 ns per pair.

    With ``keep``, an entry with an empty span is paired with `NOWHERE`. Out: row (``lefts``) and position of each pair.
    """
    written = 0
    for entry in range(first_entry, end_entry):
        row, start, stop = rows[entry], first[entry], end[entry]
        for position in range(start, stop):
            lefts[written] = row
            positions[written] = position
            written += 1
        if keep and start >= stop:
            lefts[written] = row
            positions[written] = NOWHERE
            written += 1
    return written


@compiled
def fill_single(first: Codes, end: Codes, lefts: CodesOut, positions: CodesOut) -> int:
    """Write the pairs of spans of at most one position, one span for each row; return their number.

    Out: row (``lefts``) and position of each pair, with room for all spans. No branch depends on whether a row matches.
    """
    written = 0
    for row in range(len(first)):
        lefts[written] = row
        positions[written] = first[row]
        written += int(first[row] < end[row])
    return written
