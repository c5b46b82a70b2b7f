"""Rows of one side of a stream against the held rows of the other: matching pairs.

Each row has one code for each relation of the join. A pair matches if, for every relation, the held row's code is at
least the complement of the other's. Both sides therefore have the same form, and future rows can be represented as a
row.

Held rows are sorted by key and by their first code. If a held row's first code exceeds the complement of its second by
at most the *reach*, the first codes of a row's matches are between two limits, so a search and a bounded scan find
them.

Held rows at 3, 5, 8 match a row at 5 if they are not less, so its code is ~5::

    find_matches  rows [0, 0], positions [1, 2]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import BytesOut, Codes, CodesOut, Ints, IntsOut, IntTable, IntTableOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.gallop import first_from_end, group_of

UNLIMITED = -1
"""The reach of rows whose second codes do not bound the first."""

_LEAST, _GREATEST = -(2**63), 2**63 - 1


@compiled
def find_matches(
    keys: Codes,
    codes: IntTable,
    relations: int,
    groups: Codes,
    starts: Ints,
    held: IntTable,
    reach: int,
    resume: IntsOut,
    rows: CodesOut,
    positions: CodesOut,
) -> int:
    """Write the pairs of rows and held rows that match, and return their number.

    Keys of the rows ascend; ``codes`` has a line for each of the ``relations``, and it is faster if the first line
    ascends too. ``groups`` are the distinct keys of held rows, ascending, and ``starts`` the start of each key's rows,
    and the end; held codes are sorted by the first within each group. ``reach`` is the most by which the first code of
    a held row exceeds the complement of its second, or `UNLIMITED`. ``resume`` is the row and the position to continue
    with (-1 for the first); at the end, the number of rows. Pairs are written up to the capacity.

    A search for each row, starting at the last result, and a step for each held row between its limits.
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
                    # A greater code reaches more held rows.
                    top = top if searched == group and codes[0, row] >= codes[0, row - 1] else end
                    position = first_from_end(held[0], position, top, ~codes[0, row])
                    searched, top = group, position
            if relations > 1 and reach >= 0 and codes[1, row] <= _GREATEST - reach:
                most = codes[1, row] + reach
            while position < end:
                if relations > 0 and held[0, position] > most:
                    break
                matches = True
                for relation in range(1, relations):
                    if held[relation, position] < ~codes[relation, row]:
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
def reach_of(codes: IntTable) -> int:
    """Return the most by which first codes exceed the complements of second ones; `UNLIMITED` beyond 62 bits.

    Rows whose first code is below do not count.
    """
    reach: Any = 0
    for row in range(codes.shape[1]):
        first, second = codes[0, row], ~codes[1, row]
        if first <= second:
            continue
        # The unsigned difference of two codes is always exact.
        distance = np.uint64(first) - np.uint64(second)
        if distance > np.uint64(1 << 62):
            return UNLIMITED
        if np.int64(distance) > reach:
            reach = np.int64(distance)
    return int(reach)


@inlined
def _never_fall(codes: Any) -> Any:
    falls = np.int64(0)
    for row in range(1, len(codes)):
        falls += codes[row] < codes[row - 1]
    return falls == 0


@compiled
def mark_late(codes: Ints, greatest: int, known: int, delay: int, late: BytesOut, reached: IntsOut) -> int:
    """Mark rows that are behind the greatest code before them by more than ``delay``, and return their number.

    Rows are in order of arrival. ``greatest`` is the greatest code before them, the least integer for none; codes from
    ``known`` on are never late. ``reached`` receives the greatest code after them. One pass over the rows, and another
    one if they do not rise.
    """
    least = known
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
        found = np.int64(_GREATEST)
        for row in range(len(keys)):
            found = min(found, codes[line, row])
        least[line] = found
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
def expire_rows(codes: IntTable, limits: Ints, alive: BytesOut, gone: CodesOut, least: IntsOut) -> int:
    """Write the rows with a code below its line's limit to ``gone``, and return their number. One pass.

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
            gone[count] = row
            count += 1
    return int(count)
