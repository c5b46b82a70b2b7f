"""The stored rows next to a row by key and code: the next ones, the nth, and those that a future row may still match.

Stored rows at 1, 4, 4, 9 of one key, and a row at 5::

    find_next       backward position 2, which another row ties with; forward position 3
    nth_neighbours  the second from 4 forward has the code 4, or 9 if one of the two rows is removed
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import BytesOut, Codes, Ints, IntsOut
from juncture.kernels.compiled import compiled
from juncture.kernels.gallop import first_at_least, first_from_start, group_of

_GREATEST = 2**63 - 1


@compiled
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
    wanted: BytesOut,
) -> None:
    """Mark the rows among the last ``matches`` before a waiting query of their key, or before a future query.

    Rows and waiting queries are sorted by key and code. ``far`` is the greatest query that each row may serve. Codes of
    future queries of any key are from ``first`` to ``last``; none if reversed. ``strict`` is whether a row does not
    serve a query of its own code. Rows of one code are all marked with 1 in ``wanted``, or none.

    One pass over the rows, and a binary search among the queries for each.
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
            is_wanted = max(low, np.int64(first)) <= min(top, np.int64(last))
            if not is_wanted:
                position = first_at_least(queries, query, after, low)
                is_wanted = position < after and queries[position] <= top
            if is_wanted:
                wanted[row] = 1
        query = after
        start = end


@compiled
def find_next(
    keys: Codes,
    codes: Ints,
    groups: Codes,
    starts: Ints,
    stored_codes: Ints,
    forward: bool,
    positions: IntsOut,
    tied: BytesOut,
) -> None:
    """Find the stored row of each row's key with the nearest code in one direction, or an equal code.

    Rows are sorted by key. ``groups`` are the distinct keys of stored rows, ascending, and ``starts`` the start of each
    key's rows, and the end; codes are sorted within each group. Out: the position of the stored row, the first (if
    forward) or the last of its code, -1 for none; and in ``tied`` whether another stored row has its code.

    A search for each row, starting at the last result.
    """
    group = np.int64(0)
    searched, position = np.int64(-1), np.int64(0)
    for row in range(len(keys)):
        positions[row] = -1
        tied[row] = 0
        group = group_of(groups, group, keys[row])
        if group == len(groups) or groups[group] != keys[row]:
            continue
        first, end = starts[group], starts[group + 1]
        position = position if searched == group else first
        searched = group
        if forward:
            position = first_from_start(stored_codes, position, end, codes[row])
            if position < end:
                positions[row] = position
                tied[row] = position + 1 < end and stored_codes[position + 1] == stored_codes[position]
            continue
        position = end if codes[row] == _GREATEST else first_from_start(stored_codes, position, end, codes[row] + 1)
        if position > first:
            positions[row] = position - 1
            tied[row] = position - 1 > first and stored_codes[position - 2] == stored_codes[position - 1]


@compiled
def nth_neighbours(
    keys: Codes,
    codes: Ints,
    groups: Codes,
    starts: Ints,
    stored_codes: Ints,
    weights: Ints,
    nth: int,
    forward: bool,
    nth_codes: IntsOut,
) -> None:
    """Find the code of the nth (from 1) stored row of each row's key, counted from the row's code (inclusive).

    ``groups`` are the distinct keys of stored rows, ascending, and ``starts`` the start of each key's rows, and the
    end; codes are sorted within each group, and rows of weight 0 are removed rows. ``nth_codes`` has the farthest code
    so far, and afterwards the nearer of that and the result.

    Two binary searches for each row, and a step for each stored row that is passed.
    """
    for row in range(len(keys)):
        key, code = keys[row], codes[row]
        group = first_at_least(groups, np.int64(0), np.int64(len(groups)), key)
        if group == len(groups) or groups[group] != key:
            continue
        first, end = starts[group], starts[group + 1]
        position: Any = end
        if forward:
            position = first_at_least(stored_codes, first, end, code)
        elif code < _GREATEST:
            position = first_at_least(stored_codes, first, end, code + 1)
        step = np.int64(1 if forward else -1)
        position = position if forward else position - 1
        count = np.int64(0)
        while first <= position < end and (
            stored_codes[position] < nth_codes[row] if forward else stored_codes[position] > nth_codes[row]
        ):
            count += weights[position] != 0
            if count == nth:
                nth_codes[row] = stored_codes[position]
                break
            position += step
