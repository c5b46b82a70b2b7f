"""Joins of a partitioned side with a whole side in every task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from juncture.runtime.context import JoinContext
from juncture.runtime.sources import TableSource
from juncture.spark.tasks import engine
from juncture.spark.tasks.broadcast_table import BroadcastTable
from juncture.spark.tasks.engine import JOIN_SHARE
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.stage import OutputStage
from juncture.spec.resolved import Resolved


@dataclass(frozen=True)
class JoinBroadcastRight(OutputStage):
    """Joins the left rows of a task (`feed`) with the needed columns of the whole right side."""

    feed: Feed
    join: Resolved
    right: BroadcastTable

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        for chunk in self.feed.chunks(batches):
            right = self.right.table(self.join.right_schema.names)
            join = replace(self.join, left_schema=chunk.schema, right_schema=right.schema)
            yield from engine.execute(join, TableSource(chunk), TableSource(right), context)


@dataclass(frozen=True)
class JoinBroadcastLeft(OutputStage):
    """Joins the whole left side with the right rows of a task (`feed`)."""

    feed: Feed
    join: Resolved
    left: BroadcastTable

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        left = self.left.table(self.join.left_schema.names)
        right = self.feed.source(batches, context)
        join = replace(self.join, left_schema=left.schema, right_schema=right.schema)
        joining = context.within(context.memory.reserve("join", JOIN_SHARE))
        yield from engine.execute(join, TableSource(left), right, joining)
