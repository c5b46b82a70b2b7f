"""Aggregates over spans of sorted positions, or over pairs as they are made, without materializing matches.

Integers are summed in 128 bits, as running sums, so a span is one difference. Floats are summed in *double-double*
arithmetic (Dekker, "A floating-point technique for extending the available precision", 1971): each number is an
unevaluated sum of two floats, so results do not depend on the order of rows. Their spans are combined from a tree of
blocks of `WINDOW`, of blocks of blocks and so on, as are those of maxima.

Values 1, 2, 3, 4 have the running sums 0, 1, 3, 6, 10, so the span [1, 3) adds up to 6 - 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, FloatTableOut, Ints, IntsOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import WINDOW

SUM_WORDS, SPREAD_WORDS, WIDE_SPREAD_WORDS = 2, 5, 6
"""The number of words of each kind of total."""
LEAST_EXPONENT = -10_000
"""The exponent of a sum of squares that is zero."""


@inlined
def _carry(low: Any, added: Any) -> Any:
    """Return 1 if adding to the lower half of a 128-bit number overflowed, from the sum and the addend."""
    return np.int64(np.uint64(low) < np.uint64(added))


@compiled
def running_sums(values: Ints, high: IntsOut, low: IntsOut) -> None:
    """Write the 128-bit sums of all values before each position, and of all values at the end."""
    high[0] = 0
    low[0] = 0
    for i in range(len(values)):
        low[i + 1] = low[i] + values[i]
        high[i + 1] = high[i] + (values[i] >> np.int64(63)) + _carry(low[i + 1], values[i])


@compiled
def add_span_sums(first: Codes, end: Codes, high: Ints, low: Ints, out_high: IntsOut, out_low: IntsOut) -> None:
    """Add the sum of each row's span, from `running_sums`, to ``out_high`` and ``out_low``.

    ``high`` is empty if all running sums fit 64 bits.
    """
    is_narrow = len(high) == 0
    for row in range(len(first)):
        start, stop = first[row], end[row]
        if start >= stop:
            continue
        difference = low[stop] - low[start]
        if is_narrow:
            rest = difference >> np.int64(63)
        else:
            rest = high[stop] - high[start] - np.int64(np.uint64(low[stop]) < np.uint64(low[start]))
        out_low[row] += difference
        out_high[row] += rest + _carry(out_low[row], difference)


@compiled
def add_pair_sums(rows: Codes, positions: Codes, values: Ints, out_high: IntsOut, out_low: IntsOut) -> None:
    """Add the value at each pair's position to the sum of its row."""
    for i in range(len(rows)):
        row, value = rows[i], values[positions[i]]
        out_low[row] += value
        out_high[row] += (value >> np.int64(63)) + _carry(out_low[row], value)


@inlined
def _sum(high: Any, low: Any, more_high: Any, more_low: Any) -> Any:
    """Return the sum of two double-double numbers."""
    total = high + more_high
    if not np.isfinite(total):
        return total, 0.0
    part = total - high
    rest = (high - (total - part)) + (more_high - part) + (low + more_low)
    settled = total + rest
    return settled, rest - (settled - total)


@inlined
def _product(one: Any, other: Any) -> Any:
    """Return the product of two floats as a double-double number (Veltkamp's and Dekker's)."""
    product = one * other
    wide = one * 134217729.0
    one_high = wide - (wide - one)
    one_low = one - one_high
    wide = other * 134217729.0
    other_high = wide - (wide - other)
    other_low = other - other_high
    rest = ((one_high * other_high - product) + one_high * other_low + one_low * other_high) + one_low * other_low
    return product, rest


@inlined
def _quotient(high: Any, low: Any, number: Any) -> Any:
    """Return a double-double number divided by a float."""
    quotient = high / number
    if not abs(quotient) < 1e300:
        return quotient, 0.0
    product, rest = _product(quotient, number)
    return quotient, ((high - product) - rest + low) / number


