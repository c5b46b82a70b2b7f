"""Sampled rows of a side, by which partitions are balanced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MEMORY_BYTES
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.stage import PacketStage
from juncture.spec.schema import Side

_SEED = 0


@dataclass(frozen=True)
class Pick(PacketStage):
    """Samples rows of a task with the probability `fraction`."""

    feed: Feed
    side: Side
    fraction: float
    # Buffers one chunk, independent of the memory limits of joins.
    memory_bytes: int = field(default=MEMORY_BYTES, kw_only=True)

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield one task's sampled rows."""
        chance = np.random.default_rng(_SEED)
        for chunk in self.feed.chunks(batches):
            rows = chunk
            if self.fraction < 1:
                rows = chunk.take(np.flatnonzero(chance.random(chunk.num_rows) < self.fraction))
            yield Packet(0, Content.OWNED, rows, self.side)
