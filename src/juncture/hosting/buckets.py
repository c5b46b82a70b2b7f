"""Buckets: assigns rows of two streams to buckets, and buckets to Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pyarrow as pa

from juncture.columnar.key_encoding import KeyHashes
from juncture.kernels.array_types import Ints
from juncture.matching.asof import AsofCondition
from juncture.matching.condition import condition_of
from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

_WORD = 0xFFFFFFFF


class BucketKeys:
    """Assigns rows to buckets. Rows that match are in one bucket."""

    def __init__(self, join: Resolved, buckets: int) -> None:
        self._buckets = buckets
        self._condition = AsofCondition(join) if isinstance(join, ResolvedAsof) else condition_of(join, ())
        types, nulls_equal = self._condition.key_types, self._condition.nulls_equal
        self._hashes = KeyHashes(*types, nulls_equal=nulls_equal) if types[0] else None

    @property
    def is_keyed(self) -> bool:
        """Whether anything has to be equal, so that there is more than one bucket."""
        return self._hashes is not None

    def of(self, batch: pa.RecordBatch, side: Side, unkeyed: Callable[[pa.RecordBatch], Ints]) -> Ints:
        """Return the bucket of each row. ``unkeyed`` returns numbers that place rows that can match nothing."""
        if self._hashes is None:
            return np.zeros(batch.num_rows, np.int64)
        columns = self._condition.rows(batch, side).keys
        hashes, usable = self._hashes.of(columns)
        found = ((hashes >> np.uint64(32)) * np.uint64(self._buckets) >> np.uint64(32)).astype(np.int64)
        if usable is not None:
            alone = np.flatnonzero(~usable)
            if len(alone):
                found[alone] = unkeyed(batch)[alone] % self._buckets
        return found


def labels(buckets: int) -> list[int]:
    """Return a number for each bucket, so that Spark puts each into its own partition, if it has as many partitions.

    Examples
    --------
    >>> labels(3)
    [0, 1, 11]
    """
    found: dict[int, int] = {}
    for label in count():
        found.setdefault(_spark_hash(label) % buckets, label)
        if len(found) == buckets:
            return [found[bucket] for bucket in range(buckets)]
    raise AssertionError


def _spark_hash(value: int) -> int:
    """Return Spark's hash of a non-negative 32-bit integer: Murmur3 with the seed 42."""
    mixed = _turned((value * 0xCC9E2D51) & _WORD, 15) * 0x1B873593 & _WORD
    state = (_turned(42 ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    state ^= 4
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _WORD
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _WORD
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _turned(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _WORD
