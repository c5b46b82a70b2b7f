"""Rows in the order of key and code: a radix sort with few digits if rows are nearly in order, merges and removals.

Rows with keys 1, 0, 1 and codes 4, 9, 2 have the order [1, 2, 0].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Bytes, Codes, CodesOut, Ints, IntsOut, IntTable, IntTableOut
from juncture.kernels.compiled import compiled, inlined, subroutine
from juncture.kernels.hash_table import EMPTY

_DIGITS = 1 << 11
_DIGIT_BITS = 11
_RUNS_MOST = 16
_COUNTED_LEAST = 1 << 12


@inlined
def _pass(digits: Any, order: Any, other: Any, shift: Any, counts: Any) -> Any:
    """Move rows in the order of one digit, unless all have the same; return whether they were moved."""
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
    for position in range(len(order)):
        moved = order[position]
        digit = np.int64((digits[moved] >> np.uint64(shift)) & np.uint64(_DIGITS - 1))
        other[counts[digit]] = moved
        counts[digit] += 1
    return True


@subroutine
def _by_digits(digits: Any, most: Any, order: Any, other: Any, counts: Any) -> Any:
    """Return rows in the order of their digits, stably, and a buffer of the same size."""
    shift = np.int64(0)
    while shift < 64 and (most >> np.uint64(shift)) > np.uint64(0):
        if _pass(digits, order, other, shift, counts):
            order, other = other, order
        shift += _DIGIT_BITS
    return order, other


@inlined
def _rising_or_falling(codes: Any) -> Any:
    """Return whether codes never fall, and whether they never rise."""
    falls, rises = np.int64(0), np.int64(0)
    for row in range(1, len(codes)):
        falls += codes[row] < codes[row - 1]
        rises += codes[row] > codes[row - 1]
    return falls == 0, rises == 0


@inlined
def _is_in_few_runs(keys: Any) -> Any:
    """Return whether rows are a few consecutive runs, each sorted by key."""
    runs = np.int64(0)
    for row in range(1, len(keys)):
        runs += keys[row] < keys[row - 1]
    return runs <= _RUNS_MOST


@inlined
def _are_sorted(keys: Any, codes: Any, order: Any) -> Any:
    """Return whether rows in the order of their keys are also in that of their codes."""
    for position in range(1, len(order)):
        row, before = order[position], order[position - 1]
        if codes[row] < codes[before] and keys[row] == keys[before]:
            return False
    return True


@subroutine
def _reverse(codes: Any, order: Any) -> Any:
    """Write the order of rows whose codes never rise, stably."""
    count = len(codes)
    # For each row, the number of rows after the last one with its code: two passes without a branch.
    end = np.int64(count)
    for row in range(count - 1, -1, -1):
        end = np.int64(row + 1) if row + 1 < count and codes[row + 1] != codes[row] else end
        order[row] = count - end
    first, before = np.int64(0), order.copy()
    for row in range(count):
        first = np.int64(row) if row > 0 and codes[row - 1] != codes[row] else first
        order[before[row] + row - first] = row


@subroutine
def _by_codes(codes: Any, digits: Any, order: Any, other: Any, counts: Any) -> Any:
    """Return rows in the order of their codes, stably, and a buffer of the same size."""
    least = np.int64(codes[0])
    for row in range(len(codes)):
        least = min(least, codes[row])
    most = np.uint64(0)
    for row in range(len(codes)):
        digits[row] = np.uint64(codes[row]) - np.uint64(least)
        most = max(most, digits[row])
    return _by_digits(digits, most, order, other, counts)


@subroutine
def _by_keys(keys: Any, digits: Any, order: Any, other: Any, counts: Any) -> Any:
    """Return rows in the order of their keys, stably, and a buffer of the same size."""
    most = np.uint64(0)
    for row in range(len(keys)):
        digits[row] = np.uint64(keys[row])
        most = max(most, digits[row])
    return _by_digits(digits, most, order, other, counts)


@compiled
def sort_rows(keys: Codes, codes: Ints, order: CodesOut) -> None:
    """Write the order of rows by key and then code, stably.

    Some 3 ns per row for each 11 bits in which keys differ, and for each 11 bits of the codes unless they rise or fall
    throughout, or the rows are a few sorted runs whose codes continue each other.
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
    if not (rises or falls or _is_in_few_runs(keys)):
        current, other = _by_codes(codes, digits, current, other, counts)
    current, other = _by_keys(keys, digits, current, other, counts)
    if not (rises or falls) and not _are_sorted(keys, codes, current):
        # Runs whose codes do not continue each other.
        for row in range(count):
            current[row] = row
        current, other = _by_codes(codes, digits, current, other, counts)
        current, other = _by_keys(keys, digits, current, other, counts)
    for row in range(count):
        order[row] = current[row]


