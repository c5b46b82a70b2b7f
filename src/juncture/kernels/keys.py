"""Hash tables that give each distinct key a dense code: of integers, and of byte strings.

A table is made of buckets of one cache line, chosen by the lower bits of a key's hash. A bucket has `LANES` lanes:
their tags, the upper half of the hash made odd, and then their codes. Lanes are filled in order, and a tag of 0 is a
free lane's. All tags of a bucket are compared at once, and what a full bucket has no room for is in the next one; so a
look-up touches one cache line nearly always, and no branch depends on where a key is, or whether it is there. (Tables
of this kind: Bronson and Shi, "Open-sourcing F14 for faster, more memory-efficient hash tables", 2019.)

A byte string is looked at as two words, in which all of it stands if it is short. The bytes themselves are compared for
long ones alone.

A table never holds more than half of its lanes; the kernels that add keys stop when it is full, and the caller goes on
with a larger one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from juncture.kernels.array_types import Codes, Ints, Words
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
    uint32s,
    uint64s,
    uint64s_in,
    void,
)
from juncture.kernels.intrinsics import LANES, equal_lanes, lowest_bit, prefetch, word_at

__all__ = [
    "EMPTY",
    "add_bytes",
    "add_integers",
    "empty_table",
    "find_bytes",
    "find_integers",
    "hash_bytes",
    "map_codes",
    "mix",
    "most_keys",
    "refill_bytes",
    "refill_integers",
]

EMPTY = -1
"""The code of a row without a key, or whose key is not there."""

BLOCK = 64
"""How many rows are looked up together."""

_BUCKET_WORDS = 2 * LANES
_CACHE_LINE_BYTES = 64
_FREE = np.uint32(0)
_ODD = np.uint32(1)
_HALF = np.uint64(32)
_STEP = np.uint64(_BUCKET_WORDS)
_CODES = np.uint64(LANES)
_LAST = np.uint64(LANES - 1)
_LAST_BIT = np.int64(1 << (LANES - 1))
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

_SHORT_BYTES = 15
_LENGTH_BITS = np.uint64(56)
_LONG = np.uint64(1 << 63)
_LEADING_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)

Table = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]


def empty_table(keys: int) -> Table:
    """Return a table that has no keys yet, and room for so many at least: `most_keys` tells for how many."""
    buckets = 1
    while buckets * LANES < 2 * keys:
        buckets *= 2
    line = _CACHE_LINE_BYTES // 4
    words = np.zeros(buckets * _BUCKET_WORDS + line, np.uint32)
    first = -words.ctypes.data % _CACHE_LINE_BYTES // 4
    return words[first : first + buckets * _BUCKET_WORDS]


def most_keys(table: Table) -> int:
    """Return how many keys a table holds."""
    return len(table) // 4


@inlined
def mix(value: Any) -> Any:
    """Spread a key over all bits, no two keys to the same (the finalizer of MurmurHash3)."""
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xC4CEB9FE1A85EC53)
    value ^= value >> np.uint64(33)
    return value


@inlined
def _tag(hashed: Any) -> Any:
    return np.uint32(hashed >> _HALF) | _ODD


@inlined
def _bucket(table: Table, hashed: Any) -> Any:
    """Return where a key's own bucket starts."""
    return (hashed * _STEP) & np.uint64(len(table) - 1)


@inlined
def _next_bucket(table: Table, bucket: Any) -> Any:
    return (bucket + _STEP) & np.uint64(len(table) - 1)


@inlined
def _candidate(table: Table, hashed: Any) -> Any:
    """Return whether a lane has a key's tag, and the code of the first that does; any code if none does."""
    tag = _tag(hashed)
    bucket = _bucket(table, hashed)
    lanes = equal_lanes(table, bucket, tag)
    # One condition of two, because a branch for the first would be mispredicted every other time.
    while (lanes == 0) & (table[bucket + _LAST] != _FREE):
        bucket = _next_bucket(table, bucket)
        lanes = equal_lanes(table, bucket, tag)
    return lanes != 0, np.uint64(table[bucket + _CODES + np.uint64(lowest_bit(lanes | _LAST_BIT))])


@inlined
def _put(table: Table, hashed: Any, place: Any, code: Any) -> None:
    """Fill the lane at a place."""
    table[place] = _tag(hashed)
    table[place + _CODES] = np.uint32(code)


