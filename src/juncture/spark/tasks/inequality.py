"""Tasks of range, overlap and predicate joins, whose rows may have copies in several partitions.

The partition of a row without copies knows whether it matches. The owner of a copied row knows only local matches. If
there are none, it sends the row on as unmatched, and each partition with a copy that matched marks the columns that
decide the row's matches.

A left row without copies is aggregated in its partition. No partition has all matches of a copied row, so right rows
that may match it are sent to its owner in a second shuffle. These are the right rows around a cut, unless windows are
long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints, Mask, Words
from juncture.runtime.context import JoinContext
from juncture.spark.tasks import engine
from juncture.spark.tasks.cuts import Cuts, KeyRanges
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.placement import Placement, row_codes
from juncture.spark.tasks.scatter import compact, split_by_partition
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spark.tasks.store import ChainedRows, PartitionRows
from juncture.spec.resolved import ROW_NUMBERS, Resolved
from juncture.spec.schema import SIDES, Side

_REPLICATED = (Content.SPLIT, Content.COPY)


@dataclass(frozen=True)
class JoinPairs(OutputStage):
    """Returns the pairs of one partition, and the unmatched rows without copies."""

    join: Resolved

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        partition = PartitionRows.of(self.join, batches, context)
        replicated = partition.count("left", *_REPLICATED) + partition.count("right", *_REPLICATED)
        if replicated and self.join.how != "inner":
            yield from self._with_unmatched(partition)
            return
        for left, right in _inputs(partition):
            yield from engine.execute(self.join, left, right, partition.joining)

    def _with_unmatched(self, partition: PartitionRows) -> Iterator[pa.Table]:
        """Yield pairs and unmatched rows without copies."""
        how = self.join.how
        sides: tuple[Side, ...] = SIDES if how == "full" else ("left",) if how == "left" else ("right",)
        pairs = replace(self.join, how="inner", numbered=sides)
        columns = range(len(pairs.output))
        single = {side: partition.rows(side, Content.OWNED) for side in sides}
        matched = {side: np.zeros(single[side].num_rows, np.bool_) for side in sides}
        for number, (left, right) in enumerate(_inputs(partition)):
            for table in engine.execute(pairs, left, right, partition.joining):
                for side in sides:
                    numbers = np.asarray(table[ROW_NUMBERS[side]])
                    # Rows without copies come first in the numbering.
                    if number == 0 or side == "left":
                        matched[side][numbers[numbers < len(matched[side])]] = True
                yield table.select(columns)
        for side in sides:
            for rows in single[side].filter(~matched[side]):
                yield from engine.unmatched(self.join, side, rows, partition.joining)


def _inputs(partition: PartitionRows) -> Iterator[tuple[ChainedRows, ChainedRows]]:
    """Yield left and right rows such that each pair, one of whose rows the partition owns, occurs once."""
    owned = (Content.OWNED, Content.SPLIT)
    yield partition.rows("left", *owned, Content.COPY), partition.rows("right", *owned)
    if partition.count("right", Content.COPY):
        yield partition.rows("left", *owned), partition.rows("right", Content.COPY)


@dataclass(frozen=True)
class MarkMatches(PacketStage):
    """Finds which rows of some sides match in one partition."""

    join: Resolved
    placements: tuple[Placement, Placement]
    cuts: Cuts
    # For ``semi`` and ``anti`` all left rows are marked; for others only copied rows, as the pairs show the rest.
    sides: tuple[Side, ...]

    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield joined rows, locally unmatched rows that another partition may have matched, and match marks."""
        partition = PartitionRows.of(self.join, batches, context)
        for side in self.sides:
            yield from self._of_side(partition, side)

    def _of_side(self, partition: PartitionRows, side: Side) -> Iterator[Packet]:
        how = self.join.how
        if how in ("semi", "anti"):
            single = partition.rows(side, Content.OWNED)
            matched = self._matched(partition, side, single)
            for rows in single.filter(matched == (how == "semi")):
                yield Packet(partition.target, Content.OUTPUT, rows)
        split = partition.rows(side, Content.SPLIT)
        matched = self._matched(partition, side, split)
        for rows in split.filter(matched) if how == "semi" else ():
            yield Packet(partition.target, Content.OUTPUT, rows)
        for rows in split.filter(~matched):
            yield Packet(partition.target, Content.UNMATCHED, rows, side)
        copies = partition.rows(side, Content.COPY)
        for rows in copies.filter(self._matched(partition, side, copies)):
            yield from self._marks(side, rows)

    def _matched(self, partition: PartitionRows, side: Side, rows: ChainedRows) -> Mask:
        matched = np.zeros(rows.num_rows, np.bool_)
        other = partition.rows("right" if side == "left" else "left", Content.OWNED, Content.SPLIT, Content.COPY)
        if not len(matched) or not other.num_rows:
            return matched
        swapped = self.join.swapped() if side == "right" else self.join
        if swapped is not None:
            pairs = replace(swapped, how="semi", output=(), numbered=("left",))
            left, right = rows, other
        else:
            pairs = replace(self.join, how="inner", output=(), numbered=("right",))
            left, right = other, rows
        for table in engine.execute(pairs, left, right, partition.joining):
            matched[np.asarray(table[0])] = True
        return matched

    def _marks(self, side: Side, rows: pa.Table) -> Iterator[Packet]:
        """Yield match marks for copies that matched here, to the partitions that own the rows."""
        placement = self.placements[0 if side == "left" else 1]
        marks = rows.select(list(placement.decisive))
        owners, _ = placement.ranges_of(marks).partitions(self.cuts)
        _, once = np.unique(row_codes(marks), return_index=True)
        yield from split_by_partition(marks.take(once), owners[once], self.cuts.partitions, Content.MARK, side)


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
                ranges = self.placements[1].ranges_of(rows)
                for owner, extent in targets.items():
                    waiting_rows = np.flatnonzero(extent.overlaps(ranges))
                    if len(waiting_rows):
                        yield Packet(owner, Content.OWNED, compact(rows.take(waiting_rows)), "right")

    def _wanted(self, partition: PartitionRows) -> dict[int, _KeyExtents]:
        """Return the extents of copied left rows, by owning partition."""
        tables = partition.rows("left", Content.SPLIT, Content.COPY).tables()
        parts = [self.placements[0].ranges_of(rows) for rows in tables]
        if not parts:
            return {}
        ranges = KeyRanges.concat(parts)
        owners, _ = ranges.partitions(self.cuts)
        return {owner: _KeyExtents.of(ranges.take(owners == owner)) for owner in np.unique(owners).tolist()}
