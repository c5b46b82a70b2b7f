"""As-of joins over sorted left slots: keep the best right rows of each slot, spread them to later slots, and choose.

The left rows are sorted into *slots*, in groups (see `juncture.kernels.search`). A right row serves a run of slots of
its group: backward from the first slot at or after its value, forward from the last one at or before it. It is
*offered* to the slot where that run starts, and each slot keeps its best candidates. After all right rows, each slot
with room for candidates takes the candidates of the slot before (backward) or after it (forward), since a right row
offered to a nearer slot is better than all of those.

Candidates are an array ``best[slot, candidate, word]``, the best candidate first. Its words are

- the *rank*: the right row's value, complemented if forward, so that greater is better in both directions;
- any number of codes that decide between equal ranks, greater first, such as a time of availability;
- the right row's pointer, -1 of an empty candidate.

Rows whose words are equal are recorded as ties, which the caller breaks with the rows themselves.

Left rows at 2, 3 and 6 of one key, and right rows 0 and 1 at 1 and 4, backward::

    offer   the right rows to slots 0 and 2: best (rank, pointer) is [1, 0], empty, [4, 1]
    spread  slot 1 takes the candidate of slot 0
    choose  pointers [[0], [0], [1]]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import (
    Codes,
    CodesOut,
    IntCube,
    IntCubeOut,
    Ints,
    IntsOut,
    IntTable,
    IntTableOut,
    Words,
)
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import bits_as_float, float_as_bits, prefetch

NOWHERE = -1
"""The pointer of an empty candidate."""

MATCHED, BEYOND, NOTHING, TIED, FIRST_TIED, COUNTERS = range(6)
"""The counters of `choose`: left rows that match, that have only candidates beyond the tolerance, that have none, and
that have an unresolved tie; the last counter is the first of the tied rows, initially -1.
"""

_AHEAD = 32  # number of rows by which the cache line of a slot or a left row is prefetched


@compiled
def offer(
    slots: Codes,
    on: Ints,
    rows: Codes,
    end: int,
    low: int,
    high: int,
    base: int,
    forward: bool,
    ties_from: int,
    best: IntTableOut,
    ties: IntTableOut,
    rest: CodesOut,
    state: IntsOut,
) -> None:
    """Offer right rows to their slots, with one candidate per slot and no codes.

    ``best`` has the candidates, ``[slot, word]``. Only slots in ``[low, high)`` are touched, so that threads may own
    ranges of slots; ``rest`` receives the positions of the other rows. A pointer is a row plus ``base``. The value is
    the rank, or its complement is (``forward``). ``ties`` receives slot, rank and pointer of rows that tie with the
    best; the loop stops at ``ties_from`` of them. ``state`` is the next position, and the numbers of ties and of rest;
    rows up to the position ``end`` are offered. About 8 ns per row if slots come in partitions.
    """
    words, complement = best.reshape(-1), np.int64(-1 if forward else 0)
    position, tied, rest_count = state[0], state[1], state[2]
    while position < end and tied < ties_from:
        prefetch(words, np.uint64(2 * np.int64(slots[min(position + _AHEAD, end - 1)])))
        slot = np.int64(slots[position])
        if slot < low or slot >= high:
            rest[rest_count] = position
            rest_count += 1
            position += 1
            continue
        rank = on[position] ^ complement
        pointer = base + rows[position]
        word = np.uint64(2 * slot)
        best_rank, best_pointer = words[word], words[word + np.uint64(1)]
        if rank == best_rank and best_pointer != NOWHERE:
            ties[tied, 0] = slot
            ties[tied, 1] = rank
            ties[tied, 2] = pointer
            tied += 1
        # A mask instead of a branch, which would be hard to predict.
        wins = -np.int64((rank > best_rank) | (best_pointer == NOWHERE))
        words[word] = best_rank ^ ((best_rank ^ rank) & wins)
        words[word + np.uint64(1)] = best_pointer ^ ((best_pointer ^ pointer) & wins)
        position += 1
    state[0], state[1], state[2] = position, tied, rest_count


@inlined
def _compare(rank: Any, codes: Any, row: Any, current: Any) -> int:
    """Compare a right row with a candidate by rank and codes: 1 if better, 0 if equal, -1 if worse."""
    if rank != current[0]:
        return 1 if rank > current[0] else -1
    for code in range(codes.shape[1]):
        row_code, current_code = codes[row, code], current[code + 1]
        if row_code != current_code:
            return 1 if row_code > current_code else -1
    return 0


@compiled
def offer_many(
    slots: Codes,
    on: Ints,
    rows: Codes,
    codes: IntTable,
    end: int,
    low: int,
    high: int,
    base: int,
    forward: bool,
    decided: bool,
    first: bool,
    best: IntCubeOut,
    ties: IntTableOut,
    rest: CodesOut,
    state: IntsOut,
) -> None:
    """Offer right rows to their slots, as `offer`, with any number of codes and of candidates per slot.

    ``codes`` has a line for each right row, indexed by ``rows``. ``decided`` is whether pointers decide between equal
    codes, the smaller one winning if ``first``. Otherwise rows that compete to be the last candidate are ties, and tied
    rows within the candidates are unordered.
    """
    candidate_count, last_word, complement = best.shape[1], best.shape[2] - 1, np.int64(-1 if forward else 0)
    position, tied, rest_count = state[0], state[1], state[2]
    while position < end and tied < len(ties):
        slot = np.int64(slots[position])
        if slot < low or slot >= high:
            rest[rest_count] = position
            rest_count += 1
            position += 1
            continue
        rank = on[position] ^ complement
        row = np.int64(rows[position])
        pointer = base + row
        candidate = candidate_count
        order = 0
        while candidate > 0:
            current = best[slot, candidate - 1]
            if current[last_word] != NOWHERE:
                order = _compare(rank, codes, row, current)
                if order == 0 and decided:
                    order = 1 if (pointer > current[last_word]) != first else -1
                if order <= 0:
                    break
            candidate -= 1
        if candidate == candidate_count:
            if order == 0:
                ties[tied, 0] = slot
                ties[tied, 1] = rank
                ties[tied, 2] = pointer
                tied += 1
            position += 1
            continue
        dropped = best[slot, candidate_count - 1, last_word]
        if candidate < candidate_count - 1 and dropped != NOWHERE and not decided:
            same = True
            for word in range(last_word):
                same = same and best[slot, candidate_count - 1, word] == best[slot, candidate_count - 2, word]
            if same:
                ties[tied, 0] = slot
                ties[tied, 1] = best[slot, candidate_count - 1, 0]
                ties[tied, 2] = dropped
                tied += 1
        for moved in range(candidate_count - 1, candidate, -1):
            for word in range(last_word + 1):
                best[slot, moved, word] = best[slot, moved - 1, word]
        best[slot, candidate, 0] = rank
        for code in range(last_word - 1):
            best[slot, candidate, code + 1] = codes[row, code]
        best[slot, candidate, last_word] = pointer
        position += 1
    state[0], state[1], state[2] = position, tied, rest_count


@compiled
def spread(best: IntCubeOut, starts: Ints, first_group: int, end_group: int, forward: bool) -> None:
    """Fill the empty candidates of each slot with the best of the slots before it (backward) or after it (forward).

    Processes the groups ``[first_group, end_group)``; ``starts`` are the first slots of all groups. One sequential
    pass, limited by memory bandwidth.
    """
    candidate_count, words = best.shape[1], best.shape[2]
    step = np.int64(-1 if forward else 1)
    for group in range(first_group, end_group):
        for i in range(1, starts[group + 1] - starts[group]):
            slot = starts[group + 1] - 1 - i if forward else starts[group] + i
            candidate = 0
            while candidate < candidate_count and best[slot, candidate, words - 1] != NOWHERE:
                candidate += 1
            for taken in range(candidate_count - candidate):
                for word in range(words):
                    best[slot, candidate + taken, word] = best[slot - step, taken, word]


@inlined
def _float_of(code: Any) -> Any:
    """Return the float of an order-preserving code."""
    code = np.int64(code)
    return bits_as_float(code ^ ((code >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)))


@inlined
def distance_between(low: Any, high: Any, floating: bool) -> Any:
    """Return a distance that orders as an unsigned integer: of the codes, or the bits of the floats' distance."""
    if low == high:
        return np.uint64(0)
    if floating:
        return float_as_bits(_float_of(high) - _float_of(low))
    return np.uint64(high) - np.uint64(low)


