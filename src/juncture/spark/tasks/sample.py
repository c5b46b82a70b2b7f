"""A few rows of a side, picked by chance: what partitions are balanced by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.errors import JunctureError
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet, error_packet, write_packets

__all__ = ["Pick"]

_SEED = 0


@dataclass(frozen=True)
class Pick:
    """Picks rows of a task.

    Attributes
    ----------
    feed
        The rows.
    content
        Which side they are.
    fraction
        The chance of each.
    """

    feed: Feed
    content: Content
    fraction: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one task's rows as packets."""
        return write_packets(self._packets(batches))

    def _packets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
        chance = np.random.default_rng(_SEED)
        try:
            for chunk in self.feed.chunks(batches):
                rows = chunk
                if self.fraction < 1:
                    rows = chunk.take(np.flatnonzero(chance.random(chunk.num_rows) < self.fraction))
                yield Packet(0, self.content, rows)
        except JunctureError as error:
            yield error_packet(error)