@inlined
def _free_place(table: Table, hashed: Any) -> Any:
    """Return the place of the lane where a key goes that is not there yet."""
    bucket = _bucket(table, hashed)
    lanes = equal_lanes(table, bucket, _FREE)
    while lanes == 0:
        bucket = _next_bucket(table, bucket)
        lanes = equal_lanes(table, bucket, _FREE)
    return bucket + np.uint64(lowest_bit(lanes))


@inlined
def _place_of_integer(value: Any, hashed: Any, table: Table, known: Ints) -> Any:
    """Return the place of the lane that holds an integer, or of the free one where it would go."""
    tag = _tag(hashed)
    bucket = _bucket(table, hashed)
    while True:
        lanes = equal_lanes(table, bucket, tag)
        while lanes != 0:
            place = bucket + np.uint64(lowest_bit(lanes))
            if known[table[place + _CODES]] == value:
                return place
            lanes &= lanes - 1
        if table[bucket + _LAST] == _FREE:
            return bucket + np.uint64(lowest_bit(equal_lanes(table, bucket, _FREE)))
        bucket = _next_bucket(table, bucket)


@compiled(int64(int64s_in, int64, uint32s, int64s, int64, int32s))
def add_integers(values: Ints, first: int, table: Table, known: Ints, count: int, codes: Codes) -> int:
    """Give each integer its code, a new one if it is new.

    Parameters
    ----------
    values
        The keys.
    first
        Where to start.
    table
        The table.
    known
        The keys that it has, by code; room for as many as the table holds.
    count
        How many.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes.

    Returns
    -------
    int
        Where it stopped because the table is full, or the number of values. The keys that it has by then are one more
        than the greatest code.
    """
    most = len(table) // 4
    hashes = np.empty(BLOCK, np.uint64)
    for block in range(first, len(values), BLOCK):
        size = min(BLOCK, len(values) - block)
        for i in range(size):
            hashes[i] = mix(np.uint64(values[block + i]))
            prefetch(table, _bucket(table, hashes[i]))
        for i in range(size):
            row = block + i
            if codes[row] == EMPTY:
                continue
            place = _place_of_integer(values[row], hashes[i], table, known)
            if table[place] == _FREE:
                if count >= most:
                    return row
                known[count] = values[row]
                _put(table, hashes[i], place, count)
                count += 1
            codes[row] = table[place + _CODES]
    return len(values)


@compiled(void(int64s_in, uint32s, int64s, int32s))
def find_integers(values: Ints, table: Table, known: Ints, codes: Codes) -> None:
    """Look up the code of each integer.

    Parameters
    ----------
    values, table, known
        The keys, the table, and the keys that it has.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes, `EMPTY` if unknown.

    Notes
    -----
    What the rows of a block look at is asked for together, so that cache misses overlap. Whether a row may have a code
    at all decides where the next such row is noted, not where the code goes on: half of the branches would be
    mispredicted.
    """
    hashes = np.empty(BLOCK, np.uint64)
    found = np.empty(BLOCK, np.uint64)
    rows = np.empty(BLOCK, np.int64)
    for block in range(0, len(values), BLOCK):
        size = min(BLOCK, len(values) - block)
        for i in range(size):
            hashes[i] = mix(np.uint64(values[block + i]))
            prefetch(table, _bucket(table, hashes[i]))
        likely = np.int64(0)
        for i in range(size):
            row = block + i
            is_likely, code = _candidate(table, hashes[i])
            found[likely] = code
            rows[likely] = row
            likely += np.int64(is_likely & (codes[row] != EMPTY))
            codes[row] = EMPTY
            prefetch(known, code)
        for i in range(likely):
            code, value = found[i], values[rows[i]]
            if known[code] == value:
                codes[rows[i]] = code
            else:
                # Another key with the same tag.
                place = _place_of_integer(value, mix(np.uint64(value)), table, known)
                codes[rows[i]] = EMPTY if table[place] == _FREE else np.int32(table[place + _CODES])


@compiled(void(int64s_in, int64, uint32s))
def refill_integers(known: Ints, count: int, table: Table) -> None:
    """Put the keys of a table into an empty, larger one.

    Parameters
    ----------
    known, count
        The keys, by code, and how many there are.
    table
        Out: the new table.
    """
    for code in range(count):
        hashed = mix(np.uint64(known[code]))
        _put(table, hashed, _free_place(table, hashed), code)


