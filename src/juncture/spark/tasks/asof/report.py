"""What becomes of the left rows of one partition, for the match report of an as-of join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.local.asof.report import figures_of
from juncture.runtime.context import JoinContext
from juncture.spark.tasks.packets import Content
from juncture.spark.tasks.stage import OutputStage
from juncture.spark.tasks.store import PartitionRows
from juncture.spec.asof import ResolvedAsof


@dataclass(frozen=True)
class CountMatches(OutputStage):
    """Counts why left rows have no match, and how far matches are; the driver sums up."""

    join: ResolvedAsof

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the figures of the partition."""
        partition = PartitionRows.of(self.join, batches, context)
        left, right = partition.rows("left", Content.OWNED), partition.rows("right", Content.OWNED)
        yield figures_of(self.join, left, right, partition.joining)
