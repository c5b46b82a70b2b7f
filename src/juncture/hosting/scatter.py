"""The map side of a hosted join: sends rows to buckets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from juncture.hosting.buckets import BucketKeys, labels
from juncture.hosting.hosted_join import HostedJoin
from juncture.runtime.context import JoinContext
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.scatter import apart
from juncture.spark.tasks.stage import PacketStage
from juncture.spec.schema import Side


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
