"""Hash tables that give each distinct key a dense code: of integers, and of byte strings.

Both are open addressing with linear probing over a power of two of slots. A table never holds more than half of its
slots; the kernels that add keys stop when it is full, and the caller goes on with a larger one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from juncture.kernels.compiled import (
    compiled,
    inlined,
    int32s,
    int32s_in,
    int64,
    int64s,
    int64s_in,
    uint8s,
    uint8s_in,
    uint64s,
    uint64s_in,
    void,
)
from juncture.kernels.intrinsics import prefetch, word_at

__all__ = [
    "EMPTY",
    "add_bytes",
    "add_integers",
    "find_bytes",
    "find_integers",
    "hash_bytes",
    "map_codes",
    "mix",
    "rehash",
]

EMPTY = -1
"""The code in a slot without a key, and of a row without one."""

BLOCK = 64
"""How many rows are looked up together."""

AHEAD = 16
"""How many rows ahead the slot of a key is asked for."""

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


@inlined
def mix(value: Any) -> Any:
    """Spread a key over all bits, no two keys to the same (the finalizer of MurmurHash3)."""
    value = np.uint64(value)
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xC4CEB9FE1A85EC53)
    value ^= value >> np.uint64(33)
    return value


@inlined
def _hash(data: Bytes, first: int, end: int) -> Any:
    """Hash a byte string, eight bytes at a time; the length is part of it."""
    state = np.uint64(end - first) * np.uint64(0x9E3779B97F4A7C15)
    position = first
    while position + 8 <= end:
        state = (mix(state ^ word_at(data, np.uint64(position))) << np.uint64(1)) + np.uint64(0x9E3779B97F4A7C15)
        position += 8
    tail = np.uint64(0)
    while position < end:
        tail = (tail << np.uint64(8)) | np.uint64(data[position])
        position += 1
    return mix(state ^ tail)


@compiled(int64(int64s_in, int64, uint64s, int32s, int64, int32s))
def add_integers(values: Ints, first: int, slot_hashes: Words, slot_codes: Codes, count: int, codes: Codes) -> int:
    """Give each integer its code, a new one if it is new.

    Parameters
    ----------
    values
        The keys.
    first
        Where to start.
    slot_hashes, slot_codes
        The table. It holds hashes instead of keys, because no two integers have the same.
    count
        How many keys it has.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes.

    Returns
    -------
    int
        Where it stopped because the table is half full, or the number of values. The keys that it has by then are
        one more than the greatest code.
    """
    mask = len(slot_codes) - 1
    for i in range(first, len(values)):
        if i + AHEAD < len(values):
            prefetch(slot_hashes, mix(values[i + AHEAD]) & np.uint64(mask))
            prefetch(slot_codes, mix(values[i + AHEAD]) & np.uint64(mask))
        if codes[i] == EMPTY:
            continue
        hashed = mix(values[i])
        slot = np.int64(hashed & np.uint64(mask))
        while slot_codes[slot] != EMPTY and slot_hashes[slot] != hashed:
            slot = (slot + 1) & mask
        if slot_codes[slot] == EMPTY:
            if 2 * count >= len(slot_codes):
                return i
            slot_hashes[slot] = hashed
            slot_codes[slot] = count
            count += 1
        codes[i] = slot_codes[slot]
    return len(values)


@compiled(void(int64s_in, uint64s_in, int32s_in, int32s))
def find_integers(values: Ints, slot_hashes: Words, slot_codes: Codes, codes: Codes) -> None:
    """Look up the code of each integer.

    Parameters
    ----------
    values, slot_hashes, slot_codes
        The keys and the table.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes, `EMPTY` if unknown.
    """
    mask = np.uint64(len(slot_codes) - 1)
    hashes = np.empty(BLOCK, np.uint64)
    for block in range(0, len(values), BLOCK):
        size = min(BLOCK, len(values) - block)
        # Asked for together, so that cache misses overlap.
        for i in range(size):
            hashes[i] = mix(values[block + i])
            prefetch(slot_hashes, hashes[i] & mask)
            prefetch(slot_codes, hashes[i] & mask)
        for i in range(size):
            if codes[block + i] == EMPTY:
                continue
            slot = np.uint64(hashes[i] & mask)
            while slot_codes[slot] != EMPTY and slot_hashes[slot] != hashes[i]:
                slot = (slot + np.uint64(1)) & mask
            codes[block + i] = slot_codes[slot]


@compiled(void(int64s_in, uint8s_in, uint64s))
def hash_bytes(offsets: Ints, data: Bytes, hashes: Words) -> None:
    """Hash each byte string ``data[offsets[i] : offsets[i + 1]]``."""
    for i in range(len(hashes)):
        hashes[i] = _hash(data, offsets[i], offsets[i + 1])


@inlined
def _equal(one: Bytes, first: int, end: int, other: Bytes, other_first: int, other_end: int) -> bool:
    if end - first != other_end - other_first:
        return False
    while first + 8 <= end:
        if word_at(one, np.uint64(first)) != word_at(other, np.uint64(other_first)):
            return False
        first += 8
        other_first += 8
    while first < end:
        if one[first] != other[other_first]:
            return False
        first += 1
        other_first += 1
    return True


@inlined
def _slot_of(
    hashed: Any,
    data: Bytes,
    first: int,
    end: int,
    slot_hashes: Words,
    slot_codes: Codes,
    known_offsets: Ints,
    known: Bytes,
) -> Any:
    """Return the slot that holds a byte string, or the empty one where it would go."""
    mask = len(slot_codes) - 1
    slot = np.int64(hashed & np.uint64(mask))
    while slot_codes[slot] != EMPTY:
        if slot_hashes[slot] == hashed:
            code = slot_codes[slot]
            if _equal(data, first, end, known, known_offsets[code], known_offsets[code + 1]):
                break
        slot = (slot + 1) & mask
    return slot


@compiled(int64(int64s_in, uint8s_in, uint64s_in, int64, uint64s, int32s, int64s, uint8s, int64, int32s))
def add_bytes(
    offsets: Ints,
    data: Bytes,
    hashes: Words,
    first: int,
    slot_hashes: Words,
    slot_codes: Codes,
    known_offsets: Ints,
    known: Bytes,
    count: int,
    codes: Codes,
) -> int:
    """Give each byte string its code, a new one if it is new.

    Parameters
    ----------
    offsets, data, hashes
        The keys and their hashes.
    first
        Where to start.
    slot_hashes, slot_codes
        The table.
    known_offsets, known
        The keys that it has, by code.
    count
        How many.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes.

    Returns
    -------
    int
        Where it stopped because the table is half full or ``known`` has no room, or the number of values.
    """
    mask = np.uint64(len(slot_codes) - 1)
    for i in range(first, len(hashes)):
        if i + AHEAD < len(hashes):
            prefetch(slot_hashes, hashes[i + AHEAD] & mask)
            prefetch(slot_codes, hashes[i + AHEAD] & mask)
        if codes[i] == EMPTY:
            continue
        slot = _slot_of(hashes[i], data, offsets[i], offsets[i + 1], slot_hashes, slot_codes, known_offsets, known)
        if slot_codes[slot] == EMPTY:
            length = offsets[i + 1] - offsets[i]
            place = known_offsets[count]
            if 2 * count >= len(slot_codes) or place + length > len(known):
                return i
            known[place : place + length] = data[offsets[i] : offsets[i + 1]]
            known_offsets[count + 1] = place + length
            slot_hashes[slot] = hashes[i]
            slot_codes[slot] = count
            count += 1
        codes[i] = slot_codes[slot]
    return len(hashes)


@compiled(void(int64s_in, uint8s_in, uint64s_in, uint64s_in, int32s_in, int64s_in, uint8s_in, int32s))
def find_bytes(
    offsets: Ints,
    data: Bytes,
    hashes: Words,
    slot_hashes: Words,
    slot_codes: Codes,
    known_offsets: Ints,
    known: Bytes,
    codes: Codes,
) -> None:
    """Look up the code of each byte string: as `add_bytes`, but unknown keys get `EMPTY`.

    Notes
    -----
    What the rows of a block look at is asked for together: slots first, then offsets, then bytes, so that cache misses
    overlap.
    """
    mask = np.uint64(len(slot_codes) - 1)
    slots = np.empty(BLOCK, np.int64)
    for block in range(0, len(hashes), BLOCK):
        size = min(BLOCK, len(hashes) - block)
        for i in range(size):
            prefetch(slot_hashes, hashes[block + i] & mask)
            prefetch(slot_codes, hashes[block + i] & mask)
        for i in range(size):
            hashed = hashes[block + i]
            slot = np.uint64(hashed & mask)
            while slot_codes[slot] != EMPTY and slot_hashes[slot] != hashed:
                slot = (slot + np.uint64(1)) & mask
            slots[i] = slot
            if slot_codes[slot] != EMPTY:
                prefetch(known_offsets, np.uint64(slot_codes[slot]))
        for i in range(size):
            code = slot_codes[np.uint64(slots[i])]
            if code != EMPTY:
                prefetch(known, np.uint64(known_offsets[np.uint64(code)]))
        for i in range(size):
            row = block + i
            if codes[row] == EMPTY:
                continue
            code = slot_codes[np.uint64(slots[i])]
            first, end = offsets[row], offsets[row + 1]
            if code != EMPTY and not _equal(
                data, first, end, known, known_offsets[np.uint64(code)], known_offsets[np.uint64(code) + np.uint64(1)]
            ):
                # Another key of the same hash.
                slot = _slot_of(hashes[row], data, first, end, slot_hashes, slot_codes, known_offsets, known)
                code = slot_codes[slot]
            codes[row] = code


@compiled(void(uint64s_in, int32s_in, uint64s, int32s))
def rehash(old_hashes: Words, old_codes: Codes, hashes: Words, codes: Codes) -> None:
    """Move all keys of a table into an empty, larger one.

    Parameters
    ----------
    old_hashes, old_codes
        The table that is full: hash and code in each slot.
    hashes, codes
        Out: the new one, whose codes are all `EMPTY`.
    """
    mask = len(codes) - 1
    for old in range(len(old_codes)):
        if old_codes[old] == EMPTY:
            continue
        slot = np.int64(old_hashes[old] & np.uint64(mask))
        while codes[slot] != EMPTY:
            slot = (slot + 1) & mask
        hashes[slot] = old_hashes[old]
        codes[slot] = old_codes[old]


@compiled(void(int32s_in, int32s_in, int32s))
def map_codes(indices: Codes, mapping: Codes, codes: Codes) -> None:
    """Translate indices into a dictionary to the codes of its values.

    Parameters
    ----------
    indices
        One for each row.
    mapping
        The code of each value of the dictionary.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes.
    """
    for i in range(len(indices)):
        if codes[i] != EMPTY:
            codes[i] = mapping[indices[i]]
