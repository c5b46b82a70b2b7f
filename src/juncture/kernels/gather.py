"""Count pointers by the part that has their rows, so that each part is read once; scatter values.

Pointers 5, 0, 4, -1 into two parts of three rows each::

    count_parts  parts [1, 0, 1, -1], counts [1, 2]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, Words, WordsOut
from juncture.kernels.compiled import compiled, inlined


@compiled
def count_parts(pointers: Ints, bounds: Ints, firsts: Codes, shift: int, parts: CodesOut, counts: IntsOut) -> None:
    """Find the part of each pointer (-1 for none), and add the pointers of each part to ``counts``.

    A pointer is a row number, negative for none. Part ``p`` has the rows ``bounds[p] <= row < bounds[p + 1]``, and
    ``firsts`` has the part of each row ``i << shift``, up to one beyond the last row.

    One read of ``firsts``, and a binary search where several parts begin between two of its rows.
    """
    for i in range(len(pointers)):
        pointer = pointers[i]
        if pointer < 0:
            parts[i] = -1
            continue
        cell = np.uint64(pointer >> shift)
        low = np.int64(firsts[cell])
        span = np.int64(firsts[cell + np.uint64(1)]) - low + 1
        while span > 1:
            half = span >> 1
            low += half & -np.int64(bounds[low + half] <= pointer)
            span -= half
        parts[i] = low
        counts[low] += 1


@compiled
def scatter_words(values: Words, rows: Codes, positions: Codes, targets: WordsOut) -> None:
    """Copy the values of some rows to their positions in ``targets``."""
    for i in range(len(rows)):
        targets[positions[i]] = values[rows[i]]


@compiled
def scatter_pointed(values: Words, pointers: Ints, first: int, positions: Codes, targets: WordsOut) -> None:
    """Copy the values that the pointers at some positions name to these positions of ``targets``.

    The pointer of the first value is ``first``.
    """
    for i in range(len(positions)):
        position = np.uint64(positions[i])
        targets[position] = values[pointers[position] - first]


@compiled
def take_words(values: Words, rows: Ints, targets: WordsOut) -> int:
    """Copy the values that pointers name, and return how many pointers are negative, whose targets become 0."""
    return _take(values, rows, targets)


@compiled
def take_words_at(values: Words, rows: Codes, targets: WordsOut) -> int:
    """Copy values as `take_words` does, by row numbers of 32 bits."""
    return _take(values, rows, targets)


@inlined
def _take(values: Any, rows: Any, targets: Any) -> int:
    missing = 0
    for i in range(len(rows)):
        row = rows[i]
        missing += row < 0
        targets[i] = values[row] if row >= 0 else np.uint64(0)
    return missing
