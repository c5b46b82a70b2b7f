"""Hash tables that assign a dense code to each distinct integer or byte string.

Their layout is that of `juncture.kernels.hash_table`. A byte string is compared by two words, which contain a short
string entirely. Only long strings are compared by their bytes.

The integers 7, 3, 7 get the codes 0, 1, 0, and the table has the keys [7, 3]. Then 3, 9 have the codes 1, `EMPTY`.
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
    free_lane,
    mix,
    next_bucket,
    put,
    tag_of,
)
from juncture.kernels.intrinsics import equal_lanes, lowest_bit, prefetch, word_at

BLOCK = 64
"""Number of rows that are looked up together."""

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

_SHORT_BYTES = 15
_LENGTH_BITS = np.uint64(56)
_LONG = np.uint64(1 << 63)
_LEADING_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


@inlined
def _lane_of_integer(value: Any, hashed: Any, table: Table, table_keys: Ints) -> Any:
    """Return the position of the lane with an integer, or of the free lane for it."""
    tag = tag_of(hashed)
    bucket = bucket_of(table, hashed)
    while True:
        lanes = equal_lanes(table, bucket, tag)
        while lanes != 0:
            lane = bucket + np.uint64(lowest_bit(lanes))
            if table_keys[table[lane + CODES]] == value:
                return lane
            lanes &= lanes - 1
        if table[bucket + LAST] == FREE:
            return bucket + np.uint64(lowest_bit(equal_lanes(table, bucket, FREE)))
        bucket = next_bucket(table, bucket)


@compiled
def add_integers(values: Ints, first: int, table: HalvesOut, table_keys: IntsOut, count: int, codes: CodesOut) -> int:
    """Assign a code to each integer from ``first`` on; return where it stopped since the table is full, or the end.

    ``table_keys`` has the keys of the table by code, with room for its capacity; ``count`` is their number before.
    Afterwards it is one more than the greatest code. ``codes`` are `EMPTY` for rows to skip.
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
            lane = _lane_of_integer(values[row], hashes[i], table, table_keys)
            if table[lane] == FREE:
                if count >= most:
                    return row
                table_keys[count] = values[row]
                put(table, hashes[i], lane, count)
                count += 1
            codes[row] = table[lane + CODES]
    return len(values)


@compiled
def find_integers(values: Ints, table: HalvesOut, table_keys: IntsOut, codes: CodesOut) -> None:
    """Look up the code of each integer; ``codes`` are `EMPTY` for rows to skip, and afterwards for unknown keys.

    The buckets of a block's rows are prefetched together, so that cache misses overlap. Candidates are collected
    without a branch, since half of the branches would be mispredicted.
    """
    hashes = np.empty(BLOCK, np.uint64)
    likely_codes = np.empty(BLOCK, np.uint64)
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
            likely_codes[likely] = code
            rows[likely] = row
            likely += np.int64(is_likely & (codes[row] != EMPTY))
            codes[row] = EMPTY
            prefetch(table_keys, code)
        for i in range(likely):
            code, value = likely_codes[i], values[rows[i]]
            if table_keys[code] == value:
                codes[rows[i]] = code
            else:
                # Another key with the same tag.
                lane = _lane_of_integer(value, mix(np.uint64(value)), table, table_keys)
                codes[rows[i]] = EMPTY if table[lane] == FREE else np.int32(table[lane + CODES])


@compiled
def list_dense(table_keys: Ints, least: int, slots: CodesOut) -> None:
    """List the codes of the integers of a range from ``least`` on, as an alternative to a table.

    ``slots`` is initially `EMPTY`, and its last entry stays so.
    """
    for code in range(len(table_keys)):
        slots[table_keys[code] - least] = code


@compiled
def find_dense(values: Ints, least: int, slots: Codes, codes: CodesOut) -> None:
    """Look up the code of each integer, as `find_integers`, in the list of `list_dense`."""
    outside = np.uint64(len(slots) - 1)
    for i in range(len(values)):
        # Below the least, the unsigned difference is also large.
        code = slots[min(np.uint64(values[i]) - np.uint64(least), outside)]
        codes[i] = EMPTY if codes[i] == EMPTY else code


@compiled
def number_dense(values: Ints, least: int, count: int, codes: CodesOut) -> None:
    """Write how far each integer is from the least one; `EMPTY` for those beyond `count`, and where it was before."""
    for i in range(len(values)):
        # Below the least, the unsigned difference is also large.
        distance = np.uint64(values[i]) - np.uint64(least)
        codes[i] = EMPTY if codes[i] == EMPTY or distance >= np.uint64(count) else np.int32(distance)


@compiled
def refill_integers(table_keys: Ints, count: int, table: HalvesOut) -> None:
    """Insert the keys of a table into an empty, larger one."""
    for code in range(count):
        hashed = mix(np.uint64(table_keys[code]))
        put(table, hashed, free_lane(table, hashed), code)


@inlined
def _long_hash(data: Bytes, first: int, end: int) -> Any:
    """Hash eight bytes or more, eight at a time."""
    state = np.uint64(end - first) * _SPREAD
    position = first
    while position + 8 <= end:
        state = (mix(state ^ word_at(data, np.uint64(position))) << _ONE) + _SPREAD
        position += 8
    # Reading some bytes twice is faster than reading the last ones one by one.
    return mix(state ^ word_at(data, np.uint64(end - 8)))


