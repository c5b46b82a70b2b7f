"""The rows before and after a position in their order, skipping removed rows."""

from __future__ import annotations

import numpy as np

from juncture.kernels.array_types import Codes, Ints, IntsOut
from juncture.kernels.compiled import compiled


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
        low, high = np.int64(0), np.int64(len(groups))
        while low < high:
            middle = (low + high) >> 1
            if groups[middle] < key:
                low = middle + 1
            else:
                high = middle
        if low == len(groups) or groups[low] != key:
            continue
        first, end = starts[low], starts[low + 1]
        low, high = first, end
        while low < high:
            middle = (low + high) >> 1
            if held[middle] < code or (not forward and held[middle] == code):
                low = middle + 1
            else:
                high = middle
        seen = np.int64(0)
        if forward:
            for place in range(low, end):
                if held[place] >= found[row]:
                    break
                if weights[place] != 0:
                    seen += 1
                    if seen == nth:
                        found[row] = held[place]
                        break
        else:
            for place in range(low - 1, first - 1, -1):
                if held[place] <= found[row]:
                    break
                if weights[place] != 0:
                    seen += 1
                    if seen == nth:
                        found[row] = held[place]
                        break