@inlined
def _long_hash(data: Bytes, first: int, end: int) -> Any:
    """Hash eight bytes or more, eight at a time."""
    state = np.uint64(end - first) * _SPREAD
    position = first
    while position + 8 <= end:
        state = (mix(state ^ word_at(data, np.uint64(position))) << _ONE) + _SPREAD
        position += 8
    # Some bytes twice is less work than the last ones one by one.
    return mix(state ^ word_at(data, np.uint64(end - 8)))


@inlined
def _words(data: Bytes, first: int, end: int) -> Any:
    """Return two words that stand for a byte string: itself and its length if it is short, a hash of it otherwise."""
    length = end - first
    if length > _SHORT_BYTES:
        return _long_hash(data, first, end), _LONG | np.uint64(length)
    low = high = np.uint64(0)
    if first + 16 <= len(data):
        low = word_at(data, np.uint64(first)) & _LEADING_BYTES[np.uint64(min(length, 8))]
        high = word_at(data, np.uint64(first + 8)) & _LEADING_BYTES[np.uint64(max(length - 8, 0))]
    else:
        for i in range(min(length, 8)):
            low |= np.uint64(data[first + i]) << np.uint64(8 * i)
        for i in range(8, length):
            high |= np.uint64(data[first + i]) << np.uint64(8 * (i - 8))
    return low, high | np.uint64(length) << _LENGTH_BITS


@inlined
def _hash_words(low: Any, high: Any) -> Any:
    return mix(((mix(low) << _ONE) + _SPREAD) ^ high)


@compiled(void(int64s_in, uint8s_in, uint64s))
def hash_bytes(offsets: Ints, data: Bytes, hashes: Words) -> None:
    """Hash each byte string ``data[offsets[i] : offsets[i + 1]]``."""
    for i in range(len(hashes)):
        low, high = _words(data, offsets[i], offsets[i + 1])
        hashes[i] = _hash_words(low, high)


@inlined
def _equal(one: Bytes, first: int, end: int, other: Bytes, other_first: int) -> bool:
    """Tell whether two byte strings of one length, at least eight, are equal."""
    other_end = other_first + end - first
    while first + 8 <= end:
        if word_at(one, np.uint64(first)) != word_at(other, np.uint64(other_first)):
            return False
        first += 8
        other_first += 8
    return bool(word_at(one, np.uint64(end - 8)) == word_at(other, np.uint64(other_end - 8)))


@inlined
def _place_of_bytes(
    low: Any,
    high: Any,
    hashed: Any,
    data: Bytes,
    first: int,
    end: int,
    table: Table,
    known_words: Words,
    known_offsets: Ints,
    known: Bytes,
) -> Any:
    """Return the place of the lane that holds a byte string, or of the free one where it would go."""
    tag = _tag(hashed)
    bucket = _bucket(table, hashed)
    while True:
        lanes = equal_lanes(table, bucket, tag)
        while lanes != 0:
            place = bucket + np.uint64(lowest_bit(lanes))
            code = np.uint64(table[place + _CODES])
            is_alike = (known_words[_TWO * code] == low) & (known_words[_TWO * code + _ONE] == high)
            if is_alike and (high < _LONG or _equal(data, first, end, known, known_offsets[code])):
                return place
            lanes &= lanes - 1
        if table[bucket + _LAST] == _FREE:
            return bucket + np.uint64(lowest_bit(equal_lanes(table, bucket, _FREE)))
        bucket = _next_bucket(table, bucket)


