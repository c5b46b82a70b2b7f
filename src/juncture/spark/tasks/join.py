"""Joins of the rows of a partition that nobody else has to hear of."""

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
    """Joins the left rows that a partition owns with all right rows that it has.

    Attributes
    ----------
    join
        The join, with the schemas of the rows as they come in packets.
    """

    join: Resolved

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield rows that are ready as they come, and then the joined ones."""
        partition = PartitionRows(self.join, context)
        yield from partition.receive(batches)
        left, right = partition.rows("left", Content.OWNED), partition.rows("right", Content.OWNED, Content.COPY)
        yield from engine.execute(self.join, left, right, partition.joining)
