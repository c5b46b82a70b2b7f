"""As-of joins of two sorted sides: one pass lists the best right rows for each left slot.

Slots, groups and candidates are those of `juncture.kernels.asof`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, IntCubeOut, Ints
from juncture.kernels.compiled import compiled, inlined


@inlined
def advance(on: Ints, position: Any, end: int, value: int, inclusive: bool) -> Any:
    """Return the first position whose value is greater than another (or not less, unless inclusive)."""
    step = 1
    while position + step <= end and (
        on[position + step - 1] < value or (inclusive and on[position + step - 1] == value)
    ):
        position += step
        step *= 2
    span = min(step - 1, end - position)
    while span > 0:
        half = span >> 1
        middle = on[position + half]
        if middle < value or (inclusive and middle == value):
            position += half + 1
            span -= half + 1
        else:
            span = half
    return position


@compiled
def merge(
    on: Ints,
    starts: Ints,
    first_slot: int,
    end_slot: int,
    group: int,
    right_on: Ints,
    right_starts: Ints,
    pointers: Ints,
    run_ends: Codes,
    forward: bool,
    strict: bool,
    best: IntCubeOut,
) -> None:
    """List the best right rows for each slot in one pass over two sorted sides.

    Parameters
    ----------
    on, starts
        The left slots, and the first slot of each group.
    first_slot, end_slot, group
        The range of slots, and the group of the first.
    right_on, right_starts, pointers
        The right rows, sorted into the same groups by value and ascending tie order.
    run_ends
        End of each right row's run of equal values. Read only if forward.
    strict
        Whether equal values do not match.
    best
        Out: ``[slot, place, (rank, pointer)]``, filled for the whole range, already spread.

    Notes
    -----
    Linear in both sides. It gallops from one slot to the next, so few slots against many right rows cost O(log n) each.
    """
    places = best.shape[1]
    inclusive = forward == strict
    position: Any = np.int64(-1)
    for slot in range(first_slot, end_slot):
        while slot >= starts[group + 1]:
            group += 1
            position = np.int64(-1)
        if position < 0:
            position = right_starts[group]
        end = right_starts[group + 1]
        position = advance(right_on, position, end, on[slot], inclusive)
        if not forward:
            for place in range(min(places, position - right_starts[group])):
                best[slot, place, 0] = right_on[position - 1 - place]
                best[slot, place, 1] = pointers[position - 1 - place]
            continue
        place = 0
        run: Any = position
        while place < places and run < end:
            run_end = np.int64(run_ends[run])
            for i in range(min(places - place, run_end - run)):
                best[slot, place, 0] = ~right_on[run]
                best[slot, place, 1] = pointers[run_end - 1 - i]
                place += 1
            run = run_end
