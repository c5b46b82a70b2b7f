"""Assigns rows of two streams to buckets, and sends them to Spark's tasks, which have one bucket each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pyarrow as pa

from juncture.columnar.key_encoding import KeyHashes
from juncture.hosting.hosted_join import HostedJoin
from juncture.kernels.array_types import Ints
from juncture.matching.asof import AsofCondition
from juncture.matching.condition import condition_of
from juncture.runtime.context import JoinContext
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.scatter import apart
from juncture.spark.tasks.stage import PacketStage
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


@dataclass(frozen=True)
class ToBuckets(PacketStage):
    """Sends the rows of one side to their buckets."""

    feed: Feed
    hosted: HostedJoin
    side: Side
    buckets: int

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield the packets of one task."""
        sender = self.hosted.sender(self.side)
        keys, names = BucketKeys(self.hosted.join, self.buckets), labels(self.buckets)
        for table in self.feed.chunks(batches):
            for keyed, batch in sender.rows(table.combine_chunks()):
                targets = keys.of(keyed, self.side, sender.unkeyed)
                rows = pa.Table.from_batches([batch])
                for packet in apart(rows, targets, self.buckets, Content.OWNED, self.side):
                    yield replace(packet, target=names[packet.target])
        frontier = sender.frontier()
        if frontier is not None:
            for name in names:
                yield Packet(name, Content.FRONTIER, frontier, self.side)
