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
import numpy.typing as npt

from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.compiled import (
    boolean,
    compiled,
    inlined,
    int32s,
    int32s_in,
    int64,
    int64_table_in,
    int64s,
    int64s_in,
    uint8s,
    void,
)

__all__ = [
    "UNLIMITED",
    "expire_rows",
    "find_matches",
    "find_next",
    "index_rows",
    "mark_late",
    "mark_wanted",
    "reach_of",
    "sort_rows",
]

UNLIMITED = -1
"""The reach of rows whose second codes tell nothing of the first."""

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_DIGITS = 1 << 11
_DIGIT_BITS = 11

Table = npt.NDArray[np.int64]


@inlined
def _first_at_least(values: Any, first: Any, end: Any, least: Any) -> Any:
    """Return the first position of a sorted range whose value is at least a limit."""
    while first < end:
        middle = (first + end) >> 1
        if values[middle] < least:
            first = middle + 1
        else:
            end = middle
    return first


@inlined
def _first_from_end(values: Any, first: Any, end: Any, least: Any) -> Any:
    """Return the same, looked for from the end backwards: in few steps if it is near there."""
    step = np.int64(1)
    while first < end:
        place = max(first, end - step)
        if values[place] < least:
            first = place + 1
            break
        end = place
        step <<= 1
    return _first_at_least(values, first, end, least)


@inlined
def _first_from_start(values: Any, first: Any, end: Any, least: Any) -> Any:
    """Return the same, looked for from the start onwards: in few steps if it is near there."""
    step = np.int64(1)
    while first < end:
        place = min(end - 1, first + step - 1)
        if values[place] >= least:
            end = place
            break
        first = place + 1
        step <<= 1
    return _first_at_least(values, first, end, least)


@inlined
def _group_of(groups: Any, first: Any, key: Any) -> Any:
    """Return the first group from a position on whose key is not less: nearby ones are found at once."""
    step = np.int64(1)
    end = first
    while end < len(groups) and groups[end] < key:
        first = end + 1
        end += step
        step <<= 1
    end = min(end, np.int64(len(groups)))
    while first < end:
        middle = (first + end) >> 1
        if groups[middle] < key:
            first = middle + 1
        else:
            end = middle
    return first


@compiled(int64(int32s_in, int64_table_in, int64, int32s_in, int64s_in, int64_table_in, int64, int64s, int32s, int32s))
def find_matches(
    keys: Codes,
    codes: Table,
    relations: int,
    groups: Codes,
    starts: Ints,
    held: Table,
    reach: int,
    resume: Ints,
    rows: Codes,
    positions: Codes,
) -> int:
    """Write the pairs of rows and held rows that match, and return how many there are.

    Parameters
    ----------
    keys, codes
        The rows, by key and first code: keys, and a line of codes for each relation.
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
        group = _group_of(groups, group, key)
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
                    top = top if searched == group else end
                    position = _first_from_end(held[0], position, top, ~codes[0, row])
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


@compiled(int64(int64_table_in))
def reach_of(codes: Table) -> int:
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
def _pass(digits: Any, order: Any, other: Any, shift: Any, counts: Any) -> Any:
    """Move rows in the order of one digit, unless all have the same; tell whether they were moved."""
    counts[:] = 0
    for row in range(len(digits)):
        counts[np.int64((digits[row] >> np.uint64(shift)) & np.uint64(_DIGITS - 1))] += 1
    total = np.int64(0)
    for value in range(_DIGITS):
        count = counts[value]
        if count == len(digits):
            return False
        counts[value] = total
        total += count
    for place in range(len(order)):
        moved = order[place]
        digit = np.int64((digits[moved] >> np.uint64(shift)) & np.uint64(_DIGITS - 1))
        other[counts[digit]] = moved
        counts[digit] += 1
    return True


@inlined
def _by_digits(digits: Any, most: Any, order: Any, other: Any, counts: Any) -> Any:
    """Return rows in the order of their digits, stably, and room for as many."""
    shift = np.int64(0)
    while shift < 64 and (most >> np.uint64(shift)) > np.uint64(0):
        if _pass(digits, order, other, shift, counts):
            order, other = other, order
        shift += _DIGIT_BITS
    return order, other


@inlined
def _rising_or_falling(codes: Any) -> Any:
    """Tell whether codes never fall, and whether they never rise."""
    falls, rises = np.int64(0), np.int64(0)
    for row in range(1, len(codes)):
        falls += codes[row] < codes[row - 1]
        rises += codes[row] > codes[row - 1]
    return falls == 0, rises == 0


@inlined
def _reverse(codes: Any, order: Any) -> Any:
    """Write the order of rows whose codes never rise, stably."""
    end, place = len(codes), np.int64(0)
    while end > 0:
        first = end - 1
        while first > 0 and codes[first - 1] == codes[first]:
            first -= 1
        for row in range(first, end):
            order[place] = row
            place += 1
        end = first


@compiled(void(int32s_in, int64s_in, int32s))
def sort_rows(keys: Codes, codes: Ints, order: Codes) -> None:
    """Write the order of rows by key and then code, stably.

    Parameters
    ----------
    keys, codes
        The rows.
    order
        Out: the rows in their order.

    Notes
    -----
    Some 3 ns a row for each 11 bits in which keys differ, and of the codes unless they rise or fall all along.
    """
    count = len(keys)
    for row in range(count):
        order[row] = row
    if count < 2:
        return
    rises, falls = _rising_or_falling(codes)
    if not rises and falls:
        _reverse(codes, order)
    digits = np.empty(count, np.uint64)
    counts = np.empty(_DIGITS, np.int64)
    current, other = order.copy(), np.empty(count, np.int32)
    if not (rises or falls):
        least = np.int64(codes[0])
        for row in range(count):
            least = min(least, codes[row])
        most = np.uint64(0)
        for row in range(count):
            digits[row] = np.uint64(codes[row]) - np.uint64(least)
            most = max(most, digits[row])
        current, other = _by_digits(digits, most, current, other, counts)
    most = np.uint64(0)
    for row in range(count):
        digits[row] = np.uint64(keys[row])
        most = max(most, digits[row])
    current, other = _by_digits(digits, most, current, other, counts)
    for row in range(count):
        order[row] = current[row]


@compiled(int64(int64s_in, int64, int64, int64, uint8s))
def mark_late(codes: Ints, greatest: int, known: int, delay: int, late: npt.NDArray[np.uint8]) -> int:
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

    Notes
    -----
    A pass over the rows.
    """
    count = np.int64(0)
    least = known
    if greatest >= _LEAST + delay:
        least = max(least, greatest - delay)
    for row in range(len(codes)):
        code = codes[row]
        late[row] = code < least
        count += code < least
        if code > greatest:
            greatest = code
            if greatest >= _LEAST + delay:
                least = max(least, greatest - delay)
    return int(count)


