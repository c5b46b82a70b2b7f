"""Ties: right rows that are equal by key and ``on``, found in their ascending order and decided by further keys.

Right rows at 1, 4, 4, 9 of one key, and left rows that match those at positions 0, 2, 2, 3::

    list_tied_matches  one run from position 1, with the indices [0, 2) among tied rows; its first left row is 1
    decide_matches     with keys [7, 5] the run's winner is position 1, so the matches become 0, 1, 1, 3
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, IntTable
from juncture.kernels.asof import NOWHERE
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.hash_table import EMPTY

_SHORT = 32


@compiled
def list_tied_matches(
    candidates: Ints, positions: Ints, on: Ints, forward: bool, heads: IntsOut, starts: IntsOut, rows: IntsOut
) -> int:
    """List the runs of right rows that tie for a match where all rows have one key, and return how many there are.

    ``candidates`` are the left rows that may match a run, as of `juncture.kernels.merge.nearest_without_keys`.
    ``positions`` is the match of each left row: if ``forward``, the first of its run of equal right rows, otherwise the
    last. ``on`` has the code of the right row at each position. Out, with room for as many runs as candidates: the
    first position of each run (``heads``); in ``starts`` its index among the tied rows of all runs, and after the last
    run their number; and in ``rows`` the first left row that matches it.
    """
    count, previous, last = 0, np.int64(NOWHERE), np.int64(len(on) - 1)
    starts[0] = 0
    for candidate in range(len(candidates)):
        row = candidates[candidate]
        position = positions[row]
        if position == previous:
            continue
        previous = position
        first, end = position, position
        while not forward and first > 0 and on[first - 1] == on[position]:
            first -= 1
        while forward and end < last and on[end + 1] == on[position]:
            end += 1
        heads[count] = first
        rows[count] = row
        count += 1
        starts[count] = starts[count - 1] + end - first + 1
    return count


@compiled
def decide_matches(starts: Ints, heads: Ints, keys: IntTable, least: bool, rows: Ints, positions: IntsOut) -> None:
    """Replace the matches that tie by the winners of their runs.

    ``starts``, ``heads``, ``rows`` and ``positions`` are those of `list_tied_matches`. ``keys`` are ``[key, index among
    the tied rows]``, the most significant key first. The first row with the ``least`` keys wins, or else the last one
    with the greatest.
    """
    for run in range(len(rows)):
        winner = starts[run]
        for candidate in range(starts[run] + 1, starts[run + 1]):
            if _wins(keys, candidate, winner, least):
                winner = candidate
        row = rows[run]
        position = positions[row]
        while row < len(positions) and positions[row] == position:
            positions[row] = heads[run] + winner - starts[run]
            row += 1


@inlined
def _wins(keys: Any, position: Any, other: Any, least: Any) -> Any:
    """Return whether a row wins over one before it."""
    for key in range(len(keys)):
        if keys[key, position] != keys[key, other]:
            return (keys[key, position] < keys[key, other]) == least
    return not least


@compiled
def decide_ties(positions: Codes, heads: Codes, keys: IntTable, least: bool, rows: Codes, winners: CodesOut) -> None:
    """Write the row that wins at each position of rows that tie, as `decide_matches` has it.

    ``positions`` and ``heads`` are those of `list_ties`, and ``keys`` are ``[key, index among these]``. ``rows`` has
    the row number at each position. Out: ``winners``, by position.
    """
    best = np.empty(len(rows), np.int32)
    for index in range(len(positions)):
        head = heads[index]
        if positions[index] == head or _wins(keys, index, np.int64(best[head]), least):
            best[head] = index
    for index in range(len(positions)):
        winners[positions[index]] = rows[positions[best[heads[index]]]]


@compiled
def list_ties(keys: Codes, on: Ints, key_count: int, positions: CodesOut, heads: CodesOut) -> int:
    """List the positions of rows that are equal by key and ``on``, and return how many there are.

    ``keys`` and ``on`` are the codes of the right row at each position. Out, with room for all positions: each such
    position, and in ``heads`` the first one that it is equal to; those of one head ascend.

    Only rows whose ``on`` is that of a neighbour are looked at: one comparison for each of the others.
    """
    latest = np.full(key_count, NOWHERE, np.int32)
    count = 0
    start = 0
    while start + 1 < len(on):
        if on[start + 1] != on[start]:
            start += 1
            continue
        position = start
        while position < len(on) and on[position] == on[start]:
            key = keys[position]
            if key != EMPTY:
                # The first position of the key in this run; below -1 once it is listed.
                entry = np.int64(latest[key])
                head = entry if entry >= NOWHERE else -2 - entry
                if head < start:
                    latest[key] = position
                else:
                    if entry == head:
                        positions[count] = head
                        heads[count] = head
                        latest[key] = -2 - head
                        count += 1
                    positions[count] = position
                    heads[count] = head
                    count += 1
            position += 1
        start = position
    return count


@compiled
def order_short_runs(starts: Ints, keys: IntTable, order: IntsOut) -> bool:
    """Order the rows within runs by several keys each, and return whether all runs are short enough for that.

    ``starts`` are the first row of each run, and the number of rows at the end. ``keys`` are ``[key, row]``, the most
    significant key first. Out: the rows (``order``), those of each run ascending by their keys.

    Insertion sort: most runs of tied rows have two rows.
    """
    for run in range(len(starts) - 1):
        first, end = starts[run], starts[run + 1]
        if end - first > _SHORT:
            return False
        for row in range(first, end):
            position = row
            while position > first:
                other = order[position - 1]
                is_less = False
                for key in range(len(keys)):
                    if keys[key, row] != keys[key, other]:
                        is_less = keys[key, row] < keys[key, other]
                        break
                if not is_less:
                    break
                order[position] = other
                position -= 1
            order[position] = row
    return True
