"""Rows of one key and code, which lie in the order of a hash of the whole row, so that a row is found by a search.

Those that are found are compared with what was sought where both lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Bytes, BytesOut, Codes, CodesOut, Ints, IntsOut, IntTable
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import word_at

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
    ends: CodesOut,
) -> None:
    """Find the held rows with the key, first code and hash of each row, which follow each other.

    Parameters
    ----------
    keys, codes, hashes
        The rows, in any order.
    groups, starts, held, held_hashes
        The distinct keys of the held rows, ascending; where the rows of each start, and the end; their codes and
        hashes, in the order of first codes and hashes within each group.
    found, ends
        Out: the position of the first of them, or -1, and of what comes after the last one.

    Notes
    -----
    Two binary searches for each row, and a step for each that is found.
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
            while low < end and held_hashes[low] == hashes[row] and (lines == 0 or held[0, low] == codes[0, row]):
                low += 1
            ends[row] = low


@inlined
def _bit(bits: Any, place: Any) -> Any:
    return (bits[place >> 3] >> (place & 7)) & 1


@inlined
def _are_same_bytes(one: Any, first: Any, other: Any, second: Any, count: Any) -> Any:
    """Tell whether some bytes are those from another place."""
    position = np.int64(0)
    while position + 8 <= count:
        if word_at(one, np.uint64(first + position)) != word_at(other, np.uint64(second + position)):
            return False
        position += 8
    while position < count:
        if one[first + position] != other[second + position]:
            return False
        position += 1
    return True


@inlined
def _edges(edges: Any, place: Any, edge_width: Any) -> Any:
    """Return where a text begins and ends, of which two numbers that follow each other tell."""
    if edge_width == 8:
        return np.int64(word_at(edges, np.uint64(8 * place))), np.int64(word_at(edges, np.uint64(8 * place + 8)))
    both = word_at(edges, np.uint64(4 * place))
    return np.int64(both & np.uint64(0xFFFFFFFF)), np.int64(both >> np.uint64(32))


@compiled
def keep_equal_values(
    first: int,
    valid: Bytes,
    values: Bytes,
    rows: Ints,
    other_first: int,
    other_valid: Bytes,
    others: Bytes,
    places: Ints,
    width: int,
    same: BytesOut,
) -> None:
    """Compare values of rows with others at some places.

    Parameters
    ----------
    first, valid, values
        Row ``i`` is the one at ``first + i``: a bit that says whether it is not null, of which there are none if all
        are not, and its bytes.
    rows
        The rows.
    other_first, other_valid, others, places
        The others.
    width
        How many bytes a value takes; 0 if it is one bit.
    same
        In: 0 for rows to leave out. Out: 0, too, for those whose values are not the same.
    """
    for i in range(len(rows)):
        if same[i] == 0:
            continue
        one, other = first + rows[i], other_first + places[i]
        here = len(valid) == 0 or _bit(valid, one) != 0
        there = len(other_valid) == 0 or _bit(other_valid, other) != 0
        if here != there:
            same[i] = 0
        elif here and width == 0:
            same[i] = _bit(values, one) == _bit(others, other)
        elif here:
            same[i] = _are_same_bytes(values, one * width, others, other * width, width)


@compiled
def keep_equal_texts(
    first: int,
    valid: Bytes,
    edges: Bytes,
    data: Bytes,
    rows: Ints,
    other_first: int,
    other_valid: Bytes,
    other_edges: Bytes,
    others: Bytes,
    places: Ints,
    edge_width: int,
    same: BytesOut,
) -> None:
    """Compare texts of rows with others at some places, as `keep_equal_values` does.

    Parameters
    ----------
    first, valid, edges, data, rows, other_first, other_valid, other_edges, others, places, same
        As there; the edges tell where each text begins, and where the last one ends.
    edge_width
        How many bytes an edge takes, 4 or 8.
    """
    for i in range(len(rows)):
        if same[i] == 0:
            continue
        one, other = first + rows[i], other_first + places[i]
        here = len(valid) == 0 or _bit(valid, one) != 0
        there = len(other_valid) == 0 or _bit(other_valid, other) != 0
        if here != there:
            same[i] = 0
        elif here:
            begin, end = _edges(edges, one, edge_width)
            other_begin, other_end = _edges(other_edges, other, edge_width)
            is_long = end - begin == other_end - other_begin
            same[i] = is_long and _are_same_bytes(data, begin, others, other_begin, end - begin)
