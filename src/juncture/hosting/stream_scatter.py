"""The map side of a hosted join: sends rows to buckets, with the greatest codes of each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from juncture.hosting.buckets import BucketKeys, labels
from juncture.matching.output import to_streaming
from juncture.runtime.context import JoinContext
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.scatter import apart
from juncture.spark.tasks.stage import PacketStage
from juncture.spec.schema import Side
from juncture.streams.plan import StreamPlan
from juncture.streams.setup import Setup

GREATEST = "greatest"
"""The column of a frontier packet: the greatest code of each order in a task."""


@dataclass(frozen=True)
class ToBuckets(PacketStage):
    """Sends the rows of one side to their buckets.

    Each task sends its greatest codes to every bucket, because buckets without rows may have final results too.
    """

    feed: Feed
    side: Side
    setup: Setup
    buckets: int

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield the packets of one task."""
        plan = StreamPlan(self.setup)
        keys, names = BucketKeys(plan.join, self.buckets), labels(self.buckets)
        orders = plan.orders[self.side]
        greatest: list[int | None] = [None] * len(orders)
        is_empty = True
        for table in self.feed.chunks(batches):
            is_empty = False
            batch = to_streaming(table.combine_chunks().to_batches()[0], plan.seen[self.side])
            for place, order in enumerate(orders):
                codes, valid = order.codes(batch)
                codes = codes if valid is None else codes[valid]
                if len(codes):
                    known = greatest[place]
                    greatest[place] = int(codes.max()) if known is None else max(known, int(codes.max()))
            rows = pa.Table.from_batches([batch])
            for packet in apart(rows, keys.of(batch, self.side), self.buckets, Content.OWNED, self.side):
                yield replace(packet, target=names[packet.target])
        if not is_empty:
            far = pa.table({GREATEST: pa.array(greatest, pa.int64())})
            for name in names:
                yield Packet(name, Content.FRONTIER, far, self.side)
