"""Hashes of keys, rows grouped by key code, and spans of equal codes in sorted rows.

Rows with the codes 1, 0, 1, and the ascending values 2, 5 beside 1, 2, 2::

    order_by_code  rows [1, 0, 2]
    merge_spans    first [1, 3], end [3, 3]
"""

from __future__ import annotations

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, Words, WordsOut
from juncture.kernels.compiled import compiled
from juncture.kernels.gallop import first_from_start
from juncture.kernels.hash_table import EMPTY, mix


@compiled
def hash_integers(values: Ints, hashes: WordsOut) -> None:
    """Hash integers injectively."""
    for i in range(len(values)):
        hashes[i] = mix(np.uint64(values[i]))


@compiled
def combine_hashes(hashes: WordsOut, others: Words) -> None:
    """Combine the hashes of two parts of keys in place; the order of the parts matters."""
    for i in range(len(hashes)):
        hashes[i] = mix((hashes[i] << np.uint64(1)) + np.uint64(0x9E3779B97F4A7C15) ^ others[i])


@compiled
def count_codes(codes: Codes, counts: CodesOut) -> None:
    """Add the number of rows of each code to ``counts``; `EMPTY` codes are skipped."""
    for i in range(len(codes)):
        if codes[i] != EMPTY:
            counts[codes[i]] += 1


@compiled
def order_by_code(codes: Codes, first: int, positions: CodesOut, rows: CodesOut) -> None:
    """List the rows by code, in their order within each; ``first`` is the number of the first row.

    ``positions`` are the next output positions of the codes, and are advanced. Reads all codes in order, and writes 4
    bytes per row to as many streams as codes.
    """
    for i in range(len(codes)):
        code = codes[i]
        if code != EMPTY:
            rows[positions[code]] = first + i
            positions[code] += 1


@compiled
def row_of_codes(codes: Codes, first: int, rows: CodesOut) -> bool:
    """Write the row of each code, and return whether no code repeats; ``first`` is the number of the first row.

    ``rows`` are `EMPTY` at first. `EMPTY` codes are skipped.
    """
    for i in range(len(codes)):
        code = codes[i]
        if code == EMPTY:
            continue
        if rows[code] != EMPTY:
            return False
        rows[code] = first + i
    return True


@compiled
def spans_of_rows(codes: Codes, rows: Codes, first: CodesOut, end: CodesOut) -> None:
    """Write the row of each code as a span; empty for `EMPTY` and codes without a row."""
    for i in range(len(codes)):
        row = rows[codes[i]] if codes[i] != EMPTY else np.int32(EMPTY)
        first[i] = max(row, np.int32(0))
        end[i] = row + 1


@compiled
def place_by_code(codes: CodesOut, positions: CodesOut) -> None:
    """Replace each row's code, never `EMPTY`, by its position in the order by code.

    ``positions`` are the next positions of the codes, and are advanced.
    """
    for i in range(len(codes)):
        code = codes[i]
        codes[i] = positions[code]
        positions[code] += 1


@compiled
def spans_of_codes(codes: Codes, starts: Ints, first: CodesOut, end: CodesOut) -> None:
    """Write the span of positions of each code, empty for `EMPTY`; ``starts`` ends with the number of positions."""
    for i in range(len(codes)):
        code = codes[i]
        if code == EMPTY:
            first[i] = 0
            end[i] = 0
        else:
            first[i] = starts[code]
            end[i] = starts[code + 1]


@compiled
def merge_spans(values: Ints, rows: Codes, others: Ints, first: CodesOut, end: CodesOut) -> None:
    """Write for each value of an ascending list the span of equal values in another ascending list (``others``).

    The span of value ``i`` goes to ``first[rows[i]]`` and ``end[rows[i]]``, empty without an equal value. O(m + n) for
    lists of similar length, and O(m log (n / m)) for a much longer second list, by doubling steps (Bentley and Yao, "An
    almost optimal algorithm for unbounded searching", 1976).
    """
    position = np.int64(0)
    for i in range(len(values)):
        value = values[i]
        if i > 0 and value == values[i - 1]:
            first[rows[i]] = first[rows[i - 1]]
            end[rows[i]] = end[rows[i - 1]]
            continue
        position = first_from_start(others, position, np.int64(len(others)), value)
        first[rows[i]] = position
        while position < len(others) and others[position] == value:
            position += 1
        end[rows[i]] = position
