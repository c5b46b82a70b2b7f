"""Hashes of keys, rows brought together by key code, and spans of equal codes in sorted rows."""

from __future__ import annotations

import numpy as np

from juncture.kernels.array_types import Codes, CodesOut, Ints, Words, WordsOut
from juncture.kernels.compiled import compiled
from juncture.kernels.hash_table import EMPTY, mix


@compiled
def hash_integers(values: Ints, hashes: WordsOut) -> None:
    """Hash each integer, no two to the same."""
    for i in range(len(values)):
        hashes[i] = mix(np.uint64(values[i]))


@compiled
def combine_hashes(hashes: WordsOut, others: Words) -> None:
    """Make hashes of two parts of a key into those of both, in place; the order of the parts counts."""
    for i in range(len(hashes)):
        hashes[i] = mix((hashes[i] << np.uint64(1)) + np.uint64(0x9E3779B97F4A7C15) ^ others[i])


@compiled
def count_codes(codes: Codes, counts: CodesOut) -> None:
    """Count the rows of each code, adding to the counts; those with the code `EMPTY` are left out."""
    for i in range(len(codes)):
        if codes[i] != EMPTY:
            counts[codes[i]] += 1


@compiled
def order_by_code(codes: Codes, first: int, places: CodesOut, rows: CodesOut) -> None:
    """List the rows code by code, in their order within each.

    Parameters
    ----------
    codes
        The code of each row.
    first
        The number of the first row.
    places
        Where the first row of each code goes; moved on.
    rows
        Out: the row at each place.

    Notes
    -----
    Reads all codes in order; writes 4 bytes a row to as many places as there are codes.
    """
    for i in range(len(codes)):
        code = codes[i]
        if code != EMPTY:
            rows[places[code]] = first + i
            places[code] += 1


@compiled
def place_by_code(codes: CodesOut, places: CodesOut) -> None:
    """Write the place of each row where rows lie code by code, in their order within each.

    Parameters
    ----------
    codes
        In: the code of each row, none of them `EMPTY`. Out: its place.
    places
        Where the first row of each code goes; moved on.
    """
    for i in range(len(codes)):
        code = codes[i]
        codes[i] = places[code]
        places[code] += 1


@compiled
def spans_of_codes(codes: Codes, starts: Ints, first: CodesOut, end: CodesOut) -> None:
    """Write the span of places of each code; an empty one for `EMPTY`.

    Parameters
    ----------
    codes
        The requested keys.
    starts
        Where each code's places start, and the number of places at the end.
    first, end
        Out: the spans.
    """
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
    """Walk through two sorted lists side by side, and write which span of the second equals each value of the first.

    Parameters
    ----------
    values, rows
        The first list, ascending, and where to write the span of each.
    others
        The second list, ascending.
    first, end
        Out: spans of positions in the second list, empty where there is no equal value.

    Notes
    -----
    O(m + n) for lists of about the same length, O(m log (n / m)) for a second list that is much longer: what lies
    between two values is skipped by steps that double (Bentley and Yao, "An almost optimal algorithm for unbounded
    searching", 1976).
    """
    position = np.int64(0)
    for i in range(len(values)):
        value = values[i]
        if i > 0 and value == values[i - 1]:
            first[rows[i]] = first[rows[i - 1]]
            end[rows[i]] = end[rows[i - 1]]
            continue
        step = np.int64(1)
        low = position
        while low + step < len(others) and others[low + step] < value:
            low += step
            step <<= 1
        high = min(low + step, np.int64(len(others)))
        while low < high:
            middle = (low + high) >> 1
            if others[middle] < value:
                low = middle + 1
            else:
                high = middle
        position = low
        first[rows[i]] = position
        while position < len(others) and others[position] == value:
            position += 1
        end[rows[i]] = position
