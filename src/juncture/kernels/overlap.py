"""Spans with a threshold: the positions of a span whose second value is large enough.

This evaluates two inequalities. With one side sorted by the first value, a query's candidates are a span, which the
second inequality filters. For overlapping intervals, the span contains the intervals that start before the query ends,
and those that end after its start match.

The second values are the leaves of a *tree*: each node of the next level is the greatest of `WINDOW` nodes below, so
one vector comparison finds the nodes that can contain a match, and skips the others. The idea is that of the priority
search tree (McCreight, "Priority search trees", 1985), laid out for caches and vectors, and never rebalanced since
nothing is inserted.

Second values 5, 2, 9 of one span, and the threshold 4::

    count_above  2
    fill_above   positions [0, 2]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut
from juncture.kernels.band import NOWHERE
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import WINDOW, at_least_in_window, bit_count, lowest_bit

LEAST = -(2**63)
"""Padding of each level to a multiple of `WINDOW`: it passes no threshold but the least."""

_BITS = 4
_ALL = (1 << WINDOW) - 1


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
