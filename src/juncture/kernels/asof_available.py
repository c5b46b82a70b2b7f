"""As-of joins by availability or a further condition: the nearest right rows that a left row may take.

The right rows are sorted into the groups of the left slots, by value and time of availability (*availability* code). A
left slot searches from its value, backward or forward, for the nearest rows whose availability code is at most its
*as-of* code. To skip rows, a *tree* has the complements of the availability codes, with the greatest of each block,
block of blocks and so on, as `juncture.kernels.band.build_level` fills it.

Slots, groups and candidates are those of `juncture.kernels.asof`. Candidates have three words: rank, availability code
and pointer.

Right rows 0 and 1 at 1 and 2, available from 5 and 9. A slot at 3 that sees up to 6 skips row 1::

    find_available  best[0, 0] is (1, 5, 0)

Conditions are tried outward, from the nearest row on. Left rows at 3 and 6, and right rows at 1, 4 and 5, backward::

    find_spans  [[0, 1], [2, 3]]: one row from position 0, and three from position 2 backward
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import BytesOut, Codes, IntCube, IntCubeOut, Ints, IntTableOut
from juncture.kernels.asof import NOWHERE
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import WINDOW
from juncture.kernels.search import advance

_BITS = 4  # bits of the number of an entry within its block

RANK, AVAILABILITY, POINTER, WORDS = range(4)
"""The words of a candidate."""

FIRST, COUNT = range(2)
"""The columns of `find_spans`."""


@inlined
def _before(tree: Ints, levels: Ints, low: Any, position: Any, least: Any) -> Any:
    """Return the last available row in ``[low, position)``, or -1: O(log n), and O(1) if it is near."""
    level = 0
    entry = np.int64(position) - 1
    while entry >= (np.int64(low) >> np.int64(_BITS * level)):
        first = (entry >> np.int64(_BITS)) << np.int64(_BITS)
        while entry >= first and tree[levels[level] + entry] < least:
            entry -= 1
        if entry < first:
            if first == 0:
                return np.int64(-1)
            entry = (first >> np.int64(_BITS)) - 1
            level += 1
        elif level == 0:
            return entry if entry >= low else np.int64(-1)
        else:
            level -= 1
            entry = (entry << np.int64(_BITS)) + np.int64(WINDOW - 1)
    return np.int64(-1)


@inlined
def _after(tree: Ints, levels: Ints, position: Any, high: Any, least: Any) -> Any:
    """Return the first available row in ``[position, high)``, or -1: O(log n), and O(1) if it is near."""
    level = 0
    entry = np.int64(position)
    while (entry << np.int64(_BITS * level)) < high:
        end = ((entry >> np.int64(_BITS)) + 1) << np.int64(_BITS)
        while entry < end and tree[levels[level] + entry] < least:
            entry += 1
        if entry >= end:
            if end == levels[level + 1] - levels[level]:
                return np.int64(-1)
            entry = end >> np.int64(_BITS)
            level += 1
        elif level == 0:
            return entry if entry < high else np.int64(-1)
        else:
            level -= 1
            entry <<= np.int64(_BITS)
    return np.int64(-1)


@compiled
def find_available(
    on: Ints,
    asof_codes: Ints,
    starts: Ints,
    first_slot: int,
    end_slot: int,
    group: int,
    right_on: Ints,
    right_starts: Ints,
    pointers: Ints,
    run_ends: Codes,
    tree: Ints,
    levels: Ints,
    forward: bool,
    strict: bool,
    best: IntCubeOut,
) -> None:
    """List the best available right rows for each slot. O(log n) for each candidate, regardless of unavailable rows.

    The right rows are sorted into the groups of the left slots by value, availability code and tie order, the winner
    last; ``asof_codes`` has the as-of code of each slot, and ``group`` is that of ``first_slot``. ``run_ends`` has the
    end of each right row's run of equal values, and is read only if forward. ``tree`` has the availability codes with
    their minima, and ``levels`` the start of each level. ``strict`` is whether equal values do not match. Out:
    ``best[slot, candidate, (rank, availability, pointer)]``, initially empty, is filled for the whole range.
    """
    candidate_count = best.shape[1]
    inclusive = forward == strict
    position: Any = np.int64(-1)
    for slot in range(first_slot, end_slot):
        while slot >= starts[group + 1]:
            group += 1
            position = np.int64(-1)
        if position < 0:
            position = right_starts[group]
        low, end = right_starts[group], right_starts[group + 1]
        position = advance(right_on, position, end, on[slot], inclusive)
        row: Any = np.int64(position)
        least = ~asof_codes[slot]
        candidate = 0
        while candidate < candidate_count and not forward:
            row = _before(tree, levels, low, row, least)
            if row < 0:
                break
            best[slot, candidate, RANK] = right_on[row]
            best[slot, candidate, AVAILABILITY] = ~tree[row]
            best[slot, candidate, POINTER] = pointers[row]
            candidate += 1
        while candidate < candidate_count and forward:
            nearest = _after(tree, levels, row, end, least)
            if nearest < 0:
                break
            # Among rows of one value, the last available one ranks first.
            run_end = np.int64(run_ends[nearest])
            row = _before(tree, levels, nearest, run_end, least)
            while candidate < candidate_count and row >= 0:
                best[slot, candidate, RANK] = ~right_on[row]
                best[slot, candidate, AVAILABILITY] = ~tree[row]
                best[slot, candidate, POINTER] = pointers[row]
                candidate += 1
                row = _before(tree, levels, nearest, row, least)
            row = run_end


@inlined
def _is_better(one: Any, other: Any) -> bool:
    """Return whether a candidate has a greater rank than another, or an equal rank and a later availability code."""
    if one[RANK] != other[RANK]:
        return bool(one[RANK] > other[RANK])
    return bool(one[AVAILABILITY] > other[AVAILABILITY])


@compiled
def combine(best: IntCubeOut, later: IntCube, first_slot: int, end_slot: int, first: bool, tied: BytesOut) -> None:
    """Merge the candidates ``best`` of each slot with others (``later``), all from later right rows, in one pass.

    With ``first``, the earlier of two rows with the same rank and availability code wins, otherwise the later one.
    ``tied`` is set for slots with such rows. If only the table order breaks ties, the result is final.
    """
    candidate_count = best.shape[1]
    for slot in range(first_slot, end_slot):
        if later[slot, 0, POINTER] == NOWHERE:
            continue
        # From the last candidate on, so that no candidate is overwritten before it is read.
        taken_best = taken_later = 0
        while taken_best + taken_later < candidate_count:
            has_best = best[slot, taken_best, POINTER] != NOWHERE
            has_later = later[slot, taken_later, POINTER] != NOWHERE
            if not has_best and not has_later:
                break
            takes_best = has_best and not has_later
            if has_best and has_later:
                takes_best = _is_better(best[slot, taken_best], later[slot, taken_later])
                if not takes_best and not _is_better(later[slot, taken_later], best[slot, taken_best]):
                    tied[slot] = 1
                    takes_best = first
            taken_best += int(takes_best)
            taken_later += int(not takes_best)
        candidate = taken_best + taken_later - 1
        while taken_later > 0:
            last_is_best = False
            if taken_best > 0:
                last_is_best = _is_better(later[slot, taken_later - 1], best[slot, taken_best - 1])
                if not last_is_best and not first:
                    last_is_best = not _is_better(best[slot, taken_best - 1], later[slot, taken_later - 1])
            for word in range(WORDS):
                best[slot, candidate, word] = (
                    best[slot, taken_best - 1, word] if last_is_best else later[slot, taken_later - 1, word]
                )
            taken_best -= int(last_is_best)
            taken_later -= int(not last_is_best)
            candidate -= 1


@compiled
def find_spans(
    on: Ints,
    starts: Ints,
    first_slot: int,
    end_slot: int,
    group: int,
    right_on: Ints,
    right_starts: Ints,
    farthest: Ints,
    forward: bool,
    strict: bool,
    spans: IntTableOut,
) -> None:
    """Find the right rows in the join's direction from each slot, up to its limit.

    Both sides are sorted into the same groups, and ``group`` is that of ``first_slot``. ``farthest`` has the farthest
    value of each slot, and is empty without limits; ``strict`` is whether equal values do not match. Out: ``spans[slot,
    (first, count)]``, the nearest right row and the number of rows from there outward.

    One pass over the slots, galloping through the right rows; with limits another O(log n) for each slot.
    """
    inclusive = forward == strict
    position: Any = np.int64(-1)
    for slot in range(first_slot, end_slot):
        while slot >= starts[group + 1]:
            group += 1
            position = np.int64(-1)
        if position < 0:
            position = right_starts[group]
        low, end = right_starts[group], right_starts[group + 1]
        position = advance(right_on, position, end, on[slot], inclusive)
        if forward:
            edge: Any = end
            if len(farthest) > 0:
                edge = advance(right_on, position, end, farthest[slot], True)
            spans[slot, FIRST] = position
            spans[slot, COUNT] = edge - position
        else:
            edge = low
            if len(farthest) > 0:
                edge = advance(right_on, low, position, farthest[slot], False)
            spans[slot, FIRST] = position - 1
            spans[slot, COUNT] = position - edge
