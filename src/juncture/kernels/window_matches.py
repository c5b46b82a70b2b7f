"""Rows of one side of a stream against the held rows of the other, where both are in order: which pairs match.

Rows have two codes, and match as `juncture.kernels.symmetric` says. Where one of them rises from row to row and the
other falls, those that a row's codes allow follow on each other: a *window*, which lies near that of the row before.
Keys need no order then. They are compared within the window.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import CodesOut, Ints, IntsOut, IntTable
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.gallop import first_at_least, first_from_end, first_from_start

BLOCK = 64
"""Rows whose windows are checked together."""

_FEW = 4
"""Rows of a window that are compared at once."""

NEITHER = -1
"""The rising line of rows that are in no order."""


@compiled
def rising_line(codes: IntTable) -> int:
    """Return which of two lines of codes rises from row to row while the other falls; `NEITHER` if neither does.

    Notes
    -----
    A pass over the rows.
    """
    first, second = np.int64(0), np.int64(0)
    for row in range(1, codes.shape[1]):
        first += (codes[0, row] < codes[0, row - 1]) | (codes[1, row] > codes[1, row - 1])
        second += (codes[0, row] > codes[0, row - 1]) | (codes[1, row] < codes[1, row - 1])
    if first == 0:
        return 0
    return 1 if second == 0 else NEITHER


@inlined
def _window_start(up: Any, near: Any, least: Any) -> Any:
    """Return the first position of codes that rise whose code is at least a limit: in few steps if it is near one."""
    if near > 0 and up[near - 1] >= least:
        return first_from_end(up, np.int64(0), near, least)
    return first_from_start(up, near, np.int64(len(up)), least)


@inlined
def _window_end(down: Any, first: Any, least: Any) -> Any:
    """Return the first position from one on of codes that fall whose code is less than a limit."""
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
    """Return the same, without a branch where it is a step or two on: which of these would be mispredicted."""
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
    """Write the first position of the rows whose codes of a band are not below the limits of their lines, and the end.

    Parameters
    ----------
    codes, rising
        The rows, and which of the first two lines rises while the other falls.
    limits
        The least code that lives of each line.
    span
        Out: both positions.

    Notes
    -----
    Two searches.
    """
    span[0] = first_at_least(codes[rising], np.int64(0), np.int64(codes.shape[1]), limits[rising])
    span[1] = _window_end(codes[1 - rising], span[0], limits[1 - rising])


@compiled
def pairs_to_compare(codes: IntTable, rising: int, held: IntTable) -> int:
    """Return how many pairs of rows and held rows `find_in_windows` compares, at the most.

    Parameters
    ----------
    codes
        Two codes per row, one increasing while the other decreases.
    rising, held
        Which line of the held rows rises while the other falls, and both lines.

    Notes
    -----
    Two searches for each block of rows.
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
    """Write the pairs of rows and held rows that match, and return how many there are.

    Parameters
    ----------
    keys, codes
        The rows, and two lines of codes; found faster if these are in an order.
    rising
        Which line of the held rows rises while the other falls.
    held_keys, held
        The held rows, and both lines.
    resume
        The row to begin with, the position in its window, -1 for the first one, and where the window before began.
        Afterwards those to go on with: the row is the number of rows once all is done.
    rows, positions
        Out: the pairs, as many as there is room for.

    Notes
    -----
    A search for each row, from where the window of the one before began, and a step for each held row in its window.
    """
    room, written = len(rows), 0
    count, end = np.int64(len(keys)), np.int64(len(held_keys))
    up, down = held[rising], held[1 - rising]
    starts, ends = codes[rising], codes[1 - rising]
    row, position, first = resume[0], resume[1], resume[2]
    while row < count:
        # An unsigned position is not looked at for being one from the end.
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