@compiled
def arrange_rows(
    keys: Codes, codes: IntTable, distinct: int, rows: CodesOut, sorted_keys: CodesOut, sorted_codes: IntTableOut
) -> int:
    """Write the rows with a key in the order of keys and first codes, stably, by counting; return their number.

    Keys are less than ``distinct``, or `EMPTY`. Returns -1 and writes nothing if there are too many keys to count, or
    first codes neither rise nor fall throughout. One pass over the keys to count them, one to place the rows, and a
    step for each possible key.
    """
    count, lines = len(keys), codes.shape[0]
    if distinct > 2 * count + _COUNTED_LEAST:
        return -1
    rises, falls = _rising_or_falling(codes[0]) if lines > 0 else (True, True)
    if not (rises or falls):
        return -1
    order = np.empty(0 if rises else count, np.int32)
    if not rises:
        _reverse(codes[0], order)
    # Rows without a key are counted in the first entry.
    starts = np.zeros(distinct + 1, np.int32)
    for row in range(count):
        starts[keys[row] + 1] += 1
    starts[0] = 0
    total = np.int32(0)
    for key in range(1, distinct + 1):
        size = starts[key]
        starts[key] = total
        total += size
    for turn in range(count):
        moved = np.int64(turn) if rises else np.int64(order[turn])
        key = keys[moved]
        if key == EMPTY:
            continue
        position = starts[key + 1]
        starts[key + 1] = position + 1
        rows[position] = moved
    # Random reads can be prefetched, unlike random writes.
    for turn in range(total):
        sorted_keys[turn] = keys[rows[turn]]
    for line in range(lines):
        for turn in range(total):
            sorted_codes[line, turn] = codes[line, rows[turn]]
    return int(total)


@compiled
def merge_rows(
    keys: Codes,
    codes: Ints,
    slots: Ints,
    more_keys: Codes,
    more_codes: Ints,
    more_slots: Ints,
    all_keys: CodesOut,
    all_codes: IntsOut,
    all_slots: IntsOut,
) -> None:
    """Merge two runs of rows sorted by key and code, stably, in one pass; ``all_*`` have room for all rows."""
    index, more = np.int64(0), np.int64(0)
    for row in range(len(all_keys)):
        takes_more = index == len(keys)
        if not takes_more and more < len(more_keys):
            takes_more = more_keys[more] < keys[index] or (
                more_keys[more] == keys[index] and more_codes[more] < codes[index]
            )
        if takes_more:
            all_keys[row], all_codes[row], all_slots[row] = more_keys[more], more_codes[more], more_slots[more]
            more += 1
        else:
            all_keys[row], all_codes[row], all_slots[row] = keys[index], codes[index], slots[index]
            index += 1


@compiled
def merge_runs(keys: Codes, codes: Ints, hashes: Ints, weights: Ints, starts: Ints, order: CodesOut) -> int:
    """Write the rows of sorted runs by key, code and hash, without rows of weight 0; return their number.

    The runs follow each other, and ``starts`` are their first rows, with the end. Stable: rows of earlier runs first.

    One comparison for each row and run.
    """
    runs = len(starts) - 1
    heads = np.empty(runs, np.int64)
    for run in range(runs):
        heads[run] = starts[run]
    count = np.int64(0)
    for _ in range(len(keys)):
        least = np.int64(-1)
        best = np.int64(0)
        for run in range(runs):
            head = heads[run]
            if head == starts[run + 1]:
                continue
            is_less = least < 0 or keys[head] < keys[best]
            if not is_less and keys[head] == keys[best]:
                is_less = codes[head] < codes[best] or (codes[head] == codes[best] and hashes[head] < hashes[best])
            if is_less:
                least, best = np.int64(run), head
        heads[least] += 1
        if weights[best] != 0:
            order[count] = best
            count += 1
    return int(count)


@compiled
def keep_rows(wanted: Bytes, keys: CodesOut, codes: IntsOut, slots: IntsOut, removed_slots: IntsOut) -> int:
    """Move the rows marked 1 in ``wanted`` to the front, in their order; return their number.

    ``removed_slots`` receives the slots of the other rows, with room for all.
    """
    count, removed_count = np.int64(0), np.int64(0)
    for row in range(len(keys)):
        if wanted[row]:
            keys[count], codes[count], slots[count] = keys[row], codes[row], slots[row]
            count += 1
        else:
            removed_slots[removed_count] = slots[row]
            removed_count += 1
    return int(count)
