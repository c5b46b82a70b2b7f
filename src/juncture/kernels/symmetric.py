"""Rows of one side of a stream against the stored rows of the other: matching pairs.

Each row has one code for each relation of the join. A pair matches if, for every relation, the stored row's code is at
least the complement of the other's. Both sides therefore have the same form, and future rows can be represented as a
row.

Stored rows are sorted by key and by their first code. If a stored row's first code exceeds the complement of its second
by at most the *excess*, the first codes of a row's matches are between two limits, so a search and a bounded scan find
them.

Stored rows at 3, 5, 8 match a row at 5 if they are not less, so its code is ~5::

    find_matches  rows [0, 0], positions [1, 2]

If one of two codes increases from row to row while the other decreases, the rows that match by code are consecutive: a
*window*, which is near that of the row before. Keys need no order then, and are compared within the window. Stored rows
at 1, 3, 5 match rows at most 1 apart. Their codes are [1, 3, 5] and [~1, ~3, ~5], those of a row at 4
are ~3 and 5, and its window has the positions 1 and 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import BytesOut, Codes, CodesOut, Ints, IntsOut, IntTable, IntTableOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.gallop import first_at_least, first_from_end, first_from_start, group_of

UNLIMITED = -1
"""The excess of rows whose second codes do not bound the first."""

_LEAST, _GREATEST = -(2**63), 2**63 - 1

BLOCK = 64
"""Number of rows whose windows are checked together."""

_FEW = 4  # number of rows of a window that are compared at once

NEITHER = -1
"""The rising line of unordered rows."""


@compiled
def find_matches(
    keys: Codes,
    codes: IntTable,
    relations: int,
    groups: Codes,
    starts: Ints,
    stored_codes: IntTable,
    excess: int,
    resume: IntsOut,
    rows: CodesOut,
    positions: CodesOut,
) -> int:
    """Write the pairs of rows and stored rows that match, and return their number.

    Keys of the rows ascend; ``codes`` has a line for each of the ``relations``, and it is faster if the first line
    ascends too. ``groups`` are the distinct keys of stored rows, ascending, and ``starts`` the start of each key's
    rows, and the end; stored codes are sorted by the first within each group. ``excess`` is the most by which the first
    code of a stored row exceeds the complement of its second, or `UNLIMITED`. ``resume`` is the row and the position to
    continue with (-1 for the first); at the end, the number of rows. Pairs are written up to the capacity.

    A search for each row, starting at the last result, and a step for each stored row between its limits.
    """
    room = len(rows)
    written = 0
    group = np.int64(0)
    searched, top = np.int64(-1), np.int64(0)
    row, position = resume[0], resume[1]
    while row < len(keys):
        key = keys[row]
        group = group_of(groups, group, key)
        if group == len(groups):
            row = len(keys)
            break
        if groups[group] == key:
            end = starts[group + 1]
            most = np.int64(_GREATEST)
            if position < 0:
                position = starts[group]
                if relations > 0:
                    # A greater code matches more stored rows.
                    top = top if searched == group and codes[0, row] >= codes[0, row - 1] else end
                    position = first_from_end(stored_codes[0], position, top, ~codes[0, row])
                    searched, top = group, position
            if relations > 1 and excess >= 0 and codes[1, row] <= _GREATEST - excess:
                most = codes[1, row] + excess
            while position < end:
                if relations > 0 and stored_codes[0, position] > most:
                    break
                matches = True
                for relation in range(1, relations):
                    if stored_codes[relation, position] < ~codes[relation, row]:
                        matches = False
                        break
                if matches:
                    if written == room:
                        resume[0], resume[1] = row, position
                        return written
                    rows[written] = row
                    positions[written] = position
                    written += 1
                position += 1
        row += 1
        position = -1
    resume[0], resume[1] = row, -1
    return written


@compiled
def excess_of(codes: IntTable) -> int:
    """Return the most by which first codes exceed the complements of second ones; `UNLIMITED` beyond 62 bits.

    Rows whose first code is below do not count.
    """
    excess: Any = 0
    for row in range(codes.shape[1]):
        first, second = codes[0, row], ~codes[1, row]
        if first <= second:
            continue
        # The unsigned difference of two codes is always exact.
        distance = np.uint64(first) - np.uint64(second)
        if distance > np.uint64(1 << 62):
            return UNLIMITED
        if np.int64(distance) > excess:
            excess = np.int64(distance)
    return int(excess)


@inlined
def _never_fall(codes: Any) -> Any:
    falls = np.int64(0)
    for row in range(1, len(codes)):
        falls += codes[row] < codes[row - 1]
    return falls == 0


@compiled
def mark_late(codes: Ints, greatest: int, watermark: int, delay: int, late: BytesOut, reached: IntsOut) -> int:
    """Mark rows that are behind the greatest code before them by more than ``delay``, and return their number.

    Rows are in order of arrival. ``greatest`` is the greatest code before them, the least integer for none; codes from
    ``watermark`` on are never late. ``reached`` receives the greatest code after them. One pass over the rows, and
    another one if they do not rise.
    """
    least = watermark
    if greatest >= _LEAST + delay:
        least = max(least, greatest - delay)
    if len(codes) == 0 or (codes[0] >= least and _never_fall(codes)):
        late[:] = 0
        reached[0] = greatest if len(codes) == 0 else max(greatest, codes[len(codes) - 1])
        return 0
    count = np.int64(0)
    for row in range(len(codes)):
        code = codes[row]
        late[row] = code < least
        count += code < least
        if code > greatest:
            greatest = code
            if greatest >= _LEAST + delay:
                least = max(least, greatest - delay)
    reached[0] = greatest
    return int(count)


FAR, RISES, FALLS = -1, 1, 2
"""The results of a scan of values: some exceed a limit, or they rise, fall, or are constant (rise and fall)."""


@compiled
def write_codes(values: Ints, far: int, added: Ints, flipped: Ints, codes: IntTableOut) -> int:
    """Write lines of codes of values, each shifted, and return `FAR`, or whether they rise (`RISES`) or fall (`FALLS`).

    Sums of values within the limit ``far`` do not overflow; the lines are undefined after `FAR`. For each line,
    ``added`` is the addend, and ``flipped`` the bits to invert afterwards: none, or all. One pass over the values for
    each line, and one more, or two if they are unordered. Constant values both rise and fall.
    """
    count, falls, rises = len(values), np.int64(0), np.int64(0)
    for row in range(1, count):
        falls += values[row] < values[row - 1]
        rises += values[row] > values[row - 1]
    # If values are sorted, the ends are the farthest.
    step = max(count - 1, 1) if falls == 0 or rises == 0 else 1
    for row in range(0, count, step):
        if values[row] <= -far or values[row] >= far:
            return FAR
    for line in range(len(added)):
        more, bits = added[line], flipped[line]
        for row in range(len(values)):
            codes[line, row] = (values[row] + more) ^ bits
    return (RISES if falls == 0 else 0) + (FALLS if rises == 0 else 0)


@compiled
def index_rows(keys: Codes, codes: IntTable, starts: IntsOut, groups: CodesOut, least: IntsOut) -> int:
    """Find the keys of rows sorted by key, their starts and the least code of each line; return the number of keys.

    Out: ``starts`` with the end, ``groups`` and ``least``, with room for all rows (and one more start). One pass over
    the keys and each line.
    """
    count = np.int64(0)
    for row in range(len(keys)):
        if row == 0 or keys[row] != keys[row - 1]:
            starts[count] = row
            groups[count] = keys[row]
            count += 1
    starts[count] = len(keys)
    for line in range(codes.shape[0]):
        smallest = np.int64(_GREATEST)
        for row in range(len(keys)):
            smallest = min(smallest, codes[line, row])
        least[line] = smallest
    return int(count)


@compiled
def living_rows(codes: IntTable, limits: Ints, living: CodesOut) -> int:
    """Write the rows with no code below its line's limit, and return their number. One pass."""
    count = np.int64(0)
    for row in range(codes.shape[1]):
        lives = True
        for line in range(codes.shape[0]):
            lives = lives and codes[line, row] >= limits[line]
        living[count] = row
        count += lives
    return int(count)


