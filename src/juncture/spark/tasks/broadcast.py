"""Joins of a large side, task by task, with a small one that every task has whole, row by row of what lies near."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from juncture.runtime.sources import TableSource
from juncture.spark.tasks import engine
from juncture.spark.tasks.broadcast_table import Small
from juncture.spark.tasks.engine import JOIN_SHARE
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.output import Output
from juncture.spec.resolved import Resolved

__all__ = ["WholeLeft", "WholeRight"]


@dataclass(frozen=True)
class WholeRight:
    """Joins the left rows of a task with the whole right side.

    Attributes
    ----------
    join
        The join, with the schemas of the rows as they come.
    feed
        The left rows.
    right
        The right side.
    memory_bytes
        How much a task may hold.
    output
        What Spark expects.
    """

    join: Resolved
    feed: Feed
    right: Small
    memory_bytes: int
    output: Output

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the joined rows."""
        return self.output.batches(self._tables(batches))

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        with engine.task_context(self.memory_bytes) as context:
            for chunk in self.feed.chunks(batches):
                right = self.right.table(self.join.right_schema.names)
                join = replace(self.join, left_schema=chunk.schema, right_schema=right.schema)
                yield from engine.execute(join, TableSource(chunk), TableSource(right), context)


@dataclass(frozen=True)
class WholeLeft:
    """Joins the whole left side with the right rows of a task.

    Attributes
    ----------
    join
        The join, with the schemas of the rows as they come.
    feed
        The right rows.
    left
        The left side.
    memory_bytes
        How much a task may hold.
    output
        What Spark expects.
    """

    join: Resolved
    feed: Feed
    left: Small
    memory_bytes: int
    output: Output

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the joined rows."""
        return self.output.batches(self._tables(batches))

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        with engine.task_context(self.memory_bytes) as context:
            left = self.left.table(self.join.left_schema.names)
            right = self.feed.source(batches, context)
            join = replace(self.join, left_schema=left.schema, right_schema=right.schema)
            joining = context.within(context.memory.reserve("join", JOIN_SHARE))
            yield from engine.execute(join, TableSource(left), right, joining)
