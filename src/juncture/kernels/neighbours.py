"""The rows before and after a position in their order, skipping removed rows.

Rows at 1, 4, 6 of one key with weights 1, 0, 1: the second row from code 1 forward has code 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, Ints, IntsOut
from juncture.kernels.compiled import compiled
from juncture.kernels.gallop import first_at_least

_GREATEST = 2**63 - 1


@compiled
def nth_neighbours(
    keys: Codes,
    codes: Ints,
    groups: Codes,
    starts: Ints,
    held: Ints,
    weights: Ints,
    nth: int,
    forward: bool,
    found: IntsOut,
) -> None:
    """Find the code of the nth (from 1) held row of each row's key, counted from the row's code (inclusive).

    ``groups`` are the distinct keys of held rows, ascending, and ``starts`` the start of each key's rows, and the end;
    codes are sorted within each group, and rows of weight 0 are removed rows. ``found`` has the farthest code so far,
    and afterwards the nearer of that and the result.

    Two binary searches for each row, and a step for each held row that is passed.
    """
    for row in range(len(keys)):
        key, code = keys[row], codes[row]
        group = first_at_least(groups, np.int64(0), np.int64(len(groups)), key)
        if group == len(groups) or groups[group] != key:
            continue
        first, end = starts[group], starts[group + 1]
        place: Any = end
        if forward:
            place = first_at_least(held, first, end, code)
        elif code < _GREATEST:
            place = first_at_least(held, first, end, code + 1)
        step = np.int64(1 if forward else -1)
        place = place if forward else place - 1
        count = np.int64(0)
        while first <= place < end and (held[place] < found[row] if forward else held[place] > found[row]):
            count += weights[place] != 0
            if count == nth:
                found[row] = held[place]
                break
            place += step