@inlined
def _spread(distance: Any, rest: Any, weight: Any) -> Any:
    """Return the weighted square of a double-double number."""
    spread = distance * distance * weight
    if not np.isfinite(distance):
        return np.nan, 0.0
    if not np.isfinite(spread):
        return spread, 0.0
    square, square_rest = _product(distance, distance)
    square_rest += 2.0 * distance * rest
    spread, spread_rest = _product(square, weight)
    return spread, spread_rest + square_rest * weight


@inlined
def _scaled(number: Any, exponent: Any) -> Any:
    """Return a number times a power of four."""
    return np.ldexp(number, 2 * exponent)


@inlined
def _add_spread(
    table: Any, row: Any, distance: Any, rest: Any, weight: Any, high: Any, low: Any, exponent: Any
) -> None:
    """Add two spreads to a row's: one from the distance of two means, and one with its own power of four."""
    own_exponent = np.int64(table[row, 5]) if table[row, 3] != 0.0 else np.int64(LEAST_EXPONENT)
    added_exponent = np.int64(exponent) if high != 0.0 else np.int64(LEAST_EXPONENT)
    between = np.int64(LEAST_EXPONENT)
    if distance != 0.0 and np.isfinite(distance):
        between = np.int64(math.frexp(distance)[1])
    most = max(own_exponent, added_exponent, between)
    distance, rest = np.ldexp(distance, -most), np.ldexp(rest, -most)
    spread, spread_rest = _spread(distance, rest, weight)
    high, low = _sum(
        _scaled(table[row, 3], own_exponent - most),
        _scaled(table[row, 4], own_exponent - most),
        _scaled(high, added_exponent - most),
        _scaled(low, added_exponent - most),
    )
    high, low = _sum(high, low, spread, spread_rest)
    table[row, 3] = high
    table[row, 4] = low
    table[row, 5] = most


@inlined
def _include(table: Any, row: Any, other: Any, node: Any) -> None:
    """Add a total to a row's: a sum of two words, or (count, sum, sum of squared distances from the mean).

    The latter are combined by Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances" (1979): sums of squares would cancel.
    """
    if table.shape[1] == SUM_WORDS:
        high, low = _sum(table[row, 0], table[row, 1], other[node, 0], other[node, 1])
        table[row, 0] = high
        table[row, 1] = low
        return
    own_count, added_count = table[row, 0], other[node, 0]
    if added_count == 0:
        return
    if own_count == 0:
        for word in range(table.shape[1]):
            table[row, word] = other[node, word]
        return
    mean, mean_rest = _quotient(table[row, 1], table[row, 2], own_count)
    added_mean, added_rest = _quotient(other[node, 1], other[node, 2], added_count)
    distance, rest = _sum(added_mean, added_rest, -mean, -mean_rest)
    if np.isfinite(distance) and abs(distance) <= max(abs(mean), abs(added_mean)) * 2.0**-98:
        # Different means are never this close: the difference is the rounding error of equal means.
        distance, rest = 0.0, 0.0
    weight = own_count * added_count / (own_count + added_count)
    if table.shape[1] == WIDE_SPREAD_WORDS:
        _add_spread(table, row, distance, rest, weight, other[node, 3], other[node, 4], other[node, 5])
    else:
        spread, spread_rest = _spread(distance, rest, weight)
        high, low = _sum(table[row, 3], table[row, 4], other[node, 3], other[node, 4])
        high, low = _sum(high, low, spread, spread_rest)
        table[row, 3] = high
        table[row, 4] = low
    high, low = _sum(table[row, 1], table[row, 2], other[node, 1], other[node, 2])
    table[row, 0] = own_count + added_count
    table[row, 1] = high
    table[row, 2] = low


@compiled
def build_totals(tree: FloatTableOut, below: int, above: int, first: int, end: int) -> None:
    """Fill the nodes ``[first, end)`` of the level at ``above`` with the totals of the nodes at ``below``.

    ``tree[node, word]`` has all levels in sequence, each padded with zeros to a multiple of `WINDOW`. `SUM_WORDS` are a
    double-double sum. `SPREAD_WORDS` are a count, a sum, and a sum of squared distances; `WIDE_SPREAD_WORDS` add the
    power of four that scales the latter.
    """
    for node in range(first, end):
        for child in range(below + node * WINDOW, below + (node + 1) * WINDOW):
            _include(tree, above + node, tree, child)


