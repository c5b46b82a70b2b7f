"""Stable radix sort of codes with their rows, by digits of eight bits.

Items are counted by their first digit, then moved to its partition. Both steps work on slices of the input, so threads
share one sort whatever the values; the caller adds up the counts between the steps. Each partition is then sorted by
the other digits, the last one first (Knuth, The Art of Computer Programming 3, 5.2.5), where it fits the caches.

Rows of keys 1, 0 with values 5, 7 have the two-bit offsets 0, 2 from the least value, and the codes 4, 2. Their order
is [1, 0].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, IntsOut, Words, WordsOut
from juncture.kernels.compiled import compiled, inlined

RADIX = 256
"""Number of values of a digit. `move_by_digit` writes to one position per value, and caches can handle this many."""
_DIGITS = 8


@compiled
def pack(keys: Codes, on: Ints, rows: Codes, least: int, bits: int, codes: WordsOut) -> None:
    """Pack key and value of a slice of rows into codes that sort alike.

    ``keys`` and ``on`` are indexed by the row numbers in ``rows``. The low ``bits`` of a code have the value minus
    ``least``; keys must fit in the rest.
    """
    # Values may need all 64 bits if there is a single key, which is 0: any shift keeps it 0.
    shift = np.uint64(min(bits, 63))
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        codes[i] = (np.uint64(keys[row]) << shift) | (np.uint64(on[row]) - np.uint64(least))


@compiled
def unpack(codes: Words, least: int, bits: int, on: IntsOut) -> None:
    """Write the values of codes that `pack` made with the same ``least`` and ``bits``."""
    mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - bits) if bits > 0 else np.uint64(0)
    for i in range(len(codes)):
        on[i] = np.int64((codes[i] & mask) + np.uint64(least))


@compiled
def count_digits(codes: Words, shift: int, counts: IntsOut) -> None:
    """Count each value of the digit at bit ``shift`` in a slice of codes (``counts``, out: `RADIX` counts)."""
    counts[:] = 0
    for i in range(len(codes)):
        counts[np.int64((codes[i] >> np.uint64(shift)) & np.uint64(RADIX - 1))] += 1


@compiled
def move_by_digit(
    codes: Words, rows: Codes, shift: int, offsets: IntsOut, out_codes: WordsOut, out_rows: CodesOut
) -> None:
    """Move each item of a slice to the position of its digit, stably. About 3 ns per item of 12 bytes.

    ``offsets`` are the next output positions of this slice, one per digit value, and are advanced. Each slice has its
    own offsets, so threads fill the output at the same time.
    """
    for i in range(len(codes)):
        digit = np.int64((codes[i] >> np.uint64(shift)) & np.uint64(RADIX - 1))
        position = offsets[digit]
        offsets[digit] = position + 1
        out_codes[position] = codes[i]
        out_rows[position] = rows[i]


@inlined
def _move(
    codes: Any, rows: Any, low: Any, high: Any, shift: Any, counts: Any, out_codes: WordsOut, out_rows: CodesOut
) -> None:
    """Move the items of a partition by the digit whose values are counted, stably."""
    position = low
    for digit in range(RADIX):
        count = counts[digit]
        counts[digit] = position
        position += count
    for i in range(low, high):
        value = np.int64((codes[i] >> shift) & np.uint64(RADIX - 1))
        position = counts[value]
        counts[value] = position + 1
        out_codes[position] = codes[i]
        out_rows[position] = rows[i]


@compiled
def sort_partitions(
    codes: WordsOut,
    rows: CodesOut,
    starts: Ints,
    first: int,
    end: int,
    first_bit: int,
    end_bit: int,
    out_codes: WordsOut,
    out_rows: CodesOut,
) -> None:
    """Sort the items of each of the partitions ``[first, end)`` stably by their bits ``[first_bit, end_bit)``.

    Partition ``p`` has the items ``[starts[p], starts[p + 1])``. Out: the sorted items in ``out_codes`` and
    ``out_rows``; the input is overwritten. About 2 ns per item and digit if a partition fits the second-level cache.
    """
    digits = (end_bit - first_bit + 7) // 8
    counts = np.empty((_DIGITS, RADIX), np.int64)
    for partition in range(first, end):
        low, high = starts[partition], starts[partition + 1]
        counts[:digits] = 0
        for i in range(low, high):
            rest = codes[i] >> np.uint64(first_bit)
            for digit in range(digits):
                counts[digit, np.int64(rest & np.uint64(RADIX - 1))] += 1
                rest >>= np.uint64(8)
        is_moved = False
        for digit in range(digits):
            shift = np.uint64(first_bit + 8 * digit)
            if low == high or counts[digit, np.int64((codes[low] >> shift) & np.uint64(RADIX - 1))] == high - low:
                continue
            if is_moved:
                _move(out_codes, out_rows, low, high, shift, counts[digit], codes, rows)
            else:
                _move(codes, rows, low, high, shift, counts[digit], out_codes, out_rows)
            is_moved = not is_moved
        if not is_moved:
            out_codes[low:high] = codes[low:high]
            out_rows[low:high] = rows[low:high]


@compiled
def is_ascending(codes: Words) -> bool:
    """Return whether codes are sorted, in a pass that ends at the first descent."""
    ascending = True
    for i in range(1, len(codes)):
        if codes[i] < codes[i - 1]:
            ascending = False
            break
    return ascending


@compiled
def mark_runs(on: Ints, starts: Ints, ends: CodesOut) -> int:
    """Write for each position the end of its run of equal values, within its group.

    Group ``g`` is sorted, and has the positions from ``starts[g]`` to before ``starts[g + 1]``. Returns the number of
    positions whose run has two or more values.
    """
    repeated = 0
    for group in range(len(starts) - 1):
        end = starts[group + 1]
        for i in range(starts[group + 1] - 1, starts[group] - 1, -1):
            if i + 1 < starts[group + 1] and on[i] != on[i + 1]:
                end = i + 1
            ends[i] = end
            if end - i > 1 or (i > starts[group] and on[i - 1] == on[i]):
                repeated += 1
    return repeated