@inlined
def _choose_only(
    on: Any, rows: Any, first_slot: Any, end_slot: Any, best: Any, forward: Any, tolerance: Any, tolerance_step: Any,
    floating: Any, pointers: Any, codes: Any, counts: Any,
) -> None:  # fmt: skip
    """Write matches as `choose` does, where each slot has one candidate: without a branch that is hard to predict."""
    flat, last_word, complement = best.reshape(-1), best.shape[2] - 1, np.int64(-1 if forward else 0)
    matched = beyond = np.int64(0)
    for slot in range(first_slot, end_slot):
        next_row = np.int64(rows[min(slot + _AHEAD, end_slot - 1)])
        prefetch(pointers, np.uint64(max(next_row, ~next_row)))
        row = np.int64(rows[slot])
        mask = row >> np.int64(63)
        row ^= mask
        start = slot * best.shape[2]
        value, pointer = flat[start] ^ complement, flat[start + last_word]
        low, high = (on[slot], value) if forward else (value, on[slot])
        is_near = (distance_between(low, high, floating) <= tolerance[row * tolerance_step]) & (mask == 0)
        here = np.int64(pointer != NOWHERE)
        good = here & np.int64(is_near)
        # NOWHERE is all bits.
        pointers[row, 0] = pointer | (good - 1)
        if len(codes) > 0 and good:
            codes[row, 0] = value
        matched += good
        beyond += here - good
    counts[MATCHED] += matched
    counts[BEYOND] += beyond
    counts[NOTHING] += end_slot - first_slot - matched - beyond