@compiled
def add_span_totals(first: Codes, end: Codes, tree: FloatTableOut, levels: Ints, totals: FloatTableOut) -> None:
    """Add the total of each row's span to ``totals[row, word]``.

    ``levels`` are the starts of the tree's levels, with its length at the end. O(log n): some 5 ns for each of at most
    30 nodes per level.
    """
    for row in range(len(first)):
        start, stop, level = np.int64(first[row]), np.int64(end[row]), 0
        while start < stop:
            base = levels[level]
            lone = stop - start <= WINDOW or level == len(levels) - 2
            left_end = stop if lone else min(stop, (start + WINDOW - 1) // WINDOW * WINDOW)
            right_start = stop if lone else max(left_end, stop // WINDOW * WINDOW)
            for node in range(start, left_end):
                _include(totals, row, tree, base + node)
            for node in range(right_start, stop):
                _include(totals, row, tree, base + node)
            start = left_end // WINDOW
            stop = right_start // WINDOW if not lone else start
            level += 1


@compiled
def add_pair_totals(rows: Codes, positions: Codes, leaves: FloatTableOut, totals: FloatTableOut) -> None:
    """Add the numbers at each pair's position to the totals of its row."""
    if leaves.shape[1] != SUM_WORDS:
        for i in range(len(rows)):
            _include(totals, np.int64(rows[i]), leaves, np.int64(positions[i]))
        return
    i = 0
    while i < len(rows):
        row = rows[i]
        high, low = totals[row, 0], totals[row, 1]
        while i < len(rows) and rows[i] == row:
            high, low = _sum(high, low, leaves[positions[i], 0], leaves[positions[i], 1])
            i += 1
        totals[row, 0] = high
        totals[row, 1] = low


@compiled
def add_greatest_of_spans(
    first: Codes, end: Codes, tree: Ints, levels: Ints, greatest: IntsOut, positions: CodesOut
) -> None:
    """Update each row's greatest code and its position (-1 for none) by the codes of its span.

    ``tree`` has the codes with the greatest of each block (`juncture.kernels.band.build_level`). O(log n): at most
    30 comparisons per level, and 16 to descend.
    """
    for row in range(len(first)):
        start, stop, level = np.int64(first[row]), np.int64(end[row]), 0
        best, best_level, best_node = greatest[row], -1, np.int64(-1)
        none = positions[row] < 0
        while start < stop:
            base = levels[level]
            lone = stop - start <= WINDOW or level == len(levels) - 2
            left_end = stop if lone else min(stop, (start + WINDOW - 1) // WINDOW * WINDOW)
            right_start = stop if lone else max(left_end, stop // WINDOW * WINDOW)
            for side in range(2):
                for node in range(start if side == 0 else right_start, left_end if side == 0 else stop):
                    if none or tree[base + node] > best:
                        best, best_level, best_node, none = tree[base + node], level, np.int64(node), False
            start = left_end // WINDOW
            stop = right_start // WINDOW if not lone else start
            level += 1
        if best_level < 0:
            continue
        while best_level > 0:
            best_level -= 1
            best_node *= WINDOW
            while tree[levels[best_level] + best_node] != best:
                best_node += 1
        greatest[row] = best
        positions[row] = best_node


@compiled
def add_greatest_of_pairs(rows: Codes, right_rows: Codes, codes: Ints, greatest: IntsOut, positions: CodesOut) -> None:
    """Update each row's greatest code and its position by the codes of its pairs."""
    for i in range(len(rows)):
        row, code = rows[i], codes[right_rows[i]]
        if positions[row] < 0 or code > greatest[row]:
            greatest[row] = code
            positions[row] = right_rows[i]
