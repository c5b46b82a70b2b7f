"""The map side of joins whose rows lie between two places: each row goes to all partitions that it touches.

It is at home where it starts. Two rows that match meet in the partition of the later of their starts, where one of them
is at home, and no pair is made anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.errors import JunctureError
from juncture.kernels.array_types import Ints
from juncture.spark.exchange.partition import Cuts
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.inequality.placement import Placed, Places
from juncture.spark.tasks.packets import Content, Packet, error_packet, write_packets
from juncture.spark.tasks.scatter import apart, encode_keys

__all__ = ["LEFT", "RIGHT", "Classes", "Spread", "homes"]


@dataclass(frozen=True)
class Classes:
    """How the rows of a side are told apart: alone in their partition, at home with copies elsewhere, and copies."""

    alone: Content
    split: Content
    copy: Content


LEFT = Classes(Content.LEFT, Content.LEFT_SPLIT, Content.LEFT_COPY)
RIGHT = Classes(Content.RIGHT, Content.RIGHT_SPLIT, Content.RIGHT_COPY)


@dataclass(frozen=True)
class Spread:
    """Sends the rows of one side to their partitions.

    Attributes
    ----------
    feed
        Where the rows come from.
    classes
        Which side they are.
    by
        The key columns, whose text is encoded.
    places, cuts
        Where they lie, and where partitions end.
    keep_unmatchable
        Whether rows that can match nothing are needed. They go to all partitions evenly.
    """

    feed: Feed
    classes: Classes
    by: tuple[str, ...]
    places: Places
    cuts: Cuts
    keep_unmatchable: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one task's packets."""
        return write_packets(self._packets(batches))

    def _packets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
        try:
            for chunk in self.feed.chunks(batches):
                table = encode_keys(chunk.combine_chunks(), self.by)
                yield from self._spread(table, self.places.place(table))
        except JunctureError as error:
            yield error_packet(error)

    def _spread(self, table: pa.Table, placed: Placed) -> Iterator[Packet]:
        first, last = homes(placed, self.cuts)
        unplaced = np.flatnonzero(~placed.valid)
        first[unplaced] = last[unplaced] = np.arange(len(unplaced)) % self.cuts.partitions
        kept = placed.valid if not self.keep_unmatchable else np.ones(len(first), np.bool_)
        for content, rows in (
            (self.classes.alone, np.flatnonzero(kept & (first == last))),
            (self.classes.split, np.flatnonzero(kept & (first < last))),
        ):
            if len(rows):
                part = table if len(rows) == table.num_rows else table.take(rows)
                yield from apart(part, first[rows], self.cuts.partitions, content)
        yield from self._copies(table, np.flatnonzero(kept & (first < last)), first, last)

    def _copies(self, table: pa.Table, rows: Ints, first: Ints, last: Ints) -> Iterator[Packet]:
        """Yield the copies of rows for all partitions behind their first, about as many at a time as there are rows."""
        counts = (last - first)[rows]
        ends = np.cumsum(counts)
        start = 0
        while start < len(rows):
            done = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + table.num_rows, "right")))
            part, times = rows[start:stop], counts[start:stop]
            copies = np.repeat(part, times)
            further = np.arange(len(copies)) - np.repeat(np.cumsum(times) - times, times) + 1
            yield from apart(table.take(copies), first[copies] + further, self.cuts.partitions, self.classes.copy)
            start = stop


def homes(placed: Placed, cuts: Cuts) -> tuple[Ints, Ints]:
    """Return the first and the last partition that each row touches."""
    first = cuts.partition_of(placed.hashes, placed.first).astype(np.int64)
    return first, cuts.partition_of(placed.hashes, placed.last).astype(np.int64)