@compiled
def choose(
    on: Ints,
    rows: Codes,
    first_slot: int,
    end_slot: int,
    behind: IntCube,
    ahead: IntCube,
    wanted: int,
    tolerance: Words,
    tolerance_step: int,
    floating: bool,
    later: bool,
    pointers: IntTableOut,
    codes: IntTableOut,
    counts: IntsOut,
) -> None:
    """Write each left row's matches: the candidates at the least distances, within the tolerance. 30 ns per row.

    ``rows`` has the left row of each slot, or its complement if no distance is within its tolerance. ``behind`` and
    ``ahead`` are spread candidates; without slots if a direction is not used, and with a candidate more than the
    matches ``wanted`` to detect a tie between the last match and the next row. ``tolerance`` is the greatest distance,
    in the form of `distance_between`: one with ``tolerance_step`` 0, or one for each left row with step 1. ``later`` is
    whether the candidate ahead comes first at equal distance.

    Out: ``pointers[left row, match]``, best first, initially `NOWHERE`; ``codes`` of the right values in the same
    shape, or empty if not needed; and `COUNTERS` numbers added to ``counts``. Reads slots in order, and writes left
    rows at random into prefetched cache lines.
    """
    behind_count = behind.shape[1] if len(behind) > 0 else 0
    ahead_count = ahead.shape[1] if len(ahead) > 0 else 0
    candidates_most = max(behind_count, ahead_count)
    if behind_count + ahead_count == 1 and wanted == 1:
        _choose_only(
            on, rows, first_slot, end_slot, ahead if ahead_count else behind, ahead_count == 1, tolerance,
            tolerance_step, floating, pointers, codes, counts,
        )  # fmt: skip
        return
    for slot in range(first_slot, end_slot):
        next_row = np.int64(rows[min(slot + _AHEAD, end_slot - 1)])
        next_pointer = np.uint64(max(next_row, ~next_row) * wanted)
        prefetch(pointers, next_pointer)
        if len(codes) > 0:
            prefetch(codes, next_pointer)
        row = np.int64(rows[slot])
        barred = row < 0
        if barred:
            row = ~row
        limit = tolerance[row * tolerance_step]
        back = front = taken = candidates = 0
        last_ahead: Any = False
        while taken < candidates_most:
            has_behind = back < behind_count and behind[slot, back, behind.shape[2] - 1] != NOWHERE
            has_ahead = front < ahead_count and ahead[slot, front, ahead.shape[2] - 1] != NOWHERE
            if not has_behind and not has_ahead:
                break
            candidates += 1
            near = far = np.uint64(0)
            if has_behind:
                near = distance_between(behind[slot, back, 0], on[slot], floating)
            if has_ahead:
                far = distance_between(on[slot], ~ahead[slot, front, 0], floating)
            use_ahead = not has_behind or (has_ahead and (far < near or (later and far == near)))
            if barred or (far if use_ahead else near) > limit:
                break
            rank = ahead[slot, front, 0] if use_ahead else behind[slot, back, 0]
            is_tie = taken == wanted and use_ahead == last_ahead
            if is_tie and use_ahead:
                for word in range(ahead.shape[2] - 1):
                    is_tie = is_tie and ahead[slot, front, word] == ahead[slot, front - 1, word]
            elif is_tie:
                for word in range(behind.shape[2] - 1):
                    is_tie = is_tie and behind[slot, back, word] == behind[slot, back - 1, word]
            if taken < wanted and len(codes) > 0:
                codes[row, taken] = ~rank if use_ahead else rank
            if taken < wanted:
                pointers[row, taken] = (
                    ahead[slot, front, ahead.shape[2] - 1] if use_ahead else behind[slot, back, behind.shape[2] - 1]
                )
            elif is_tie:
                counts[TIED] += 1
                counts[FIRST_TIED] = row if counts[FIRST_TIED] < 0 else min(row, counts[FIRST_TIED])
            last_ahead = use_ahead
            taken += 1
            if use_ahead:
                front += 1
            else:
                back += 1
        counts[MATCHED if taken > 0 else BEYOND if candidates > 0 else NOTHING] += 1
