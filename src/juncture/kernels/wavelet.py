"""The nth least value of a span of positions, and the number of values below a limit, for unsorted values.

A *wavelet matrix* (Claude, Navarro and Ordóñez, "The wavelet matrix: an efficient wavelet tree for large alphabets",
2015) has a level for each bit of the codes, from the highest. A level has that bit of all codes, and moves codes with a
zero before those with a one, stably, so that a span of one level is a span of each part of the next.

Of the codes 2, 0, 3, 1, the span [0, 3) has 2 at position 1 of its order, and two codes below 3. The first level moves
the codes into the order 0, 1, 2, 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, Words, WordsOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import bit_count

WORD_BITS = 64
"""Number of bits of a word of a level."""


@compiled
def build_levels(codes: CodesOut, other: CodesOut, bits: WordsOut, ones: CodesOut, zeros: IntsOut) -> None:
    """Fill all levels. Some 4 ns for each code and level.

    Codes are not negative; they and the buffer ``other`` of the same size are overwritten. Out: the ``bits`` of all
    levels in sequence, initially zero, with ``ones`` before each word in its level, one word more per level than its
    bits fill; and the number of ``zeros`` of each level, one for each bit of the codes.
    """
    levels, rows = len(zeros), len(codes)
    words = len(bits) // max(levels, 1)
    for level in range(levels):
        shift, start, count = np.int32(levels - 1 - level), level * words, 0
        for i in range(rows):
            if (codes[i] >> shift) & np.int32(1):
                bits[start + (i >> 6)] |= np.uint64(1) << np.uint64(i & 63)
            else:
                count += 1
        zeros[level] = count
        before = 0
        for word in range(start, start + words):
            ones[word] = before
            before += bit_count(np.int64(bits[word]))
        low, high = 0, count
        for i in range(rows):
            if (codes[i] >> shift) & np.int32(1):
                other[high] = codes[i]
                high += 1
            else:
                other[low] = codes[i]
                low += 1
        codes, other = other, codes


@inlined
def _ones_before(bits: Any, ones: Any, start: Any, position: Any) -> Any:
    """Return the number of ones of a level before a position."""
    word = start + (position >> 6)
    below = (np.uint64(1) << np.uint64(position & 63)) - np.uint64(1)
    return np.int64(ones[word]) + bit_count(np.int64(bits[word] & below))


@compiled
def find_nth(first: Codes, end: Codes, wanted: Ints, bits: Words, ones: Codes, zeros: Ints, codes: CodesOut) -> None:
    """Find the code at the position ``wanted``, from 0, of each sorted span; -1 if the span is shorter. O(levels)."""
    levels = len(zeros)
    words = len(bits) // max(levels, 1)
    for row in range(len(first)):
        start, stop, rank = np.int64(first[row]), np.int64(end[row]), wanted[row]
        if rank < 0 or rank >= stop - start:
            codes[row] = -1
            continue
        code = np.int64(0)
        for level in range(levels):
            base = level * words
            ones_first = _ones_before(bits, ones, base, start)
            ones_end = _ones_before(bits, ones, base, stop)
            zeros_here = (stop - ones_end) - (start - ones_first)
            code <<= 1
            if rank < zeros_here:
                start, stop = start - ones_first, stop - ones_end
            else:
                rank -= zeros_here
                code |= 1
                start, stop = zeros[level] + ones_first, zeros[level] + ones_end
        codes[row] = code


@compiled
def count_below(first: Codes, end: Codes, limits: Ints, bits: Words, ones: Codes, zeros: Ints, counts: IntsOut) -> None:
    """Add the number of codes of each span below a limit to ``counts``; limits have at most as many bits as levels."""
    levels = len(zeros)
    words = len(bits) // max(levels, 1)
    for row in range(len(first)):
        start, stop, limit, count = np.int64(first[row]), np.int64(end[row]), limits[row], np.int64(0)
        for level in range(levels):
            if start >= stop:
                break
            base = level * words
            ones_first = _ones_before(bits, ones, base, start)
            ones_end = _ones_before(bits, ones, base, stop)
            if (limit >> np.int64(levels - 1 - level)) & 1:
                count += (stop - ones_end) - (start - ones_first)
                start, stop = zeros[level] + ones_first, zeros[level] + ones_end
            else:
                start, stop = start - ones_first, stop - ones_end
        counts[row] += count