@inlined
def _words(data: Bytes, first: int, end: int) -> Any:
    """Return two words for a byte string: itself and its length if it is short, otherwise a hash of it."""
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
    """Return whether two byte strings of equal length, at least eight, are equal."""
    other_end = other_first + end - first
    while first + 8 <= end:
        if word_at(one, np.uint64(first)) != word_at(other, np.uint64(other_first)):
            return False
        first += 8
        other_first += 8
    return bool(word_at(one, np.uint64(end - 8)) == word_at(other, np.uint64(other_end - 8)))


@inlined
def _lane_of_bytes(
    low: Any,
    high: Any,
    hashed: Any,
    data: Bytes,
    first: int,
    end: int,
    table: Table,
    key_words: Words,
    key_offsets: Ints,
    key_bytes: Bytes,
) -> Any:
    """Return the position of the lane with a byte string, or of the free lane for it."""
    tag = tag_of(hashed)
    bucket = bucket_of(table, hashed)
    while True:
        lanes = equal_lanes(table, bucket, tag)
        while lanes != 0:
            lane = bucket + np.uint64(lowest_bit(lanes))
            code = np.uint64(table[lane + CODES])
            is_alike = (key_words[_TWO * code] == low) & (key_words[_TWO * code + _ONE] == high)
            if is_alike and (high < _LONG or _equal(data, first, end, key_bytes, key_offsets[code])):
                return lane
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
    key_words: WordsOut,
    key_offsets: IntsOut,
    key_bytes: BytesOut,
    count: int,
    codes: CodesOut,
) -> int:
    """Assign a code to each byte string from ``first`` on; return where it stopped, or the end.

    It stops when the table is full, or ``key_bytes`` has no room. The keys of the table by code are two words of each
    (``key_words``) and the bytes of long keys (``key_bytes``). ``codes`` are `EMPTY` for rows to skip.
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
            lane = _lane_of_bytes(low, high, hashes[i], data, start, end, table, key_words, key_offsets, key_bytes)
            if table[lane] == FREE:
                length = end - start if high >= _LONG else 0
                target = key_offsets[count]
                if count >= most or target + length > len(key_bytes):
                    return row
                # No slices: Numba's check that their lengths agree takes seconds to compile.
                for position in range(length):
                    key_bytes[np.uint64(target + position)] = data[np.uint64(start + position)]
                key_offsets[count + 1] = target + length
                key_words[2 * count], key_words[2 * count + 1] = low, high
                put(table, hashes[i], lane, count)
                count += 1
            codes[row] = table[lane + CODES]
    return len(codes)


@compiled
def find_bytes(
    offsets: Ints,
    data: Bytes,
    table: HalvesOut,
    key_words: WordsOut,
    key_offsets: IntsOut,
    key_bytes: BytesOut,
    codes: CodesOut,
) -> None:
    """Look up the code of each byte string: arguments as `add_bytes`; unknown keys are `EMPTY`.

    In blocks, as `find_integers`: first buckets, then words, then the bytes of long keys.
    """
    words = np.empty(2 * BLOCK, np.uint64)
    hashes = np.empty(BLOCK, np.uint64)
    likely_codes = np.empty(BLOCK, np.uint64)
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
            likely_codes[likely] = code
            items[likely] = i
            likely += np.int64(is_likely & (codes[block + i] != EMPTY))
            codes[block + i] = EMPTY
            prefetch(key_words, _TWO * code)
            if words[2 * i + 1] >= _LONG:
                prefetch(key_offsets, code)
        for j in range(likely):
            if words[2 * items[j] + 1] >= _LONG:
                prefetch(key_bytes, np.uint64(key_offsets[likely_codes[j]]))
        for j in range(likely):
            i, code = items[j], likely_codes[j]
            row, low, high = block + i, words[2 * i], words[2 * i + 1]
            start, end = offsets[row], offsets[row + 1]
            is_alike = (key_words[_TWO * code] == low) & (key_words[_TWO * code + _ONE] == high)
            if is_alike and (high < _LONG or _equal(data, start, end, key_bytes, key_offsets[code])):
                codes[row] = code
            else:
                # Another key with the same tag.
                lane = _lane_of_bytes(low, high, hashes[i], data, start, end, table, key_words, key_offsets, key_bytes)
                codes[row] = EMPTY if table[lane] == FREE else np.int32(table[lane + CODES])


@compiled
def refill_bytes(key_words: Words, count: int, table: HalvesOut) -> None:
    """Insert the keys of a table into an empty, larger one."""
    for code in range(count):
        hashed = _hash_words(key_words[2 * code], key_words[2 * code + 1])
        put(table, hashed, free_lane(table, hashed), code)


@compiled
def map_codes(indices: Codes, mapping: Codes, codes: CodesOut) -> None:
    """Map dictionary indices to the codes of their values; ``codes`` are initially `EMPTY` for rows to skip."""
    for i in range(len(indices)):
        if codes[i] != EMPTY:
            codes[i] = mapping[indices[i]]
