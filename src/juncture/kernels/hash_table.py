"""The layout of hash tables that assign a dense code to each distinct key of any type.

A table consists of buckets of one cache line, selected by the lower bits of a key's hash. A bucket has `LANES` lanes:
first their tags, the upper half of the hash made odd, and then their codes. Lanes are filled in order, and a free lane
has the tag 0. All tags of a bucket are compared at once, and a full bucket overflows to the next. A lookup therefore
nearly always touches one cache line, and no branch depends on the position or presence of a key. (Bronson and Shi,
"Open-sourcing F14 for faster, more memory-efficient hash tables", 2019.)

At most half of the lanes are used. Kernels that add keys stop at this limit, and the caller continues with a larger
table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from juncture.kernels.compiled import inlined
from juncture.kernels.intrinsics import LANES, equal_lanes, lowest_bit

EMPTY = -1
"""The code of a row without a key, or with an unknown key."""

FREE = np.uint32(0)
"""The tag of a free lane."""

CODES = np.uint64(LANES)
LAST = np.uint64(LANES - 1)
"""The positions of the first code and of the last tag in a bucket."""

_BUCKET_WORDS = 2 * LANES
_CACHE_LINE_BYTES = 64
_ODD = np.uint32(1)
_HALF = np.uint64(32)
_STEP = np.uint64(_BUCKET_WORDS)
_LAST_BIT = np.int64(1 << (LANES - 1))

Table = npt.NDArray[np.uint32]


def empty_table(keys: int) -> Table:
    """Return an empty table with room for at least a number of keys; `most_keys` is its capacity."""
    buckets = 1
    while buckets * LANES < 2 * keys:
        buckets *= 2
    line = _CACHE_LINE_BYTES // 4
    words = np.zeros(buckets * _BUCKET_WORDS + line, np.uint32)
    first = -words.ctypes.data % _CACHE_LINE_BYTES // 4
    return words[first : first + buckets * _BUCKET_WORDS]


def most_keys(table: Table) -> int:
    """Return the capacity of a table."""
    return len(table) // 4


@inlined
def mix(value: Any) -> Any:
    """Mix all bits of a key injectively (the finalizer of MurmurHash3)."""
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xC4CEB9FE1A85EC53)
    value ^= value >> np.uint64(33)
    return value


@inlined
def tag_of(hashed: Any) -> Any:
    """Return the tag of a key."""
    return np.uint32(hashed >> _HALF) | _ODD


@inlined
def bucket_of(table: Table, hashed: Any) -> Any:
    """Return the start of a key's own bucket."""
    return (hashed * _STEP) & np.uint64(len(table) - 1)


@inlined
def next_bucket(table: Table, bucket: Any) -> Any:
    """Return the start of the next bucket."""
    return (bucket + _STEP) & np.uint64(len(table) - 1)


@inlined
def candidate(table: Table, hashed: Any) -> Any:
    """Return whether a lane has a key's tag, and the code of the first such lane; otherwise any code."""
    tag = tag_of(hashed)
    bucket = bucket_of(table, hashed)
    lanes = equal_lanes(table, bucket, tag)
    # Both conditions in one, since a branch for the first would be mispredicted every other time.
    while (lanes == 0) & (table[bucket + LAST] != FREE):
        bucket = next_bucket(table, bucket)
        lanes = equal_lanes(table, bucket, tag)
    return lanes != 0, np.uint64(table[bucket + CODES + np.uint64(lowest_bit(lanes | _LAST_BIT))])


@inlined
def put(table: Table, hashed: Any, lane: Any, code: Any) -> None:
    """Fill the lane at a position."""
    table[lane] = tag_of(hashed)
    table[lane + CODES] = np.uint32(code)


@inlined
def free_lane(table: Table, hashed: Any) -> Any:
    """Return the position of the free lane for a new key."""
    bucket = bucket_of(table, hashed)
    lanes = equal_lanes(table, bucket, FREE)
    while lanes == 0:
        bucket = next_bucket(table, bucket)
        lanes = equal_lanes(table, bucket, FREE)
    return bucket + np.uint64(lowest_bit(lanes))
