"""The map side of an as-of join's shuffle: a task's rows, and the boundary rows that other partitions have to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.errors import JunctureError
from juncture.spark.exchange.partition import Cuts
from juncture.spark.tasks.asof.boundary import EdgeRows, Edges
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet, error_packet, write_packets
from juncture.spark.tasks.placement import Coding, place
from juncture.spark.tasks.scatter import apart, encode_keys

__all__ = ["Scatter"]


@dataclass(frozen=True)
class Scatter:
    """Sends the rows of one side to their partitions.

    Attributes
    ----------
    feed
        Where the rows come from.
    content
        Which side they are.
    by, on
        The columns that place them.
    coding, cuts
        How.
    keep_unmatchable
        Whether rows without a key or an ``on`` are needed. They go to all partitions evenly.
    edges
        What is carried to other partitions besides, if anything.
    """

    feed: Feed
    content: Content
    by: tuple[str, ...]
    on: str
    coding: Coding
    cuts: Cuts
    keep_unmatchable: bool
    edges: Edges | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one task's packets."""
        return write_packets(self._packets(batches))

    def _packets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
        edges = []
        try:
            for chunk in self.feed.chunks(batches):
                table = encode_keys(chunk.combine_chunks(), self.by)
                hashes, codes, valid = place(table, self.by, self.on, self.coding)
                targets = self.cuts.partition_of(hashes, codes)
                targets[~valid] = np.arange(np.count_nonzero(~valid)) % self.cuts.partitions
                if self.edges is not None:
                    split = np.flatnonzero(valid & np.isin(hashes, self.cuts.split_hashes))
                    numbers = np.arange(table.num_rows)
                    edges.append(self.edges.of(EdgeRows(table, hashes, targets, numbers).take(split)))
                if not self.keep_unmatchable and not valid.all():
                    rows = np.flatnonzero(valid)
                    table, targets = table.take(rows), targets[rows]
                yield from apart(table, targets, self.cuts.partitions, self.content)
            if self.edges is not None and edges:
                yield from self.edges.carried(edges, self.cuts)
        except JunctureError as error:
            yield error_packet(error)