@compiled(int64(int32s_in, int64_table_in, int64s, int32s, int64s))
def index_rows(keys: Codes, codes: Table, starts: Ints, groups: Codes, least: Ints) -> int:
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


@compiled(int64(int64_table_in, int64s_in, uint8s, int64s, int64s))
def expire_rows(codes: Table, limits: Ints, alive: npt.NDArray[np.uint8], gone: Ints, least: Ints) -> int:
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


@compiled(void(int32s_in, int64s_in, int64s_in, int32s_in, int64s_in, int64, int64, int64, boolean, uint8s))
def mark_wanted(
    keys: Codes,
    codes: Ints,
    far: Ints,
    query_keys: Codes,
    queries: Ints,
    first: int,
    last: int,
    matches: int,
    strict: bool,
    wanted: npt.NDArray[np.uint8],
) -> None:
    """Mark the rows that are among the last few before a query of their key, or before one that may still come.

    Parameters
    ----------
    keys, codes
        The rows, sorted by key and code.
    far
        The greatest query that each row may serve.
    query_keys, queries
        The queries that wait, sorted alike.
    first, last
        Between which codes queries may come, of any key; none if the first is greater.
    matches
        How many rows serve a query.
    strict
        Whether a row does not serve a query of its own code.
    wanted
        Out: 1 for rows that are wanted; others stay as they are. Of rows of one code all are, or none.

    Notes
    -----
    A linear pass over the rows, and a binary search among the queries for each.
    """
    shift = np.int64(1) if strict else np.int64(0)
    start = 0
    query = np.int64(0)
    while start < len(keys):
        key = keys[start]
        end = start
        while end < len(keys) and keys[end] == key:
            end += 1
        while query < len(query_keys) and query_keys[query] < key:
            query += 1
        after = query
        while after < len(query_keys) and query_keys[after] == key:
            after += 1
        greater = end
        for row in range(end - 1, start - 1, -1):
            if row + 1 < end and codes[row + 1] > codes[row]:
                greater = row + 1
            top = np.int64(_GREATEST)
            if greater + matches - 1 < end:
                top = codes[greater + matches - 1] - np.int64(1) + shift
            top = min(top, far[row])
            if codes[row] == _GREATEST and strict:
                continue
            low = codes[row] + shift
            found = max(low, np.int64(first)) <= min(top, np.int64(last))
            if not found:
                place = _first_at_least(queries, query, after, low)
                found = place < after and queries[place] <= top
            if found:
                wanted[row] = 1
        query = after
        start = end


@compiled(void(int32s_in, int64s_in, int32s_in, int64s_in, int64s_in, boolean, int64s, uint8s))
def find_next(
    keys: Codes,
    codes: Ints,
    groups: Codes,
    starts: Ints,
    held: Ints,
    forward: bool,
    positions: Ints,
    tied: npt.NDArray[np.uint8],
) -> None:
    """Find the held row of each row's key whose code is next to its own, or equal.

    Parameters
    ----------
    keys, codes
        The rows, by key and code: keys, and the codes from which on to look.
    groups, starts, held
        The distinct keys of the held rows, ascending; where the rows of each start, and the end; their codes, sorted
        within each group.
    forward
        Whether to take the least code that is not less, rather than the greatest that is not greater.
    positions
        Out: the position of the held row, the first or the last of its code; -1 if there is none.
    tied
        Out: whether another one has its code.

    Notes
    -----
    A search for each row, from where the one before it ended.
    """
    group = np.int64(0)
    searched, place = np.int64(-1), np.int64(0)
    for row in range(len(keys)):
        positions[row] = -1
        tied[row] = 0
        group = _group_of(groups, group, keys[row])
        if group == len(groups) or groups[group] != keys[row]:
            continue
        first, end = starts[group], starts[group + 1]
        place = place if searched == group else first
        searched = group
        if forward:
            place = _first_from_start(held, place, end, codes[row])
            if place < end:
                positions[row] = place
                tied[row] = place + 1 < end and held[place + 1] == held[place]
            continue
        place = end if codes[row] == _GREATEST else _first_from_start(held, place, end, codes[row] + 1)
        if place > first:
            positions[row] = place - 1
            tied[row] = place - 1 > first and held[place - 2] == held[place - 1]
