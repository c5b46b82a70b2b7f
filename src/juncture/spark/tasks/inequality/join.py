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
from juncture.spark.tasks.store import NUMBERS, ChainedRows, PartitionRows
from juncture.spec.resolved import Resolved
from juncture.spec.schema import OutputColumn, Side

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
        keeps: dict[Side, bool] = {"left": how in ("left", "full"), "right": how in ("right", "full")}
        kept = [side for side in NUMBERS if keeps[side]]
        pairs = _numbered_pairs(self.join, keeps)
        single = {side: partition.rows(side, Content.OWNED) for side in kept}
        matched = {side: np.zeros(single[side].num_rows, np.bool_) for side in kept}
        for number, (left, right) in enumerate(_inputs(partition, numbered=True)):
            for table in engine.execute(pairs, left, right, partition.joining):
                for side in kept:
                    numbers = np.asarray(table[NUMBERS[side]])
                    # Rows without copies come first in the numbering.
                    if number == 0 or side == "left":
                        matched[side][numbers[numbers < len(matched[side])]] = True
                yield table.drop_columns([NUMBERS[side] for side in kept])
        for side in kept:
            for rows in single[side].filter(~matched[side]):
                yield from engine.unmatched(self.join, side, rows, partition.joining)


def _inputs(partition: PartitionRows, *, numbered: bool = False) -> Iterator[tuple[ChainedRows, ChainedRows]]:
    """Yield left and right rows such that each pair, one of whose rows the partition owns, occurs once."""
    owned = (Content.OWNED, Content.SPLIT)
    yield (
        partition.rows("left", *owned, Content.COPY, numbered=numbered),
        partition.rows("right", *owned, numbered=numbered),
    )
    if partition.count("right", Content.COPY):
        left = partition.rows("left", *owned, numbered=numbered)
        yield left, partition.rows("right", Content.COPY, numbered=numbered)


def _numbered_pairs(join: Resolved, shown: dict[Side, bool]) -> Resolved:
    """Return a join that returns pairs of row numbers of some sides."""
    output = list(join.output)
    if shown["left"]:
        left_count = sum(column.side == "left" for column in output)
        output.insert(left_count, OutputColumn(NUMBERS["left"], "left", NUMBERS["left"]))
    if shown["right"]:
        output.append(OutputColumn(NUMBERS["right"], "right", NUMBERS["right"]))
    return replace(
        join,
        how="inner",
        left_schema=join.left_schema.append(pa.field(NUMBERS["left"], pa.int64())),
        right_schema=join.right_schema.append(pa.field(NUMBERS["right"], pa.int64())),
        output=tuple(output),
    )
