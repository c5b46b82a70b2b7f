"""Aggregates of left rows that may have copies in several partitions.

A left row without copies is aggregated in its partition. No partition has all matches of a copied row, so right rows
that may match it are sent to its owner in a second shuffle. These are the right rows around a cut, unless windows are
long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints, Mask, Words
from juncture.runtime.context import JoinContext
from juncture.spark.tasks import engine
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.interval_placement import Placement
from juncture.spark.tasks.key_range import KeyRanges
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.scatter import compact
from juncture.spark.tasks.stage import PacketStage
from juncture.spark.tasks.store import PartitionRows
from juncture.spec.resolved import Resolved


@dataclass(frozen=True)
class _KeyExtents:
    """The range of codes that the left rows of each key need; `hashes` are sorted."""

    hashes: Words
    first: Ints
    last: Ints

    @classmethod
    def of(cls, ranges: KeyRanges) -> _KeyExtents:
        """Return the extents of left rows."""
        hashes, which = np.unique(ranges.hashes, return_inverse=True)
        first, last = np.full(len(hashes), 2**63 - 1), np.full(len(hashes), -(2**63))
        np.minimum.at(first, which, ranges.first)
        np.maximum.at(last, which, ranges.last)
        return cls(hashes, first, last)

    def overlaps(self, ranges: KeyRanges) -> Mask:
        """Return which right rows may match."""
        at = np.minimum(np.searchsorted(self.hashes, ranges.hashes), len(self.hashes) - 1)
        same = ranges.valid & (self.hashes[at] == ranges.hashes)
        return np.asarray(same & (ranges.first <= self.last[at]) & (ranges.last >= self.first[at]), np.bool_)


@dataclass(frozen=True)
class BoundaryAggregate(PacketStage):
    """Aggregates left rows without copies, and sends right rows to the owners of copied left rows."""

    join: Resolved
    placements: tuple[Placement, Placement]
    cuts: Cuts

    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield joined rows, waiting left rows, and right rows for them."""
        partition = PartitionRows.of(self.join, batches, context)
        left = partition.rows("left", Content.OWNED)
        right = partition.rows("right", Content.OWNED, Content.SPLIT, Content.COPY)
        for table in engine.execute(self.join, left, right, partition.joining):
            yield Packet(partition.target, Content.OUTPUT, table)
        for rows in partition.rows("left", Content.SPLIT).tables():
            yield Packet(partition.target, Content.OWNED, rows, "left")
        wanted = self._wanted(partition)
        if not wanted:
            return
        # Copied right rows serve only left rows that this partition owns; their owners send them to other partitions.
        here = {owner: extent for owner, extent in wanted.items() if owner == partition.target}
        for contents, targets in (((Content.OWNED, Content.SPLIT), wanted), ((Content.COPY,), here)):
            for rows in partition.rows("right", *contents).tables():
                ranges = self.placements[1].place(rows)
                for owner, extent in targets.items():
                    found = np.flatnonzero(extent.overlaps(ranges))
                    if len(found):
                        yield Packet(owner, Content.OWNED, compact(rows.take(found)), "right")

    def _wanted(self, partition: PartitionRows) -> dict[int, _KeyExtents]:
        """Return the extents of copied left rows, by owning partition."""
        tables = partition.rows("left", Content.SPLIT, Content.COPY).tables()
        parts = [self.placements[0].place(rows) for rows in tables]
        if not parts:
            return {}
        ranges = KeyRanges.concat(parts)
        owners, _ = ranges.partitions(self.cuts)
        return {owner: _KeyExtents.of(ranges.take(owners == owner)) for owner in np.unique(owners).tolist()}
