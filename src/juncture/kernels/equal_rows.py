"""Rows of one key and code, which lie in the order of a hash of the whole row, so that a row is found by a search."""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, IntTable
from juncture.kernels.compiled import compiled, inlined

_FEW = 24
"""Rows that are put in order one by one."""


@inlined
def _swap(hashes: Any, order: Any, one: Any, other: Any) -> Any:
    hashes[one], hashes[other] = hashes[other], hashes[one]
    order[one], order[other] = order[other], order[one]


@inlined
def _sift(hashes: Any, order: Any, first: Any, root: Any, end: Any) -> Any:
    """Let a row sink in a heap of rows, the greatest hash on top."""
    while True:
        child = 2 * root + 1
        if child >= end:
            return
        if child + 1 < end and hashes[first + child] < hashes[first + child + 1]:
            child += 1
        if hashes[first + root] >= hashes[first + child]:
            return
        _swap(hashes, order, first + root, first + child)
        root = child


@inlined
def _sort_by_hash(hashes: Any, order: Any, first: Any, end: Any) -> Any:
    """Put some rows in the order of their hashes."""
    count = end - first
    if count <= _FEW:
        for place in range(first + 1, end):
            code, row, target = hashes[place], order[place], place
            while target > first and hashes[target - 1] > code:
                hashes[target], order[target] = hashes[target - 1], order[target - 1]
                target -= 1
            hashes[target], order[target] = code, row
        return
    for root in range(count // 2 - 1, -1, -1):
        _sift(hashes, order, first, root, count)
    for last in range(count - 1, 0, -1):
        _swap(hashes, order, first, first + last)
        _sift(hashes, order, first, np.int64(0), last)


@compiled
def order_ties(keys: Codes, codes: Ints, hashes: IntsOut, order: CodesOut) -> None:
    """Put rows of one key and first code in the order of their hashes.

    Parameters
    ----------
    keys, codes
        Of rows in the order of both.
    hashes, order
        The hashes and the numbers of these rows. Changed.

    Notes
    -----
    A pass over rows that differ, and a sort of those that do not.
    """
    first: Any = np.int64(0)
    for place in range(1, len(order) + 1):
        if place < len(order) and keys[place] == keys[first] and codes[place] == codes[first]:
            continue
        if place - first > 1:
            _sort_by_hash(hashes, order, first, np.int64(place))
        first = place


@compiled
def find_equal(
    keys: Codes,
    codes: IntTable,
    hashes: Ints,
    groups: Codes,
    starts: Ints,
    held: IntTable,
    held_hashes: Ints,
    found: CodesOut,
) -> None:
    """Find the first held row with the key, first code and hash of each row.

    Parameters
    ----------
    keys, codes, hashes
        The rows, in any order.
    groups, starts, held, held_hashes
        The distinct keys of the held rows, ascending; where the rows of each start, and the end; their codes and
        hashes, in the order of first codes and hashes within each group.
    found
        Out: the position of the first of them, or -1.

    Notes
    -----
    Two binary searches for each row.
    """
    lines = held.shape[0]
    for row in range(len(keys)):
        found[row] = -1
        low, high = np.int64(0), np.int64(len(groups))
        while low < high:
            middle = (low + high) >> 1
            if groups[middle] < keys[row]:
                low = middle + 1
            else:
                high = middle
        if low == len(groups) or groups[low] != keys[row]:
            continue
        end = starts[low + 1]
        low, high = starts[low], end
        while low < high:
            middle = (low + high) >> 1
            same = lines == 0 or held[0, middle] == codes[0, row]
            if (same and held_hashes[middle] < hashes[row]) or (not same and held[0, middle] < codes[0, row]):
                low = middle + 1
            else:
                high = middle
        if low < end and held_hashes[low] == hashes[row] and (lines == 0 or held[0, low] == codes[0, row]):
            found[row] = low
