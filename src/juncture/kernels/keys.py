"""Hash tables that give each distinct key a dense code: of integers, and of byte strings.

Both are open addressing with linear probing over a power of two of slots. A slot is one word: in its upper half that of
the key's hash, in its lower half the code and one, and 0 where it is free. So a look-up of a key that is not there
touches a single cache line nearly always, and keys themselves are looked at only where half of the hash agrees.

A table never holds more than half of its slots; the kernels that add keys stop when it is full, and the caller goes on
with a larger one.
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
    "refill_bytes",
    "refill_integers",
]

EMPTY = -1
"""The code of a row without a key, or whose key is not there."""

BLOCK = 64
"""How many rows are looked up together."""

AHEAD = 16
"""How many rows ahead the slot of a key is asked for."""

_FREE = np.uint64(0)
_ONE = np.uint64(1)
_LOWER_HALF = np.uint64(0xFFFFFFFF)

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
    if first + 8 <= end:
        # Some bytes twice is less work than the last ones one by one.
        return mix(state ^ word_at(data, np.uint64(end - 8)))
    tail = np.uint64(0)
    while position < end:
        tail = (tail << np.uint64(8)) | np.uint64(data[position])
        position += 1
    return mix(state ^ tail)


@inlined
def _entry(hashed: Any, code: Any) -> Any:
    """Return what a slot holds for a key."""
    return (hashed & ~_LOWER_HALF) | (np.uint64(code) + _ONE)


@inlined
def _code(entry: Any) -> Any:
    """Return the code in a slot; that of a free one is no code."""
    return (entry & _LOWER_HALF) - _ONE


@inlined
def _candidate(slots: Words, hashed: Any) -> Any:
    """Return the first slot from a key's own on that may hold it, or is free."""
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    # One condition of two, because a branch for each would be mispredicted every other time.
    while (slots[slot] != _FREE) & ((slots[slot] ^ hashed) > _LOWER_HALF):
        slot = (slot + _ONE) & mask
    return slot


@inlined
def _free_slot(slots: Words, hashed: Any) -> Any:
    """Return the slot where a key goes that is not there yet."""
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    while slots[slot] != _FREE:
        slot = (slot + _ONE) & mask
    return slot


@inlined
def _slot_of_integer(value: Any, hashed: Any, slots: Words, known: Ints) -> Any:
    """Return the slot that holds an integer, or the free one where it would go."""
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    while slots[slot] != _FREE:
        if (slots[slot] ^ hashed) <= _LOWER_HALF and known[_code(slots[slot])] == value:
            break
        slot = (slot + _ONE) & mask
    return slot


@compiled(int64(int64s_in, int64, uint64s, int64s, int64, int32s))
def add_integers(values: Ints, first: int, slots: Words, known: Ints, count: int, codes: Codes) -> int:
    """Give each integer its code, a new one if it is new.

    Parameters
    ----------
    values
        The keys.
    first
        Where to start.
    slots
        The table.
    known
        The keys that it has, by code; at least half as many places as slots.
    count
        How many.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes.

    Returns
    -------
    int
        Where it stopped because the table is half full, or the number of values. The keys that it has by then are
        one more than the greatest code.
    """
    mask = np.uint64(len(slots) - 1)
    for i in range(first, len(values)):
        if i + AHEAD < len(values):
            prefetch(slots, mix(values[i + AHEAD]) & mask)
        if codes[i] == EMPTY:
            continue
        hashed = mix(values[i])
        slot = _slot_of_integer(values[i], hashed, slots, known)
        if slots[slot] == _FREE:
            if 2 * count >= len(slots):
                return i
            known[count] = values[i]
            slots[slot] = _entry(hashed, count)
            count += 1
        codes[i] = _code(slots[slot])
    return len(values)


@compiled(void(int64s_in, uint64s_in, int64s_in, int32s))
def find_integers(values: Ints, slots: Words, known: Ints, codes: Codes) -> None:
    """Look up the code of each integer.

    Parameters
    ----------
    values, slots, known
        The keys, the table, and the keys that it has.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes, `EMPTY` if unknown.

    Notes
    -----
    What the rows of a block look at is asked for together, so that cache misses overlap. Whether a row may have a code
    at all decides where the next such row is noted, not where the code goes on: half of the branches would be
    mispredicted.
    """
    mask = np.uint64(len(slots) - 1)
    hashes = np.empty(BLOCK, np.uint64)
    found = np.empty(BLOCK, np.uint64)
    rows = np.empty(BLOCK, np.int64)
    for block in range(0, len(values), BLOCK):
        size = min(BLOCK, len(values) - block)
        for i in range(size):
            hashes[i] = mix(values[block + i])
            prefetch(slots, hashes[i] & mask)
        likely = np.int64(0)
        for i in range(size):
            row = block + i
            entry = slots[_candidate(slots, hashes[i])]
            found[likely] = _code(entry)
            rows[likely] = row
            likely += np.int64((entry != _FREE) & (codes[row] != EMPTY))
            codes[row] = EMPTY
            prefetch(known, entry & _LOWER_HALF)
        for i in range(likely):
            code, value = found[i], values[rows[i]]
            if known[code] != value:
                # Another key with the same half of the hash.
                entry = slots[_slot_of_integer(value, mix(value), slots, known)]
                codes[rows[i]] = EMPTY if entry == _FREE else np.int32(_code(entry))
            else:
                codes[rows[i]] = code


