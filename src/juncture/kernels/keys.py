"""Hash tables that give each distinct key a dense code: of integers, and of byte strings.

Their layout is that of `juncture.kernels.hash_table`. A byte string is looked at as two words, in which all of it
stands if it is short. The bytes themselves are compared for long ones alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Bytes, BytesOut, Codes, CodesOut, HalvesOut, Ints, IntsOut, Words, WordsOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.hash_table import (
    CODES,
    EMPTY,
    FREE,
    LAST,
    Table,
    bucket_of,
    candidate,
    free_place,
    mix,
    next_bucket,
    put,
    tag_of,
)
from juncture.kernels.intrinsics import equal_lanes, lowest_bit, prefetch, word_at

BLOCK = 64
"""How many rows are looked up together."""

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

_SHORT_BYTES = 15
_LENGTH_BITS = np.uint64(56)
_LONG = np.uint64(1 << 63)
_LEADING_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


@inlined
def _place_of_integer(value: Any, hashed: Any, table: Table, known: Ints) -> Any:
    """Return the place of the lane that holds an integer, or of the free one where it would go."""
    tag = tag_of(hashed)
    bucket = bucket_of(table, hashed)
    while True:
        lanes = equal_lanes(table, bucket, tag)
        while lanes != 0:
            place = bucket + np.uint64(lowest_bit(lanes))
            if known[table[place + CODES]] == value:
                return place
            lanes &= lanes - 1
        if table[bucket + LAST] == FREE:
            return bucket + np.uint64(lowest_bit(equal_lanes(table, bucket, FREE)))
        bucket = next_bucket(table, bucket)


@compiled
def add_integers(values: Ints, first: int, table: HalvesOut, known: IntsOut, count: int, codes: CodesOut) -> int:
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
            prefetch(table, bucket_of(table, hashes[i]))
        for i in range(size):
            row = block + i
            if codes[row] == EMPTY:
                continue
            place = _place_of_integer(values[row], hashes[i], table, known)
            if table[place] == FREE:
                if count >= most:
                    return row
                known[count] = values[row]
                put(table, hashes[i], place, count)
                count += 1
            codes[row] = table[place + CODES]
    return len(values)


@compiled
def find_integers(values: Ints, table: HalvesOut, known: IntsOut, codes: CodesOut) -> None:
    """Look up the code of each integer.

    Parameters
    ----------
    values, table, known
        The keys, the table, and the keys that it has.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes, `EMPTY` if unknown.

    Notes
    -----
    The slots of a block's rows are prefetched together, so that cache misses overlap. Whether a row may have a code
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
            prefetch(table, bucket_of(table, hashes[i]))
        likely = np.int64(0)
        for i in range(size):
            row = block + i
            is_likely, code = candidate(table, hashes[i])
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
                codes[rows[i]] = EMPTY if table[place] == FREE else np.int32(table[place + CODES])


@compiled
def list_dense(known: Ints, least: int, places: CodesOut) -> None:
    """List the code of each integer of a range, in place of a table.

    Parameters
    ----------
    known
        The keys, by code.
    least
        Where the range begins.
    places
        In: `EMPTY`. Out: the code of each integer from there on, the last place aside.
    """
    for code in range(len(known)):
        places[known[code] - least] = code


@compiled
def find_dense(values: Ints, least: int, places: Codes, codes: CodesOut) -> None:
    """Look up the code of each integer: as `find_integers`, in what `list_dense` has made.

    Parameters
    ----------
    values
        The keys.
    least, places
        The range. Its last place is `EMPTY`, and stands for all integers outside.
    codes
        In: `EMPTY` for rows to leave out, anything else otherwise. Out: the codes, `EMPTY` if unknown.
    """
    outside = np.uint64(len(places) - 1)
    for i in range(len(values)):
        # Below the least, the difference is a large number too.
        code = places[min(np.uint64(values[i]) - np.uint64(least), outside)]
        codes[i] = EMPTY if codes[i] == EMPTY else code


@compiled
def refill_integers(known: Ints, count: int, table: HalvesOut) -> None:
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
        put(table, hashed, free_place(table, hashed), code)


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


@compiled
def hash_bytes(offsets: Ints, data: Bytes, hashes: WordsOut) -> None:
    """Hash each byte string ``data[offsets[i] : offsets[i + 1]]``."""
    for i in range(len(hashes)):
        low, high = _words(data, offsets[i], offsets[i + 1])
        hashes[i] = _hash_words(low, high)


@inlined
def _equal(one: Bytes, first: int, end: int, other: Bytes, other_first: int) -> bool:
    """Return whether two byte strings of one length, at least eight, are equal."""
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
    tag = tag_of(hashed)
    bucket = bucket_of(table, hashed)
    while True:
        lanes = equal_lanes(table, bucket, tag)
        while lanes != 0:
            place = bucket + np.uint64(lowest_bit(lanes))
            code = np.uint64(table[place + CODES])
            is_alike = (known_words[_TWO * code] == low) & (known_words[_TWO * code + _ONE] == high)
            if is_alike and (high < _LONG or _equal(data, first, end, known, known_offsets[code])):
                return place
            lanes &= lanes - 1
        if table[bucket + LAST] == FREE:
            return bucket + np.uint64(lowest_bit(equal_lanes(table, bucket, FREE)))
        bucket = next_bucket(table, bucket)


@compiled
def add_bytes(
    offsets: Ints,
    data: Bytes,
    first: int,
    table: HalvesOut,
    known_words: WordsOut,
    known_offsets: IntsOut,
    known: BytesOut,
    count: int,
    codes: CodesOut,
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
            prefetch(table, bucket_of(table, hashes[i]))
        for i in range(size):
            row = block + i
            if codes[row] == EMPTY:
                continue
            low, high = words[2 * i], words[2 * i + 1]
            start, end = offsets[row], offsets[row + 1]
            place = _place_of_bytes(low, high, hashes[i], data, start, end, table, known_words, known_offsets, known)
            if table[place] == FREE:
                length = end - start if high >= _LONG else 0
                target = known_offsets[count]
                if count >= most or target + length > len(known):
                    return row
                # Not by slices: the error that Numba raises where their lengths differ takes seconds to compile.
                for position in range(length):
                    known[np.uint64(target + position)] = data[np.uint64(start + position)]
                known_offsets[count + 1] = target + length
                known_words[2 * count], known_words[2 * count + 1] = low, high
                put(table, hashes[i], place, count)
                count += 1
            codes[row] = table[place + CODES]
    return len(codes)


@compiled
def find_bytes(
    offsets: Ints,
    data: Bytes,
    table: HalvesOut,
    known_words: WordsOut,
    known_offsets: IntsOut,
    known: BytesOut,
    codes: CodesOut,
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
            prefetch(table, bucket_of(table, hashes[i]))
        likely = np.int64(0)
        for i in range(size):
            is_likely, code = candidate(table, hashes[i])
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
                codes[row] = EMPTY if table[place] == FREE else np.int32(table[place + CODES])


@compiled
def refill_bytes(known_words: Words, count: int, table: HalvesOut) -> None:
    """Put the keys of a table into an empty, larger one: as `refill_integers`."""
    for code in range(count):
        hashed = _hash_words(known_words[2 * code], known_words[2 * code + 1])
        put(table, hashed, free_place(table, hashed), code)


@compiled
def map_codes(indices: Codes, mapping: Codes, codes: CodesOut) -> None:
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
