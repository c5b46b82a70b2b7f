"""As-of joins with a further condition: the right rows that each left slot may match, the best first.

Slots and groups are those of `juncture.kernels.asof`.

Left rows at 3 and 6, and right rows at 1, 4 and 5 of one key, backward without a limit::

    find_spans  [[0, 1], [2, 3]]: one row from position 0, and three from position 2 backward
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Ints, IntTableOut
from juncture.kernels.compiled import compiled
from juncture.kernels.search import advance

FIRST, COUNT = range(2)


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