@compiled(void(int64s_in, int64, uint64s))
def refill_integers(known: Ints, count: int, slots: Words) -> None:
    """Put the keys of a table into an empty, larger one.

    Parameters
    ----------
    known, count
        The keys, by code, and how many there are.
    slots
        Out: the new table, whose slots are all 0.
    """
    for code in range(count):
        hashed = mix(known[code])
        slots[_free_slot(slots, hashed)] = _entry(hashed, code)


@compiled(void(int64s_in, uint8s_in, uint64s))
def hash_bytes(offsets: Ints, data: Bytes, hashes: Words) -> None:
    """Hash each byte string ``data[offsets[i] : offsets[i + 1]]``."""
    for i in range(len(hashes)):
        hashes[i] = _hash(data, offsets[i], offsets[i + 1])


@inlined
def _equal(one: Bytes, first: int, end: int, other: Bytes, other_first: int, other_end: int) -> bool:
    if end - first != other_end - other_first:
        return False
    start = other_first
    while first + 8 <= end:
        if word_at(one, np.uint64(first)) != word_at(other, np.uint64(other_first)):
            return False
        first += 8
        other_first += 8
    if other_first > start:
        return bool(word_at(one, np.uint64(end - 8)) == word_at(other, np.uint64(other_end - 8)))
    while first < end:
        if one[first] != other[other_first]:
            return False
        first += 1
        other_first += 1
    return True


@inlined
def _slot_of_bytes(
    hashed: Any, data: Bytes, first: int, end: int, slots: Words, known_offsets: Ints, known: Bytes
) -> Any:
    """Return the slot that holds a byte string, or the free one where it would go."""
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    while slots[slot] != _FREE:
        if (slots[slot] ^ hashed) <= _LOWER_HALF:
            code = _code(slots[slot])
            if _equal(data, first, end, known, known_offsets[code], known_offsets[code + _ONE]):
                break
        slot = (slot + _ONE) & mask
    return slot


@compiled(int64(int64s_in, uint8s_in, uint64s_in, int64, uint64s, int64s, uint8s, int64, int32s))
def add_bytes(
    offsets: Ints,
    data: Bytes,
    hashes: Words,
    first: int,
    slots: Words,
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
    slots
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
    mask = np.uint64(len(slots) - 1)
    for i in range(first, len(hashes)):
        if i + AHEAD < len(hashes):
            prefetch(slots, hashes[i + AHEAD] & mask)
        if codes[i] == EMPTY:
            continue
        slot = _slot_of_bytes(hashes[i], data, offsets[i], offsets[i + 1], slots, known_offsets, known)
        if slots[slot] == _FREE:
            length = offsets[i + 1] - offsets[i]
            place = known_offsets[count]
            if 2 * count >= len(slots) or place + length > len(known):
                return i
            known[place : place + length] = data[offsets[i] : offsets[i + 1]]
            known_offsets[count + 1] = place + length
            slots[slot] = _entry(hashes[i], count)
            count += 1
        codes[i] = _code(slots[slot])
    return len(hashes)


@compiled(void(int64s_in, uint8s_in, uint64s_in, uint64s_in, int64s_in, uint8s_in, int32s))
def find_bytes(
    offsets: Ints,
    data: Bytes,
    hashes: Words,
    slots: Words,
    known_offsets: Ints,
    known: Bytes,
    codes: Codes,
) -> None:
    """Look up the code of each byte string: as `add_bytes`, but unknown keys get `EMPTY`.

    Notes
    -----
    As `find_integers`: slots first, then offsets, then bytes.
    """
    mask = np.uint64(len(slots) - 1)
    found = np.empty(BLOCK, np.uint64)
    rows = np.empty(BLOCK, np.int64)
    for block in range(0, len(hashes), BLOCK):
        size = min(BLOCK, len(hashes) - block)
        for i in range(size):
            prefetch(slots, hashes[block + i] & mask)
        likely = np.int64(0)
        for i in range(size):
            row = block + i
            entry = slots[_candidate(slots, hashes[row])]
            found[likely] = _code(entry)
            rows[likely] = row
            likely += np.int64((entry != _FREE) & (codes[row] != EMPTY))
            codes[row] = EMPTY
            prefetch(known_offsets, entry & _LOWER_HALF)
        for i in range(likely):
            prefetch(known, np.uint64(known_offsets[found[i]]))
        for i in range(likely):
            code, row = found[i], rows[i]
            first, end = offsets[row], offsets[row + 1]
            if _equal(data, first, end, known, known_offsets[code], known_offsets[code + _ONE]):
                codes[row] = code
            else:
                # Another key with the same half of the hash.
                entry = slots[_slot_of_bytes(hashes[row], data, first, end, slots, known_offsets, known)]
                codes[row] = EMPTY if entry == _FREE else np.int32(_code(entry))


@compiled(void(int64s_in, uint8s_in, int64, uint64s))
def refill_bytes(known_offsets: Ints, known: Bytes, count: int, slots: Words) -> None:
    """Put the keys of a table into an empty, larger one: as `refill_integers`."""
    for code in range(count):
        hashed = _hash(known, known_offsets[code], known_offsets[code + 1])
        slots[_free_slot(slots, hashed)] = _entry(hashed, code)


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
