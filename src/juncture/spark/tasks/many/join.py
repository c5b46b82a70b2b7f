"""Tasks of a join of many tables to one spine: join the received rows, then return them or send them on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from juncture.local.asof.report import FIGURES
from juncture.local.many.answers import join_tables
from juncture.local.many.report import figures
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource
from juncture.spark.tasks.broadcast_table import BroadcastTable
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.many.exchange import SPINE, ByKey, received
from juncture.spark.tasks.packets import Packet
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spec.many import ResolvedTable

REPORT_SCHEMA = pa.schema([("table", pa.string()), *FIGURES])
"""The figures of a table in one partition, to be summed."""


@dataclass(frozen=True)
class TaskTable:
    """A table in tasks, resolved against their schemas; `sent` has its rows if it is broadcast."""

    table: ResolvedTable
    sent: BroadcastTable | None = None

    def source(self, arrived: Mapping[str, Source]) -> Source:
        """Return the rows of the table in this task."""
        if self.sent is None:
            return arrived[self.table.name]
        return TableSource(self.sent.table(self.table.join.right_schema.names))


@dataclass(frozen=True)
class KeyStep:
    """The join of one task by one key: the schema of received spine rows, and the tables."""

    spine: pa.Schema
    tables: tuple[TaskTable, ...]

    def arrived(
        self, batches: Iterable[pa.RecordBatch], context: JoinContext
    ) -> tuple[Source, list[Source], JoinContext]:
        """Return the spine and the tables that a partition received, and the context for joins."""
        schemas = {each.table.name: each.table.join.right_schema for each in self.tables if each.sent is None}
        rows, joining = received(batches, {SPINE: self.spine, **schemas}, context)
        return rows[SPINE], [each.source(rows) for each in self.tables], joining

    def joined(self, left: Source, rights: list[Source], context: JoinContext) -> pa.Table:
        """Return the rows of the spine with the columns of the tables."""
        return join_tables([each.table for each in self.tables], self.spine, left, rights, context)

    def counted(self, left: Source, rights: list[Source], context: JoinContext) -> pa.Table:
        """Return the figures of a report, to be summed."""
        tables = []
        found = figures([each.table for each in self.tables], left, rights, context)
        for each, right, rows in zip(self.tables, rights, found, strict=True):
            # Broadcast tables are counted once, by the sender.
            sizes = {"left_rows": left.num_rows, "right_rows": right.num_rows if each.sent is None else 0}
            counts = [{"figure": name, "distance": None, "rows": count} for name, count in sizes.items()]
            whole = pa.concat_tables([rows, pa.Table.from_pylist(counts, FIGURES)])
            tables.append(whole.add_column(0, "table", pa.repeat(each.table.name, whole.num_rows)))
        return pa.concat_tables(tables)


@dataclass(frozen=True)
class JoinKey(OutputStage):
    """Joins what a partition received, and returns the result."""

    step: KeyStep
    names: tuple[str, ...]

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        left, rights, joining = self.step.arrived(batches, context)
        yield self.step.joined(left, rights, joining).select(list(self.names))


@dataclass(frozen=True)
class JoinSent(OutputStage):
    """Joins a task's rows of the spine (`feed`) with broadcast tables."""

    feed: Feed
    step: KeyStep
    names: tuple[str, ...]

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        for chunk in self.feed.chunks(batches):
            rights = [each.source({}) for each in self.step.tables]
            step = replace(self.step, spine=chunk.schema)
            yield step.joined(TableSource(chunk), rights, context).select(list(self.names))


@dataclass(frozen=True)
class JoinAndSend(PacketStage):
    """Joins what a partition received, and sends the rows to the partitions of another key (`by`).

    `sent` is the schema of these rows before keys are encoded.
    """

    step: KeyStep
    sent: pa.Schema
    by: tuple[str, ...]
    placement: ByKey

    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield one task's packets."""
        left, rights, joining = self.step.arrived(batches, context)
        table = self.step.joined(left, rights, joining).cast(self.sent)
        if table.num_rows:
            yield from self.placement.sent(table, self.by, SPINE, keep_all=True)


@dataclass(frozen=True)
class CountPartition(OutputStage):
    """Counts the rows that a partition received, for a report."""

    step: KeyStep

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the counts."""
        left, rights, joining = self.step.arrived(batches, context)
        yield self.step.counted(left, rights, joining)


@dataclass(frozen=True)
class CountSent(OutputStage):
    """Counts a task's rows of the spine (`feed`) for broadcast tables."""

    feed: Feed
    step: KeyStep

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the counts."""
        for chunk in self.feed.chunks(batches):
            rights = [each.source({}) for each in self.step.tables]
            yield replace(self.step, spine=chunk.schema).counted(TableSource(chunk), rights, context)
