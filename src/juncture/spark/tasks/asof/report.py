"""What becomes of the left rows of one partition, for the match report of an as-of join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.local.asof.report import judged_rows
from juncture.runtime.context import JoinContext
from juncture.spark.tasks.packets import Content
from juncture.spark.tasks.stage import OutputStage
from juncture.spark.tasks.store import PartitionRows
from juncture.spec.asof import ResolvedAsof

JUDGED_SCHEMA = pa.schema([("reason", pa.string()), ("distance", pa.float64()), ("rows", pa.int64())])


@dataclass(frozen=True)
class JudgePartition(OutputStage):
    """Finds why left rows have no match, and how far matches are; the driver sums up."""

    join: ResolvedAsof

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield a row for each left row, and one with the number of ties."""
        partition = PartitionRows.of(self.join, batches, context)
        left, right = partition.rows("left", Content.OWNED), partition.rows("right", Content.OWNED)
        yield judged_rows(self.join, left, right, partition.joining).select(JUDGED_SCHEMA.names)
