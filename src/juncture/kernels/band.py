"""Spans of sorted positions that match queries, also with a threshold, and the pairs of these spans.

The sorted side is divided into groups, with an index of buckets (see `juncture.kernels.search`). A *query* is a group
and a closed range of codes, and its result a span of positions ``[first, end)``. Spans give the number of matches
before any is written, so pairs can be made in batches of any size.

Values 1, 4, 4, 9 of one group, and a query from 2 to 4::

    find_spans  first [1], end [3]
    fill_pairs  rows [0, 0], positions [1, 2]

Spans may have a threshold, which the second value of a match must reach. This evaluates two inequalities: for
overlapping intervals, the span contains the intervals that start before the query ends, and those that end after its
start match.

The second values are the leaves of a *tree*: each node of the next level is the greatest of `WINDOW` nodes below, so
one vector comparison finds the nodes that can contain a match, and skips the others. The idea is that of the priority
search tree (McCreight, "Priority search trees", 1985), laid out for caches and vectors, and never rebalanced since
nothing is inserted. Second values 5, 2, 9 of one span, and the threshold 4::

    count_above  2
    fill_above   positions [0, 2]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, IntTable
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import WINDOW, at_least_in_window, below_in_window, bit_count, lowest_bit, prefetch
from juncture.kernels.search import BLOCK, FIRST, MAXIMUM, MINIMUM, SHIFT

NOWHERE = -1
"""The position of a pair without a match."""

LEAST = -(2**63)
"""Padding of each level to a multiple of `WINDOW`: it passes no threshold but the least."""

_BITS = 4
_ALL = (1 << WINDOW) - 1


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


@compiled
def build_level(tree: IntsOut, below: int, above: int, first: int, end: int) -> None:
    """Fill the nodes ``[first, end)`` of the level at ``above`` with the greatest of the nodes at ``below``.

    ``tree`` has all levels in sequence, each padded to a multiple of `WINDOW`.
    """
    for node in range(first, end):
        greatest = np.int64(LEAST)
        for child in range(below + node * WINDOW, below + (node + 1) * WINDOW):
            greatest = max(greatest, tree[child])
        tree[above + node] = greatest


@inlined
def _next_block(tree: Ints, levels: Ints, block: Any, threshold: Any) -> Any:
    """Return the first block of leaves from here on with a large enough value, or a number past all blocks."""
    level, node, top = 1, np.int64(block), len(levels) - 2
    while True:
        start = levels[level]
        if level > top or start + node >= levels[level + 1]:
            return np.int64(1) << np.int64(40)
        parent = node >> _BITS
        mask = at_least_in_window(tree, np.uint64(start + (parent << _BITS)), threshold)
        mask &= _ALL << (node & (WINDOW - 1))
        if mask == 0:
            node = parent + 1
            level += 1
            continue
        node = (parent << _BITS) + lowest_bit(mask)
        if level == 1:
            return node
        level -= 1
        node <<= _BITS


@inlined
def _block_mask(tree: Ints, block: Any, start: Any, stop: Any, threshold: Any) -> Any:
    """Return which leaves of a block are in a span and large enough."""
    base = block << _BITS
    mask = at_least_in_window(tree, np.uint64(base), threshold) & _ALL
    if start > base:
        mask &= _ALL << (start - base)
    if stop < base + WINDOW:
        mask &= (np.int64(1) << (stop - base)) - 1
    return mask & _ALL


@compiled
def count_above(
    first: Codes, end: Codes, thresholds: Ints, tree: Ints, levels: Ints, only_whether: bool, counts: IntsOut
) -> None:
    """Count the positions of each span whose value is at least the span's threshold.

    ``levels`` are the starts of the tree's levels, with its length at the end. With ``only_whether``, it stops at the
    first block with a match, and a count is positive if there is any. O(log n) for a span without matches; each run of
    blocks without any costs another O(log n).
    """
    for query in range(len(first)):
        start, stop, threshold = np.int64(first[query]), np.int64(end[query]), thresholds[query]
        count = np.int64(0)
        block = start >> _BITS
        while (block << _BITS) < stop:
            count += bit_count(_block_mask(tree, block, start, stop, threshold))
            if only_whether and count:
                break
            block = _next_block(tree, levels, block + 1, threshold)
        counts[query] = count


@compiled  # fmt: skip
def fill_above(
    rows: Codes,
    first: Codes,
    end: Codes,
    thresholds: Ints,
    counts: Ints,
    tree: Ints,
    levels: Ints,
    first_entry: int,
    end_entry: int,
    keep: bool,
    lefts: CodesOut,
    positions: CodesOut,
) -> int:
    """Write the pairs of the entries ``[first_entry, end_entry)``, and return their number.

    ``counts`` are those of `count_above`. With ``keep``, an entry without a match is paired with `NOWHERE`. Out: row
    (``lefts``) and position of each pair. Costs as `count_above`, and about 1 ns per pair.
    """
    written = 0
    for entry in range(first_entry, end_entry):
        row = rows[entry]
        if counts[entry] == 0:
            if keep:
                lefts[written] = row
                positions[written] = NOWHERE
                written += 1
            continue
        start, stop, threshold = np.int64(first[entry]), np.int64(end[entry]), thresholds[entry]
        last = written + counts[entry]
        block = start >> _BITS
        while written < last:
            mask = _block_mask(tree, block, start, stop, threshold)
            while mask:
                lefts[written] = row
                positions[written] = (block << _BITS) + lowest_bit(mask)
                written += 1
                mask &= mask - 1
            if written < last:
                block = _next_block(tree, levels, block + 1, threshold)
    return written
