"""The map side of a hosted join: the rows of a side on their way to buckets, and how far the side has come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from juncture.runtime.context import JoinContext
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.scatter import apart
from juncture.spark.tasks.stage import PacketStage
from juncture.spec.schema import Side
from juncture.streams.output import streaming_join, to_streaming
from juncture.streams.plan import StreamPlan
from juncture.streams.setup import Setup
from juncture.streams.spark.buckets import BucketKeys, labels

GREATEST = "greatest"
"""The column of a frontier's packet: of each order the greatest code that a task has seen."""


@dataclass(frozen=True)
class ToBuckets(PacketStage):
    """Sends the rows of one side to their buckets.

    Each task tells every bucket how far it has come: also buckets without rows have to give what is final.

    Attributes
    ----------
    feed
        Where the rows come from.
    side
        Which side they are of.
    setup
        What the join is made of.
    buckets
        How many there are.
    """

    feed: Feed
    side: Side
    setup: Setup
    buckets: int

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield one task's packets."""
        plan = StreamPlan(self.setup)
        keys = BucketKeys(
            streaming_join(plan.setup.spec.resolve(self.setup.left_schema, self.setup.right_schema)), self.buckets
        )
        names = labels(self.buckets)
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
