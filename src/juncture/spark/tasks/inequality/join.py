"""The pairs of one partition, whose rows may have copies in other partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.runtime.context import JoinContext
from juncture.spark.tasks import engine
from juncture.spark.tasks.packets import Content
from juncture.spark.tasks.stage import OutputStage
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
        kept: tuple[Side, ...] = SIDES if how == "full" else ("left",) if how == "left" else ("right",)
        pairs = replace(self.join, how="inner", numbered=kept)
        columns = range(len(pairs.output))
        single = {side: partition.rows(side, Content.OWNED) for side in kept}
        matched = {side: np.zeros(single[side].num_rows, np.bool_) for side in kept}
        for number, (left, right) in enumerate(_inputs(partition)):
            for table in engine.execute(pairs, left, right, partition.joining):
                for side in kept:
                    numbers = np.asarray(table[ROW_NUMBERS[side]])
                    # Rows without copies come first in the numbering.
                    if number == 0 or side == "left":
                        matched[side][numbers[numbers < len(matched[side])]] = True
                yield table.select(columns)
        for side in kept:
            for rows in single[side].filter(~matched[side]):
                yield from engine.unmatched(self.join, side, rows, partition.joining)


def _inputs(partition: PartitionRows) -> Iterator[tuple[ChainedRows, ChainedRows]]:
    """Yield left and right rows such that each pair, one of whose rows the partition owns, occurs once."""
    owned = (Content.OWNED, Content.SPLIT)
    yield partition.rows("left", *owned, Content.COPY), partition.rows("right", *owned)
    if partition.count("right", Content.COPY):
        yield partition.rows("left", *owned), partition.rows("right", Content.COPY)
