"""Joins of a partition whose rows concern no other partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.runtime.context import JoinContext
from juncture.spark.tasks import engine
from juncture.spark.tasks.packets import Content
from juncture.spark.tasks.stage import OutputStage
from juncture.spark.tasks.store import PartitionRows
from juncture.spec.resolved import Resolved


@dataclass(frozen=True)
class JoinPartition(OutputStage):
    """Joins the left rows that a partition owns with all of its right rows."""

    join: Resolved

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield result rows from earlier stages on arrival, then the joined rows."""
        partition = PartitionRows(self.join, context)
        yield from partition.receive(batches)
        left, right = partition.rows("left", Content.OWNED), partition.rows("right", Content.OWNED, Content.COPY)
        yield from engine.execute(self.join, left, right, partition.joining)
