"""Bring pointers into the order of the parts that hold their rows, so that each is read once; copy rows to places."""

from __future__ import annotations

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, Words, WordsOut
from juncture.kernels.compiled import compiled


@compiled
def count_parts(pointers: Ints, bounds: Ints, firsts: Codes, shift: int, parts: CodesOut, counts: IntsOut) -> None:
    """Find the part of each pointer, and count the pointers of each part.

    Parameters
    ----------
    pointers
        Row numbers; negative ones point nowhere.
    bounds
        Ascending: part ``p`` holds the rows ``bounds[p] <= row < bounds[p + 1]``.
    firsts, shift
        The part of each row ``i << shift``, up to one beyond the last row.
    parts
        Out: the part of each pointer, -1 for nowhere.
    counts
        Out: pointers into each part, added to.

    Notes
    -----
    A look at ``firsts``, and a binary search where several parts begin between two of its rows.
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
def order_by_part(parts: Codes, first: int, offsets: IntsOut, positions: CodesOut) -> None:
    """List the positions of the pointers part by part, keeping their order within each.

    Parameters
    ----------
    parts
        The part of each pointer of a slice.
    first
        The position of the slice's first pointer.
    offsets
        Where the first pointer of each part goes; moved on.
    positions
        Out: the positions.
    """
    for i in range(len(parts)):
        part = parts[i]
        if part >= 0:
            positions[offsets[part]] = first + i
            offsets[part] += 1


@compiled
def scatter_words(values: Words, rows: Codes, places: Codes, targets: WordsOut) -> None:
    """Copy values of some rows to their places.

    Parameters
    ----------
    values
        The values.
    rows, places
        Which of them, and where each goes.
    targets
        Out: the values at their places.
    """
    for i in range(len(rows)):
        targets[places[i]] = values[rows[i]]
