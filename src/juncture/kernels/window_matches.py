"""Rows of one side of a stream against the held rows of the other, if both are ordered: matching pairs.

Rows have two codes, and match as in `juncture.kernels.symmetric`. If one code increases from row to row and the other
decreases, the rows that match by code are consecutive: a *window*, which is near that of the row before. Keys need no
order then, and are compared within the window.

Held rows at 1, 3, 5 match rows at most 1 apart. Their codes are [1, 3, 5] and [~1, ~3, ~5], those of a row at 4 are ~3
and 5, and its window has the positions 1 and 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import CodesOut, Ints, IntsOut, IntTable
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.gallop import first_at_least, first_from_end, first_from_start

BLOCK = 64
"""Number of rows whose windows are checked together."""

_FEW = 4
"""Number of rows of a window that are compared at once."""

NEITHER = -1
"""The rising line of unordered rows."""


@compiled
def rising_line(codes: IntTable) -> int:
    """Return which of two lines of codes increases while the other decreases, or `NEITHER`. One pass."""
    first, second = np.int64(0), np.int64(0)
    for row in range(1, codes.shape[1]):
        first += (codes[0, row] < codes[0, row - 1]) | (codes[1, row] > codes[1, row - 1])
        second += (codes[0, row] > codes[0, row - 1]) | (codes[1, row] < codes[1, row - 1])
    if first == 0:
        return 0
    return 1 if second == 0 else NEITHER


@inlined
def _window_start(up: Any, near: Any, least: Any) -> Any:
    """Return the first position of increasing codes that is at least a limit: in few steps from a near one."""
    if near > 0 and up[near - 1] >= least:
        return first_from_end(up, np.int64(0), near, least)
    return first_from_start(up, near, np.int64(len(up)), least)


@inlined
def _window_end(down: Any, first: Any, least: Any) -> Any:
    """Return the first position of decreasing codes that is less than a limit."""
    step, end = np.int64(1), np.int64(len(down))
    while first < end:
        place = min(end - 1, first + step - 1)
        if down[place] < least:
            end = place
            break
        first = place + 1
        step <<= 1
    while first < end:
        middle = (first + end) >> 1
        if down[middle] < least:
            end = middle
        else:
            first = middle + 1
    return first


@inlined
def _next_start(up: Any, near: Any, least: Any) -> Any:
    """Return the same as `_window_start`, without a branch for one or two steps, which would be mispredicted."""
    if near + _FEW < len(up) and (near == 0 or up[np.uint64(near - 1)] < least):
        place = np.uint64(near)
        near += np.int64(up[place] < least) + np.int64(up[place + np.uint64(1)] < least)
        if up[np.uint64(near)] >= least:
            return near
    return _window_start(up, near, least)


@inlined
def _has_no_match(held_keys: Any, down: Any, first: Any, key: Any, least: Any) -> Any:
    """Return whether a window of few rows has no match, without a branch per row; False for larger windows."""
    place = np.uint64(first)
    if first + _FEW >= len(down) or down[place + np.uint64(_FEW)] >= least:
        return False
    found = False
    for _ in range(_FEW):
        found |= (held_keys[place] == key) & (down[place] >= least)
        place += np.uint64(1)
    return not found


@compiled
def living_span(codes: IntTable, rising: int, limits: Ints, span: IntsOut) -> None:
    """Write the first and the end position of the rows whose codes of a band are not below their limits. Two searches.

    ``rising`` is the line that increases while the other decreases, and ``limits`` the least live code of each line.
    """
    span[0] = first_at_least(codes[rising], np.int64(0), np.int64(codes.shape[1]), limits[rising])
    span[1] = _window_end(codes[1 - rising], span[0], limits[1 - rising])


@compiled
def pairs_to_compare(codes: IntTable, rising: int, held: IntTable) -> int:
    """Return an upper bound of the pairs that `find_in_windows` compares, from two searches per block of rows.

    ``rising`` is the line of the held rows that increases while the other decreases.
    """
    count, total, first = codes.shape[1], np.int64(0), np.int64(0)
    up, down = codes[rising], codes[1 - rising]
    for row in range(0, count, BLOCK):
        last = min(row + BLOCK, count) - 1
        first = _window_start(held[rising], first, ~max(up[row], up[last]))
        total += (last + 1 - row) * (_window_end(held[1 - rising], first, ~max(down[row], down[last])) - first)
    return int(total)


@compiled
def find_in_windows(
    keys: Ints,
    codes: IntTable,
    rising: int,
    held_keys: Ints,
    held: IntTable,
    resume: IntsOut,
    rows: CodesOut,
    positions: CodesOut,
) -> int:
    """Write the pairs of rows and held rows that match, and return their number.

    Both sides have two lines of codes; it is faster if those of the rows are ordered. ``rising`` is the line of the
    held rows that increases while the other decreases. ``resume`` is the row, the position in its window (-1 for the
    first), and the start of the last window; at the end, the row is the number of rows. Pairs are written up to the
    capacity.

    A search for each row, from the start of the last window, and a step for each held row in its window.
    """
    room, written = len(rows), 0
    count, end = np.int64(len(keys)), np.int64(len(held_keys))
    up, down = held[rising], held[1 - rising]
    starts, ends = codes[rising], codes[1 - rising]
    row, position, first = resume[0], resume[1], resume[2]
    while row < count:
        # Numba does not check unsigned positions for negative indices.
        here = np.uint64(row)
        key, least = keys[here], ~ends[here]
        if position < 0:
            first = _next_start(up, first, ~starts[here])
            if _has_no_match(held_keys, down, first, key, least):
                row += 1
                continue
            position = first
        while position < end and down[position] >= least:
            if held_keys[position] == key:
                if written == room:
                    resume[0], resume[1], resume[2] = row, position, first
                    return written
                rows[written] = row
                positions[written] = position
                written += 1
            position += 1
        row += 1
        position = np.int64(-1)
    resume[0], resume[1], resume[2] = row, -1, first
    return written
