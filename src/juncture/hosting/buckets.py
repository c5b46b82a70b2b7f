"""Sends rows of two streams to buckets, which are the keys of Spark's stateful operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa

from juncture.columnar.key_encoding import KeyHashes
from juncture.kernels.array_types import Ints
from juncture.matching.asof import AsofCondition
from juncture.matching.condition import condition_of
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.scatter import split_by_partition
from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

_WORD = 0xFFFFFFFF


class Buckets:
    """Sends rows to buckets. Rows that match are in one bucket; there is only one if nothing has to be equal."""

    def __init__(self, join: Resolved, count: int) -> None:
        self._condition = AsofCondition(join) if isinstance(join, ResolvedAsof) else condition_of(join, ())
        types, nulls_equal = self._condition.key_types, self._condition.nulls_equal
        self._hashes = KeyHashes(*types, nulls_equal=nulls_equal) if types[0] else None
        self.count = count if types[0] else 1
        self._labels = labels(self.count)

    def packets(
        self, side: Side, batch: pa.RecordBatch, sent: pa.RecordBatch, unkeyed: Callable[[pa.RecordBatch], Ints]
    ) -> Iterator[Packet]:
        """Yield rows to their buckets, as ``sent``. ``unkeyed`` returns numbers that place rows without a match."""
        targets = self._targets(side, batch, unkeyed)
        for packet in split_by_partition(pa.Table.from_batches([sent]), targets, self.count, Content.OWNED, side):
            yield replace(packet, target=self._labels[packet.target])

    def to_all(self, side: Side, content: Content, table: pa.Table) -> Iterator[Packet]:
        """Yield a table to every bucket."""
        return (Packet(label, content, table, side) for label in self._labels)

    def _targets(self, side: Side, batch: pa.RecordBatch, unkeyed: Callable[[pa.RecordBatch], Ints]) -> Ints:
        """Return the bucket of each row."""
        if self._hashes is None:
            return np.zeros(batch.num_rows, np.int64)
        hashes, usable = self._hashes.of(self._condition.rows(batch, side).keys)
        found = ((hashes >> np.uint64(32)) * np.uint64(self.count) >> np.uint64(32)).astype(np.int64)
        if usable is not None and not usable.all():
            alone = np.flatnonzero(~usable)
            found[alone] = unkeyed(batch)[alone] % self.count
        return found


def labels(buckets: int) -> list[int]:
    """Return a number for each bucket, so that Spark puts each into its own partition, if it has as many partitions."""
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
