"""Spans with a threshold: of the positions of a span, those whose second value is large enough.

This answers two inequalities: with one side sorted by the value of the first, a query's candidates are a span, in which
the second inequality leaves some. Overlapping intervals are the case in point: the spans are the intervals that start
before mine ends, and those of them match that end after mine starts.

The second values are the leaves of a *tree*: each node of the next level holds the greatest of `WINDOW` nodes below,
so one vector comparison finds those that can contain a match, and skips the others. The idea is that of
the priority search tree (McCreight, "Priority search trees", 1985), laid out for the cache and for vectors, and never
rebalanced because nothing is inserted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut
from juncture.kernels.band import NOWHERE
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import WINDOW, at_least_in_window, bit_count, lowest_bit

LEAST = -(2**63)
"""What pads each level of a tree to a multiple of `WINDOW`: no threshold lets it pass but the least."""

_BITS = 4
_ALL = (1 << WINDOW) - 1


@compiled
def build_level(tree: IntsOut, below: int, above: int, first: int, end: int) -> None:
    """Fill a range of the nodes of a level with the greatest of the nodes below each.

    Parameters
    ----------
    tree
        In and out: all levels one after the other, each padded to a multiple of `WINDOW`.
    below, above
        Where the level below starts, and this one.
    first, end
        The range of nodes.
    """
    for node in range(first, end):
        greatest = np.int64(LEAST)
        for child in range(below + node * WINDOW, below + (node + 1) * WINDOW):
            greatest = max(greatest, tree[child])
        tree[above + node] = greatest


@inlined
def _next_block(tree: Ints, levels: Ints, block: Any, threshold: Any) -> Any:
    """Return the first block of leaves from here on that holds a large enough value, or a number past all blocks."""
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

    Parameters
    ----------
    first, end, thresholds
        The queries.
    tree, levels
        The tree, and where each of its levels starts; the last item is its length.
    only_whether
        Whether to stop at the first block with a match.
    counts
        Out: the counts; if ``only_whether``, positive where there is any.

    Notes
    -----
    O(log n) for a span without matches; each run of blocks without any costs another O(log n).
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
    """Write the pairs that spans with thresholds stand for, and return how many there are.

    Parameters
    ----------
    rows, first, end, thresholds
        Row, span and threshold of each entry.
    counts
        How many pairs each makes, as `count_above` has them.
    tree, levels
        The tree.
    first_entry, end_entry
        Which entries.
    keep
        Whether an entry without a match is paired with `NOWHERE`.
    lefts, positions
        Out: row and position of each pair.

    Notes
    -----
    As `count_above`, and about a nanosecond a pair.
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
