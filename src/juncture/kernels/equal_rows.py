"""Rows of one key and code, sorted by a hash of the whole row, so that a search finds a row, in memory or in blocks.

Rows with equal hashes are then compared in place.

Rows of key 0 and code 5 with hashes 3, 8, 8 and weights 1, and a removed row with hash 8::

    find_alike   pairs of row 0 with positions 1 and 2
    share_equal  if only the second pair is equal: position 2 changes by -1

Blocks of stored rows are sorted by key hash, first code and row hash. Searches use the first row of each block. A block
may end with rows before the first row of the next one, and equal rows may be on both sides of an edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Bytes, BytesOut, Codes, CodesOut, Ints, IntsOut, IntTable, Words
from juncture.kernels.compiled import compiled, inlined, subroutine
from juncture.kernels.gallop import first_at_least
from juncture.kernels.intrinsics import word_at
from juncture.kernels.row_bytes import bit_at, edges_at, is_there

_FEW = 24  # up to this number, rows are sorted by insertion

_SIGN = np.uint64(1 << 63)


@inlined
def _sort_by_insertion(hashes: Any, order: Any, first: Any, end: Any) -> Any:
    for position in range(first + 1, end):
        code, row, target = hashes[position], order[position], position
        while target > first and hashes[target - 1] > code:
            hashes[target], order[target] = hashes[target - 1], order[target - 1]
            target -= 1
        hashes[target], order[target] = code, row


@subroutine
def _sort_by_hash(hashes: Any, order: Any, first: Any, end: Any) -> Any:
    """Sort a range of rows by hash. Hashes are spread evenly, so their first bits nearly sort them."""
    count = end - first
    if count > _FEW:
        bits = 1
        while (1 << bits) < count:
            bits += 1
        shift = np.uint64(64 - bits)
        buckets = np.zeros((1 << bits) + 1, np.int32)
        some_hashes, some_rows = hashes[first:end].copy(), order[first:end].copy()
        for row in range(count):
            buckets[np.int64((np.uint64(some_hashes[row]) ^ _SIGN) >> shift) + 1] += 1
        for bucket in range(1, len(buckets)):
            buckets[bucket] += buckets[bucket - 1]
        for row in range(count):
            digit = np.int64((np.uint64(some_hashes[row]) ^ _SIGN) >> shift)
            position = first + buckets[digit]
            buckets[digit] += 1
            hashes[position], order[position] = some_hashes[row], some_rows[row]
    _sort_by_insertion(hashes, order, first, end)


@compiled
def order_ties(keys: Codes, codes: Ints, hashes: IntsOut, order: CodesOut) -> None:
    """Sort rows of one key and first code by hash; ``keys`` and ``codes`` are sorted, ``hashes`` and ``order`` change.

    One pass over distinct rows, and four over tied ones.
    """
    first: Any = np.int64(0)
    for position in range(1, len(order) + 1):
        if position < len(order) and keys[position] == keys[first] and codes[position] == codes[first]:
            continue
        if position - first > 1:
            _sort_by_hash(hashes, order, first, np.int64(position))
        first = position


@compiled
def find_alike(
    keys: Codes,
    codes: IntTable,
    hashes: Ints,
    remaining: Ints,
    groups: Codes,
    starts: Ints,
    stored_codes: IntTable,
    stored_hashes: Ints,
    stored_weights: Ints,
    rows: IntsOut,
    positions: IntsOut,
) -> int:
    """Find the stored rows with the key, first code and hash of rows and a positive weight; return the number of pairs.

    Keys of the rows ascend, and rows with 0 ``remaining`` are skipped. ``groups`` are the distinct keys of stored rows,
    ascending, and ``starts`` the start of each key's rows, and the end; stored rows are sorted by first code and hash
    within a group. Out: pairs of a row and the position of a stored row; pairs beyond the capacity are counted but not
    written.

    Two binary searches for each row, and a step for each match.
    """
    lines = stored_codes.shape[0]
    room, count = len(rows), 0
    group = np.int64(0)
    for row in range(len(keys)):
        if remaining[row] == 0:
            continue
        group = first_at_least(groups, group, np.int64(len(groups)), keys[row])
        if group == len(groups):
            break
        if groups[group] != keys[row]:
            continue
        low, high = starts[group], starts[group + 1]
        end = high
        while low < high:
            middle = (low + high) >> 1
            same = lines == 0 or stored_codes[0, middle] == codes[0, row]
            if (same and stored_hashes[middle] < hashes[row]) or (not same and stored_codes[0, middle] < codes[0, row]):
                low = middle + 1
            else:
                high = middle
        while low < end and stored_hashes[low] == hashes[row] and (lines == 0 or stored_codes[0, low] == codes[0, row]):
            if stored_weights[low] > 0:
                if count < room:
                    rows[count], positions[count] = row, low
                count += 1
            low += 1
    return count


@compiled
def share_equal(
    rows: IntsOut,
    positions: IntsOut,
    same: Bytes,
    weights: Ints,
    stored_weights: Ints,
    remaining: IntsOut,
    changes: IntsOut,
) -> int:
    """Distribute the weight changes of rows over the stored rows that equal them; return the number of changes.

    ``rows`` and ``positions`` are pairs of a row and the position of a stored row, and afterwards those that change;
    ``same`` is which of them are equal, and no stored row is equal to two rows. ``remaining`` is the part of each row's
    change that is not yet assigned. Out: ``changes``, the weight change of each stored row; no weight becomes negative.
    """
    count = 0
    for pair in range(len(same)):
        row, position = rows[pair], positions[pair]
        if same[pair] == 0 or remaining[row] == 0:
            continue
        change = remaining[row]
        if weights[row] < 0:
            change = min(change, stored_weights[position])
        remaining[row] -= change
        rows[count], positions[count], changes[count] = row, position, change if weights[row] > 0 else -change
        count += 1
    return count


@inlined
def _are_same_bytes(one: Any, first: Any, other: Any, second: Any, count: Any) -> Any:
    """Return whether two ranges of bytes are equal."""
    position = np.int64(0)
    while position + 8 <= count:
        if word_at(one, np.uint64(first + position)) != word_at(other, np.uint64(second + position)):
            return False
        position += 8
    while position < count:
        if one[first + position] != other[second + position]:
            return False
        position += 1
    return True


@compiled
def keep_equal(
    first: int,
    valid: Bytes,
    values: Bytes,
    edges: Bytes,
    rows: Ints,
    other_first: int,
    other_valid: Bytes,
    others: Bytes,
    other_edges: Bytes,
    positions: Ints,
    width: int,
    edge_width: int,
    same: BytesOut,
) -> None:
    """Compare values of rows with others at some positions, and clear ``same`` where they differ.

    Row ``i`` is the one at ``first + i``: its validity bit (an empty array if all are valid), and its bytes. ``width``
    is the bytes of a value, and 0 for a bit. Texts have offsets of ``edge_width`` bytes, 4 or 8, in ``edges``; it is 0
    for other values. The other rows at ``positions`` have the same form. Rows whose ``same`` is 0 are skipped.
    """
    for i in range(len(rows)):
        if same[i] == 0:
            continue
        one, other = first + rows[i], other_first + positions[i]
        here, there = is_there(valid, one), is_there(other_valid, other)
        if here != there:
            same[i] = 0
        elif here and edge_width != 0:
            begin, end = edges_at(edges, one, edge_width)
            other_begin, other_end = edges_at(other_edges, other, edge_width)
            is_long = end - begin == other_end - other_begin
            same[i] = is_long and _are_same_bytes(values, begin, others, other_begin, end - begin)
        elif here and width == 0:
            same[i] = bit_at(values, one) == bit_at(others, other)
        elif here:
            same[i] = _are_same_bytes(values, one * width, others, other * width, width)


@inlined
def _is_before(key_hash: Any, code: Any, row_hash: Any, other_key: Any, other_code: Any, other_row: Any) -> Any:
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
    blocks: IntsOut,
) -> None:
    """Find the last block whose first row comes before each row, or -1 (``blocks``). A binary search for each row."""
    for row in range(len(hashes)):
        blocks[row] = _block_before(block_hashes, block_codes, block_rows, hashes[row], codes[row], rows[row])


@compiled
def mark_rows(hashes: Words, query_hashes: Words, chosen: BytesOut) -> None:
    """Write whether each row's key hash is among ``query_hashes``; both are ascending. One pass over both."""
    query = np.int64(0)
    for row in range(len(hashes)):
        while query < len(query_hashes) and query_hashes[query] < hashes[row]:
            query += 1
        chosen[row] = query < len(query_hashes) and query_hashes[query] == hashes[row]
