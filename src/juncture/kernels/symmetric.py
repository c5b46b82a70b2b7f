"""Rows of one side of a stream against the held rows of the other: which pairs match.

Each row has codes, one for each relation of the join, and a pair matches if for every relation the held row's code is
at least the complement of the other's. So both sides look alike, and what can still come is a row like any other.

Held rows are sorted by key and by their first code. Where a held row's first code is never more than so much (the
*reach*) above the complement of its second, the matches of a row have first codes between two limits, so that they are
found by a search and a walk that ends.
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
    """Write the pairs of rows and held rows that match, and return how many there are.

    Parameters
    ----------
    keys, codes
        The rows: keys, ascending, and a line of codes for each relation; found faster if the first ascends too.
    relations
        How many of the lines count.
    groups, starts
        The distinct keys of the held rows, ascending; where the rows of each start, and the end.
    held
        The codes of the held rows, sorted by the first of them within each group.
    reach
        The most that the first code of a held row is above the complement of its second, or `UNLIMITED`.
    resume
        The row and the position to begin with, the position -1 for the first one. Afterwards those to go on with: the
        row is the number of rows once all is done.
    rows, positions
        Out: the pairs, as many as there is room for.

    Notes
    -----
    A search for each row, from where the one before it ended, and a step for each held row between its limits.
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
                    # The greater the code, the more of the held rows it reaches.
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
    """Return the most that first codes are above the complements of second ones; `UNLIMITED` beyond 62 bits.

    Rows whose first code is below do not count.
    """
    reach: Any = 0
    for row in range(codes.shape[1]):
        first, second = codes[0, row], ~codes[1, row]
        if first <= second:
            continue
        # The difference of any two codes is exact as an unsigned one.
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
    """Mark the rows that are farther behind the greatest code before them than a delay, and return how many there are.

    Parameters
    ----------
    codes
        Of rows as they come.
    greatest
        The greatest code before them, the least integer if there is none.
    known
        The least code that is not late, whatever comes.
    delay
        How far a code may be behind.
    late
        Out: 1 for late rows, 0 for others.
    reached
        Out: the greatest code by the last of them.

    Notes
    -----
    A pass over the rows, and another one if they do not rise.
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
"""What a scan of values reports: that some exceed a limit, or that they rise, fall, or are constant (rise and fall)."""


@compiled
def write_codes(values: Ints, far: int, added: Ints, flipped: Ints, codes: IntTableOut) -> int:
    """Write lines of codes of values, each shifted, and return whether the values rise or fall.

    Parameters
    ----------
    values, far
        The values, and a limit. No sum of a value that is nearer to zero leaves 64 bits.
    added, flipped
        Of each line what is added, and the bits that are flipped then: none, or all.
    codes
        Out: the lines.

    Returns
    -------
    int
        `FAR`, and the codes are anything; or `RISES` if no value is less than the one before, and `FALLS` if none is
        greater, added up.

    Notes
    -----
    A pass over the values for each line, and one besides, or two if they are in no order.
    """
    count, falls, rises = len(values), np.int64(0), np.int64(0)
    for row in range(1, count):
        falls += values[row] < values[row - 1]
        rises += values[row] > values[row - 1]
    # Of values in an order, those at the ends are the farthest.
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
    """Find where each key starts among sorted rows and the least code of each line, and return how many keys there are.

    Parameters
    ----------
    keys, codes
        The rows, by key.
    starts, groups
        Out: where the rows of each key start, and the end; the keys. Room for all rows, and one more start.
    least
        Out: for each line of codes the least.

    Notes
    -----
    A pass over the keys, and one over each line.
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
    """Write the rows that have no code below its line's limit, and return how many there are.

    Parameters
    ----------
    codes, limits
        The rows, and the least code that lives of each line.
    living
        Out: the rows. Room for all.

    Notes
    -----
    A pass over the rows.
    """
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
    """Let go of the rows that have a code below its line's limit, and return how many there are.

    Parameters
    ----------
    codes, limits
        The rows, and the least code that lives of each line.
    alive
        Which rows are alive: 1, or 0. Changed.
    gone
        Out: the rows that are let go. Room for all.
    least
        Out: for each line of codes the least of rows that stay alive.

    Notes
    -----
    A pass over the rows.
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
