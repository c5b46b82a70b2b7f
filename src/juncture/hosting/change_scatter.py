"""The map side of a hosted join of changes: sends changed rows to buckets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.hosting.buckets import BucketKeys, labels
from juncture.incremental.change_batch import read_changes
from juncture.incremental.operator import identity_of
from juncture.incremental.state.records import weighted
from juncture.kernels.array_types import Ints
from juncture.matching.output import held_schema, to_streaming
from juncture.runtime.context import JoinContext
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.scatter import apart
from juncture.spark.tasks.stage import PacketStage
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side


@dataclass(frozen=True)
class ChangesToBuckets(PacketStage):
    """Sends the changes of one side to their buckets. Equal rows go to one bucket, whichever task reads them.

    ``join`` is in the types of stored rows.
    """

    feed: Feed
    schema: pa.Schema
    side: Side
    join: Resolved
    buckets: int

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield the packets of one task."""
        held = held_schema(self.join, self.side)
        identity = identity_of(held, self.side)
        # Unmatched left and right rows may be equal rows of the result, so they go to one bucket.
        rest = _together if self.join.how == "full" else identity.hashes
        keys, names = BucketKeys(self.join, self.buckets), labels(self.buckets)
        for table in self.feed.chunks(batches):
            for given, weights in read_changes(table.combine_chunks(), self.schema, self.side):
                batch = to_streaming(given, held)
                rows = pa.Table.from_batches([weighted(batch, weights)])
                targets = keys.of(batch, self.side, rest)
                for packet in apart(rows, targets, self.buckets, Content.OWNED, self.side):
                    yield replace(packet, target=names[packet.target])


def _together(batch: pa.RecordBatch) -> Ints:
    return np.zeros(batch.num_rows, np.int64)