@compiled(int64(int64s_in, uint8s_in, int64, uint32s, uint64s, int64s, uint8s, int64, int32s))
def add_bytes(
    offsets: Ints,
    data: Bytes,
    first: int,
    table: Table,
    known_words: Words,
    known_offsets: Ints,
    known: Bytes,
    count: int,
    codes: Codes,
) -> int:
    """Give each byte string its code, a new one if it is new.

    Parameters
    ----------
    offsets, data
        The keys.
    first
        Where to start.
    table
        The table.
    known_words, known_offsets, known
        The keys that it has, by code: two words of each, and the bytes of those that are longer than they are.
    count
        How many.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes.

    Returns
    -------
    int
        Where it stopped because the table is full or ``known`` has no room, or the number of values.
    """
    most = len(table) // 4
    words = np.empty(2 * BLOCK, np.uint64)
    hashes = np.empty(BLOCK, np.uint64)
    for block in range(first, len(codes), BLOCK):
        size = min(BLOCK, len(codes) - block)
        for i in range(size):
            words[2 * i], words[2 * i + 1] = _words(data, offsets[block + i], offsets[block + i + 1])
            hashes[i] = _hash_words(words[2 * i], words[2 * i + 1])
            prefetch(table, _bucket(table, hashes[i]))
        for i in range(size):
            row = block + i
            if codes[row] == EMPTY:
                continue
            low, high = words[2 * i], words[2 * i + 1]
            start, end = offsets[row], offsets[row + 1]
            place = _place_of_bytes(low, high, hashes[i], data, start, end, table, known_words, known_offsets, known)
            if table[place] == _FREE:
                length = end - start if high >= _LONG else 0
                target = known_offsets[count]
                if count >= most or target + length > len(known):
                    return row
                # Not by slices: the error that Numba raises where their lengths differ takes seconds to compile.
                for position in range(length):
                    known[np.uint64(target + position)] = data[np.uint64(start + position)]
                known_offsets[count + 1] = target + length
                known_words[2 * count], known_words[2 * count + 1] = low, high
                _put(table, hashes[i], place, count)
                count += 1
            codes[row] = table[place + _CODES]
    return len(codes)


@compiled(void(int64s_in, uint8s_in, uint32s, uint64s, int64s, uint8s, int32s))
def find_bytes(
    offsets: Ints,
    data: Bytes,
    table: Table,
    known_words: Words,
    known_offsets: Ints,
    known: Bytes,
    codes: Codes,
) -> None:
    """Look up the code of each byte string: as `add_bytes`, but unknown keys get `EMPTY`.

    Notes
    -----
    As `find_integers`: buckets first, then words, then the bytes of long keys.
    """
    words = np.empty(2 * BLOCK, np.uint64)
    hashes = np.empty(BLOCK, np.uint64)
    found = np.empty(BLOCK, np.uint64)
    items = np.empty(BLOCK, np.int64)
    for block in range(0, len(codes), BLOCK):
        size = min(BLOCK, len(codes) - block)
        for i in range(size):
            words[2 * i], words[2 * i + 1] = _words(data, offsets[block + i], offsets[block + i + 1])
            hashes[i] = _hash_words(words[2 * i], words[2 * i + 1])
            prefetch(table, _bucket(table, hashes[i]))
        likely = np.int64(0)
        for i in range(size):
            is_likely, code = _candidate(table, hashes[i])
            found[likely] = code
            items[likely] = i
            likely += np.int64(is_likely & (codes[block + i] != EMPTY))
            codes[block + i] = EMPTY
            prefetch(known_words, _TWO * code)
            if words[2 * i + 1] >= _LONG:
                prefetch(known_offsets, code)
        for j in range(likely):
            if words[2 * items[j] + 1] >= _LONG:
                prefetch(known, np.uint64(known_offsets[found[j]]))
        for j in range(likely):
            i, code = items[j], found[j]
            row, low, high = block + i, words[2 * i], words[2 * i + 1]
            start, end = offsets[row], offsets[row + 1]
            is_alike = (known_words[_TWO * code] == low) & (known_words[_TWO * code + _ONE] == high)
            if is_alike and (high < _LONG or _equal(data, start, end, known, known_offsets[code])):
                codes[row] = code
            else:
                # Another key with the same tag.
                place = _place_of_bytes(
                    low, high, hashes[i], data, start, end, table, known_words, known_offsets, known
                )
                codes[row] = EMPTY if table[place] == _FREE else np.int32(table[place + _CODES])


@compiled(void(uint64s_in, int64, uint32s))
def refill_bytes(known_words: Words, count: int, table: Table) -> None:
    """Put the keys of a table into an empty, larger one: as `refill_integers`."""
    for code in range(count):
        hashed = _hash_words(known_words[2 * code], known_words[2 * code + 1])
        _put(table, hashed, _free_place(table, hashed), code)


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