@compiled
def expire_rows(codes: IntTable, limits: Ints, alive: BytesOut, expired_rows: CodesOut, least: IntsOut) -> int:
    """Write the rows with a code below its line's limit to ``expired_rows``, and return their number. One pass.

    ``alive`` is 1 for live rows, and ``least`` receives the least remaining code of each line.
    """
    lines = codes.shape[0]
    for line in range(lines):
        least[line] = _GREATEST
    count = np.int64(0)
    for row in range(codes.shape[1]):
        if alive[row] == 0:
            continue
        lives = True
        for line in range(lines):
            lives = lives and codes[line, row] >= limits[line]
        if lives:
            for line in range(lines):
                least[line] = min(least[line], codes[line, row])
        else:
            alive[row] = 0
            expired_rows[count] = row
            count += 1
    return int(count)


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
        position = min(end - 1, first + step - 1)
        if down[position] < least:
            end = position
            break
        first = position + 1
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
        position = np.uint64(near)
        near += np.int64(up[position] < least) + np.int64(up[position + np.uint64(1)] < least)
        if up[np.uint64(near)] >= least:
            return near
    return _window_start(up, near, least)


@inlined
def _has_no_match(stored_keys: Any, down: Any, first: Any, key: Any, least: Any) -> Any:
    """Return whether a window of few rows has no match, without a branch per row; False for larger windows."""
    position = np.uint64(first)
    if first + _FEW >= len(down) or down[position + np.uint64(_FEW)] >= least:
        return False
    is_match = False
    for _ in range(_FEW):
        is_match |= (stored_keys[position] == key) & (down[position] >= least)
        position += np.uint64(1)
    return not is_match


