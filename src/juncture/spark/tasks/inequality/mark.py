"""Match marks of joins whose rows may have copies in several partitions.

The partition of a row without copies knows whether it matches. The owner of a copied row knows only local matches. If
there are none, it sends the row on as unmatched, and each partition with a copy that matched marks the columns that
decide the row's matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Mask
from juncture.runtime.context import JoinContext
from juncture.spark.tasks import engine
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.interval_placement import Placement
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.placement import row_codes
from juncture.spark.tasks.scatter import apart
from juncture.spark.tasks.stage import PacketStage
from juncture.spark.tasks.store import ChainedRows, PartitionRows
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side


@dataclass(frozen=True)
class MarkMatches(PacketStage):
    """Finds which rows of some sides match in one partition.

    For ``semi`` and ``anti`` these are all left rows; for other joins only copied rows, as the pairs show the rest.
    """

    join: Resolved
    placements: tuple[Placement, Placement]
    cuts: Cuts
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
        """Return which rows of a side match here."""
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
        owners, _ = placement.place(marks).partitions(self.cuts)
        _, once = np.unique(row_codes(marks), return_index=True)
        yield from apart(marks.take(once), owners[once], self.cuts.partitions, Content.MARK, side)
