"""Rows in blocks, sorted by key hash, first code and row hash: the blocks and rows to read.

Searches use the first row of each block. A block may end with rows before the first row of the next one, and equal rows
may be on both sides of an edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import BytesOut, Ints, IntsOut, IntTable, Words
from juncture.kernels.compiled import compiled, inlined


@inlined
def _is_before(key_hash: Any, code: Any, row_hash: Any, other_key: Any, other_code: Any, other_row: Any) -> Any:
    """Return whether one row comes before another."""
    if key_hash != other_key:
        return key_hash < other_key
    if code != other_code:
        return code < other_code
    return row_hash < other_row


@inlined
def _block_before(block_hashes: Any, block_codes: Any, block_rows: Any, key_hash: Any, code: Any, row_hash: Any) -> Any:
    """Return the last block whose first row comes before a row, or -1."""
    first, end = np.int64(0), np.int64(len(block_hashes))
    while first < end:
        middle = (first + end) >> 1
        if _is_before(block_hashes[middle], block_codes[middle], block_rows[middle], key_hash, code, row_hash):
            first = middle + 1
        else:
            end = middle
    return first - 1


@compiled
def mark_blocks(
    hashes: Words,
    low: Ints,
    low_rows: Ints,
    high: Ints,
    high_rows: Ints,
    others: IntTable,
    block_hashes: Words,
    block_codes: Ints,
    block_rows: Ints,
    most: IntTable,
    needed: BytesOut,
) -> None:
    """Mark the blocks that may have rows between two limits with 1 in ``needed``.

    A query has a key hash, the least and the greatest first code with the row hash that breaks ties, and in ``others``
    the least matching code for each further line of codes. ``block_hashes``, ``block_codes`` and ``block_rows`` are the
    first row of each block; ``most`` has the greatest code of each block for each further line.

    A binary search for each query, and a step for each block between its limits.
    """
    blocks = len(block_hashes)
    for row in range(len(hashes)):
        block = max(_block_before(block_hashes, block_codes, block_rows, hashes[row], low[row], low_rows[row]), 0)
        while block < blocks:
            if _is_before(
                hashes[row], high[row], high_rows[row], block_hashes[block], block_codes[block], block_rows[block]
            ):
                break
            if needed[block] == 0:
                wanted = True
                for line in range(others.shape[0]):
                    wanted = wanted and most[line, block] >= others[line, row]
                if wanted:
                    needed[block] = 1
            block += 1


@compiled
def blocks_before(
    hashes: Words,
    codes: Ints,
    rows: Ints,
    block_hashes: Words,
    block_codes: Ints,
    block_rows: Ints,
    found: IntsOut,
) -> None:
    """Find the last block whose first row comes before each row, or -1 (``found``). A binary search for each row."""
    for row in range(len(hashes)):
        found[row] = _block_before(block_hashes, block_codes, block_rows, hashes[row], codes[row], rows[row])


@compiled
def mark_rows(hashes: Words, sought: Words, chosen: BytesOut) -> None:
    """Write whether each row's key hash is among ``sought``; both are ascending. One pass over both."""
    place = np.int64(0)
    for row in range(len(hashes)):
        while place < len(sought) and sought[place] < hashes[row]:
            place += 1
        chosen[row] = place < len(sought) and sought[place] == hashes[row]