@compiled
def living_span(codes: IntTable, rising: int, limits: Ints, span: IntsOut) -> None:
    """Write the first and the end position of the rows whose codes of a band are not below their limits. Two searches.

    ``rising`` is the line that increases while the other decreases, and ``limits`` the least live code of each line.
    """
    span[0] = first_at_least(codes[rising], np.int64(0), np.int64(codes.shape[1]), limits[rising])
    span[1] = _window_end(codes[1 - rising], span[0], limits[1 - rising])


@compiled
def pairs_to_compare(codes: IntTable, rising: int, stored_codes: IntTable) -> int:
    """Return an upper bound of the pairs that `find_in_windows` compares, from two searches per block of rows.

    ``rising`` is the line of the stored rows that increases while the other decreases.
    """
    count, total, first = codes.shape[1], np.int64(0), np.int64(0)
    up, down = codes[rising], codes[1 - rising]
    for row in range(0, count, BLOCK):
        last = min(row + BLOCK, count) - 1
        first = _window_start(stored_codes[rising], first, ~max(up[row], up[last]))
        total += (last + 1 - row) * (_window_end(stored_codes[1 - rising], first, ~max(down[row], down[last])) - first)
    return int(total)


@compiled
def find_in_windows(
    keys: Ints,
    codes: IntTable,
    rising: int,
    stored_keys: Ints,
    stored_codes: IntTable,
    resume: IntsOut,
    rows: CodesOut,
    positions: CodesOut,
) -> int:
    """Write the pairs of rows and stored rows that match, and return their number.

    Both sides have two lines of codes; it is faster if those of the rows are ordered. ``rising`` is the line of the
    stored rows that increases while the other decreases. ``resume`` is the row, the position in its window (-1 for the
    first), and the start of the last window; at the end, the row is the number of rows. Pairs are written up to the
    capacity.

    A search for each row, from the start of the last window, and a step for each stored row in its window.
    """
    room, written = len(rows), 0
    count, end = np.int64(len(keys)), np.int64(len(stored_keys))
    up, down = stored_codes[rising], stored_codes[1 - rising]
    starts, ends = codes[rising], codes[1 - rising]
    row, position, first = resume[0], resume[1], resume[2]
    while row < count:
        # Numba does not check unsigned positions for negative indices.
        here = np.uint64(row)
        key, least = keys[here], ~ends[here]
        if position < 0:
            first = _next_start(up, first, ~starts[here])
            if _has_no_match(stored_keys, down, first, key, least):
                row += 1
                continue
            position = first
        while position < end and down[position] >= least:
            if stored_keys[position] == key:
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
