"""As-of joins of two sides that ascend by ``on``: passes over both, with the latest right row of each key at hand.

A *position* is the index of a right row in the ascending order of ``on``. The first pass finds, for each left row and
direction, the position of its nearest right row, and with keys a second one that of its own key. Further matches and
ties follow from ``before`` and ``after``, which link each position to its neighbours of the same key. The rows at the
positions are numbered so that, of rows that are equal by key and ``on``, the winner of the tie comes first where a pass
looks at them.

Two left rows at 2 and 6 of key 0, and right rows at 1, 4, 4, 9 of keys 0, 0, 1, 0::

    nearest positions backward  [0, 1]
    nearest positions forward   [1, 3]
    before                      [-1, 0, -1, 1]
    after                       [1, 3, -1, -1]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Bytes, Codes, CodesOut, Ints, IntsOut, IntTableOut, Words
from juncture.kernels.asof import BEYOND, FIRST_TIED, MATCHED, NOTHING, NOWHERE, TIED, distance_between
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.intrinsics import LANES, below_in_lanes
from juncture.kernels.search import advance

DISORDER, REPEAT = 1, 2
"""What `order_of_values` finds: values that descend, and equal ones."""

_BLOCK = 4096
_BLOCK_ROWS = 1 << 14
_NO_LIMIT = np.uint64(2**64 - 1)
_ONE = np.uint64(1)


@compiled
def order_of_values(on: Ints, first: int, end: int) -> int:
    """Return whether values in ``[first, end)``, or the one before, descend (`DISORDER`) or repeat (`REPEAT`), as bits.

    One pass, vectorized in blocks, which ends at the first block that descends.
    """
    order = 0
    start = max(first, 1)
    while start < end:
        stop = min(start + _BLOCK, end)
        # Indices of slices are never negative, which lets the compiler vectorize the loop.
        values, previous = on[start:stop], on[start - 1 : stop - 1]
        descents = 0
        repeats = 0
        for i in range(len(values)):
            descents += values[i] < previous[i]
            repeats += values[i] == previous[i]
        if descents > 0:
            return DISORDER | REPEAT
        if repeats > 0:
            order = REPEAT
        start = stop
    return order


@compiled
def nearest_positions(
    keys: Codes,
    on: Ints,
    first: int,
    end: int,
    right_keys: Codes,
    right_on: Ints,
    forward: bool,
    strict: bool,
    key_count: int,
    positions: IntsOut,
) -> None:
    """Find the position of the nearest right row of each left row ``[first, end)``, in one direction.

    ``keys`` and ``on`` are the codes of the left rows, which all ascend by ``on``, also those of the key `EMPTY`;
    ``right_keys`` and ``right_on`` those of the right rows, by position. A key `EMPTY` matches nothing. ``strict`` is
    whether equal values do not match. Out: a position for each left row, `NOWHERE` where there is none, and anything
    for the key `EMPTY`.

    Linear in the right rows up to the last that the range can match, and in the left rows: 1.5 ns for each. The first
    pass is that of `nearest_without_keys`. The second one passes the right rows again, two for each left row without a
    branch, since mostly few rows lie between two left rows.
    """
    count, begin = len(right_on), 0
    if count == 0:
        positions[first:end] = NOWHERE
        return
    _walk_in_blocks(on, first, end, right_on, forward, strict, positions, positions[:0])
    # The latest position of each key, after a spare item.
    latest = np.full(key_count + 1, NOWHERE, np.int32)
    for i in range(end - first):
        row = np.uint64(end - 1 - i if forward else first + i)
        position = positions[row]
        # Right rows are counted in the order in which they are passed.
        stop = position + 1
        if forward:
            stop = np.int64(0) if position == NOWHERE else count - position
        _pass(right_keys, begin, stop, forward, latest)
        _pass(right_keys, begin + 1, stop, forward, latest)
        for index in range(begin + 2, stop):
            _pass(right_keys, index, stop, forward, latest)
        begin = stop
        positions[row] = latest[np.uint64(keys[row] + 1)]


@inlined
def _pass(right_keys: Any, index: Any, stop: Any, forward: Any, latest: Any) -> None:
    """Note a right row as the latest of its key, unless it is not passed yet: then the spare item gets any row."""
    passes = np.int64(index < stop)
    position = index * passes
    position = len(right_keys) - 1 - position if forward else position
    latest[np.uint64((np.int64(right_keys[np.uint64(position)]) + 1) * passes)] = position


@compiled
def nearest_without_keys(
    on: Ints, first: int, end: int, right_on: Ints, forward: bool, strict: bool, positions: IntsOut, candidates: IntsOut
) -> int:
    """Find the same as `nearest_positions` where all rows have one key, and return the number of ``candidates``.

    Out: ``candidates``, the left rows whose right row may tie, since the next one in the direction of ties is equal,
    with room for all left rows and one more; or without items if ties do not matter.

    A step of a walk compares two left rows with a window of right rows. Four walks over a quarter of a block of left
    rows each take turns, since each step of a walk waits for the one before: 1 ns for each left row, or for every few
    right rows. Ties take half as much, since a block is in a cache.
    """
    return int(_walk_in_blocks(on, first, end, right_on, forward, strict, positions, candidates))


@inlined
def _walk_in_blocks(
    on: Any, first: Any, end: Any, right_on: Any, forward: Any, strict: Any, positions: Any, candidates: Any
) -> Any:
    """Find the nearest positions without keys, and list candidates if there is room for them."""
    right_row, count, start = np.int64(0), np.uint64(0), first
    while start < end:
        stop = min(start + _BLOCK_ROWS, end)
        right_row = _walk(on, start, stop, right_on, right_row, forward == strict, forward, positions)
        if len(candidates) > 0:
            count = _list_candidates(positions, start, stop, right_on, forward, candidates, count)
        start = stop
    return count


@inlined
def _walk(
    on: Any, first: Any, end: Any, right_on: Any, right_row: Any, inclusive: Any, forward: Any, positions: Any
) -> Any:
    """Walk over a block of left rows from a right row on, and return the right row from which to walk on."""
    size, count, stop = np.uint64(LANES), np.uint64(len(right_on)), np.uint64(end)
    quarter = np.uint64((end - first) // 4)
    row0 = np.uint64(first)
    row1, row2, row3 = row0 + quarter, row0 + quarter * np.uint64(2), row0 + quarter * np.uint64(3)
    stop0, stop1, stop2 = row1, row2, row3
    right_row0 = np.uint64(advance(right_on, np.int64(right_row), len(right_on), on[row0], inclusive))
    right_row1 = np.uint64(advance(right_on, np.int64(right_row0), len(right_on), on[row1], inclusive))
    right_row2 = np.uint64(advance(right_on, np.int64(right_row1), len(right_on), on[row2], inclusive))
    right_row3 = np.uint64(advance(right_on, np.int64(right_row2), len(right_on), on[row3], inclusive))
    # No walk is ahead of the last one, which is therefore the first to come near the end of the right side.
    while row0 + _ONE < stop0 and row1 + _ONE < stop1 and row2 + _ONE < stop2 and row3 + _ONE < stop:
        if right_row3 + size > count:
            break
        row0, right_row0 = _step(on, row0, right_on, right_row0, inclusive, forward, positions)
        row1, right_row1 = _step(on, row1, right_on, right_row1, inclusive, forward, positions)
        row2, right_row2 = _step(on, row2, right_on, right_row2, inclusive, forward, positions)
        row3, right_row3 = _step(on, row3, right_on, right_row3, inclusive, forward, positions)
    _walk_on(on, row0, stop0, right_on, right_row0, inclusive, forward, positions)
    _walk_on(on, row1, stop1, right_on, right_row1, inclusive, forward, positions)
    _walk_on(on, row2, stop2, right_on, right_row2, inclusive, forward, positions)
    _walk_on(on, row3, stop, right_on, right_row3, inclusive, forward, positions)
    return np.int64(right_row3)


@inlined
def _list_candidates(
    positions: Any, first: Any, end: Any, right_on: Any, forward: Any, candidates: Any, count: Any
) -> Any:
    """Add the left rows of a block whose right row may tie, and return how many there are so far."""
    row, stop, last = np.uint64(first), np.uint64(end), np.int64(len(right_on) - 1)
    # Positions ascend, so that only the first and the last of them have no next right row, or no right row.
    while row < stop and positions[row] < np.int64(not forward):
        row += _ONE
    while forward and row < stop and (positions[stop - _ONE] == NOWHERE or positions[stop - _ONE] == last):
        stop -= _ONE
    neighbour = _ONE if forward else ~np.uint64(0)
    while row < stop:
        position = np.uint64(positions[row])
        candidates[count] = row
        count += np.uint64(right_on[position] == right_on[position + neighbour])
        row += _ONE
    return count


@inlined
def _step(
    on: Any, row: Any, right_on: Any, right_row: Any, inclusive: Any, forward: Any, positions: Any
) -> tuple[Any, Any]:
    """Place two left rows in a window, and return the next rows; a left row past the window is placed again."""
    size = np.uint64(LANES)
    below = below_in_lanes(right_on, right_row, on[row], inclusive)
    last_below = below_in_lanes(right_on, right_row, on[row + _ONE], inclusive)
    positions[row] = right_row + below - np.uint64(not forward)
    positions[row + _ONE] = right_row + last_below - np.uint64(not forward)
    return row + np.uint64(below < size) + np.uint64(last_below < size), right_row + last_below


@inlined
def _walk_on(
    on: Any, row: Any, stop: Any, right_on: Any, right_row: Any, inclusive: Any, forward: Any, positions: Any
) -> None:
    """Finish a walk."""
    size, count = np.uint64(LANES), np.uint64(len(right_on))
    while row + _ONE < stop and right_row + size <= count:
        row, right_row = _step(on, row, right_on, right_row, inclusive, forward, positions)
    while row < stop:
        while right_row < count and (right_on[right_row] < on[row] or (inclusive and right_on[right_row] == on[row])):
            right_row += _ONE
        positions[row] = NOWHERE if forward and right_row == count else np.int64(right_row) - np.int64(not forward)
        row += _ONE


@compiled
def link(keys: Codes, key_count: int, before: CodesOut, after: CodesOut) -> None:
    """Link each position to its neighbours of the same key.

    Out: the previous (``before``) and the next position (``after``) of the same key, `NOWHERE` at the ends.
    """
    latest = np.full(key_count, NOWHERE, np.int32)
    for position in range(len(keys)):
        key = keys[position]
        before[position] = NOWHERE
        after[position] = NOWHERE
        if key == EMPTY:
            continue
        previous = latest[key]
        latest[key] = position
        before[position] = previous
        if previous >= 0:
            after[previous] = position


@compiled
def choose_single(
    keys: Codes,
    on: Ints,
    rows: Codes,
    first: int,
    end: int,
    nearest: Ints,
    right_on: Ints,
    right_rows: Codes,
    tolerance: Words,
    floating: bool,
    pointers: IntsOut,
) -> None:
    """Write the one match of each left row, in one direction, where no tie is counted and no row is barred.

    ``nearest`` is the nearest position of each left row, and may be ``pointers`` if ``rows`` has no items.
    ``right_rows`` are the row numbers by position, without items if positions are row numbers. Other arguments are
    those of `choose_positions`. Out: the right row of each left row.
    """
    is_unlimited = len(tolerance) == 1 and tolerance[0] == _NO_LIMIT
    own_limit, numbered = len(tolerance) > 1, len(right_rows) > 0
    for i in range(first, end):
        row = np.int64(rows[i]) if len(rows) > 0 else np.int64(i)
        position = nearest[i]
        is_match = position >= 0 and (len(keys) == 0 or keys[i] != EMPTY)
        if is_match and not is_unlimited:
            low, high = min(on[i], right_on[position]), max(on[i], right_on[position])
            is_match = distance_between(low, high, floating) <= tolerance[row if own_limit else 0]
        if numbered and is_match:
            position = np.int64(right_rows[position])
        pointers[row] = position if is_match else NOWHERE


@compiled
def choose_positions(
    keys: Codes,
    on: Ints,
    rows: Codes,
    barred: Bytes,
    first: int,
    end: int,
    behind: Ints,
    ahead: Ints,
    right_on: Ints,
    before: Codes,
    after: Codes,
    behind_rows: Codes,
    ahead_rows: Codes,
    wanted: int,
    candidate_count: int,
    tolerance: Words,
    floating: bool,
    later: bool,
    pointers: IntTableOut,
    counts: IntsOut,
) -> None:
    """Write each left row's matches: the right rows at the least distances, within the tolerance.

    ``keys``, ``on`` and ``rows`` are the left rows ``[first, end)`` in ascending order, and their numbers: no keys if
    all rows have one key, and no numbers if the rows are in their order. ``barred`` is 1, by row number, where no
    distance is small enough; without items if there are no such rows. ``behind`` and ``ahead`` are the nearest
    positions backward and forward, without items where a direction is not wanted.

    Right rows are linked by position (``before`` and ``after``, without items if one match is wanted).
    ``behind_rows`` and ``ahead_rows`` are the right row at each position, as each direction looks at them; without
    items if positions are row numbers. At most ``wanted`` rows match, and ``candidate_count`` is one more where a tie
    between the last that is taken and the first that is not is counted. ``tolerance`` is the greatest distance, as
    `distance_between` has it: one, or one for each row number. ``later`` is whether of two rows at the same distance
    the one ahead comes first.

    Out: ``pointers``, for each left row its right rows, best first, initially `NOWHERE`; and the counters of
    `juncture.kernels.asof`, added to ``counts``.
    """
    own_limit = len(tolerance) > 1
    for i in range(first, end):
        if len(keys) > 0 and keys[i] == EMPTY:
            continue
        row = np.int64(rows[i]) if len(rows) > 0 else np.int64(i)
        back = behind[i] if len(behind) > 0 else np.int64(NOWHERE)
        front = ahead[i] if len(ahead) > 0 else np.int64(NOWHERE)
        limit = tolerance[row if own_limit else 0]
        is_barred = len(barred) > 0 and barred[row] != 0
        has_candidate = back >= 0 or front >= 0
        taken = 0
        last = np.int64(NOWHERE)
        last_ahead: Any = False
        while taken < candidate_count and (back >= 0 or front >= 0) and not is_barred:
            near = far = np.uint64(0)
            if back >= 0:
                near = distance_between(right_on[back], on[i], floating)
            if front >= 0:
                far = distance_between(on[i], right_on[front], floating)
            use_ahead = back < 0 or (front >= 0 and (far < near or (later and far == near)))
            if (far if use_ahead else near) > limit:
                break
            position = front if use_ahead else back
            if taken < wanted:
                if use_ahead:
                    pointers[row, taken] = ahead_rows[position] if len(ahead_rows) > 0 else position
                else:
                    pointers[row, taken] = behind_rows[position] if len(behind_rows) > 0 else position
            elif use_ahead == last_ahead and right_on[position] == right_on[last]:
                counts[TIED] += 1
                counts[FIRST_TIED] = row if counts[FIRST_TIED] < 0 else min(row, counts[FIRST_TIED])
            taken += 1
            last = position
            last_ahead = use_ahead
            if taken < candidate_count:
                if use_ahead:
                    front = np.int64(after[position])
                else:
                    back = np.int64(before[position])
        counts[MATCHED if taken > 0 else BEYOND if has_candidate else NOTHING] += 1
