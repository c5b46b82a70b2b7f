"""Stages of all kinds of join: join a partition, join a broadcast side, and resolve unmatched rows.

The owner of a row that other partitions may have matched sends it on as *unmatched*. Each partition with a copy that
matched sends *match marks* to the owner: the values of the columns that decide matches. Rows that agree in them match
alike, so no row needs a number, and a retried task sends the same marks. Each kind of join defines its own columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Mask
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource
from juncture.spark.tasks import engine
from juncture.spark.tasks.engine import JOIN_SHARE
from juncture.spark.tasks.feed import BroadcastTable, Feed
from juncture.spark.tasks.packets import Content, read_packets
from juncture.spark.tasks.placement import row_codes
from juncture.spark.tasks.stage import OutputStage
from juncture.spark.tasks.store import PartitionRows
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side


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


@dataclass(frozen=True)
class ResolveUnmatched(OutputStage):
    """Combines unmatched rows with match marks, which name columns of these rows."""

    join: Resolved

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield result rows on arrival, then the rows without a mark as unmatched rows of the result."""
        waiting = defaultdict[tuple[str | None, Content], list[pa.Table]](list)
        for packet in read_packets(batches):
            if packet.content is Content.OUTPUT:
                yield packet.rows
            else:
                waiting[packet.side, packet.content].append(packet.rows)
        schemas: dict[Side, pa.Schema] = {"left": self.join.left_schema, "right": self.join.right_schema}
        for side, schema in schemas.items():
            if not waiting[side, Content.UNMATCHED]:
                continue
            rows = pa.concat_tables(waiting[side, Content.UNMATCHED]).unify_dictionaries()
            matched = _marked(rows, waiting[side, Content.MARK])
            rows = rows.filter(pa.array(matched if self.join.how == "semi" else ~matched)).select(schema.names)
            if self.join.how in ("semi", "anti"):
                yield rows
            else:
                yield from engine.unmatched(self.join, side, rows, context)


def _marked(rows: pa.Table, marks: list[pa.Table]) -> Mask:
    """Return which rows agree with a mark."""
    marked = np.zeros(rows.num_rows, np.bool_)
    by_columns = defaultdict[tuple[str, ...], list[pa.Table]](list)
    for mark in marks:
        by_columns[tuple(mark.column_names)].append(mark)
    for names, tables in by_columns.items():
        codes = row_codes(pa.concat_tables([rows.select(names), *tables]).unify_dictionaries())
        marked |= np.isin(codes[: rows.num_rows], codes[rows.num_rows :])
    return marked


@dataclass(frozen=True)
class JoinBroadcast(OutputStage):
    """Joins a task's rows of one side (`feed`) with the needed columns of the whole other side (`sent`)."""

    feed: Feed
    join: Resolved
    table: BroadcastTable
    sent: Side

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        broadcast = TableSource(self.table.table(self.join.schema(self.sent).names))
        if self.sent == "right":
            for chunk in self.feed.chunks(batches):
                yield from self._joined(TableSource(chunk), broadcast, context)
        else:
            # Each left row must see all right rows of the task.
            right = self.feed.source(batches, context)
            joining = context.within(context.memory.reserve("join", JOIN_SHARE))
            yield from self._joined(broadcast, right, joining)

    def _joined(self, left: Source, right: Source, context: JoinContext) -> Iterator[pa.Table]:
        join = replace(self.join, left_schema=left.schema, right_schema=right.schema)
        yield from engine.execute(join, left, right, context)
