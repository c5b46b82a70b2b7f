"""What tasks do of a join of many tables to one spine: join what they have, and give it out or send it on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from juncture.local.many.run import join_tables, reports
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource
from juncture.spark.tasks.broadcast_table import BroadcastTable
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.many.exchange import SPINE, ByKey, received
from juncture.spark.tasks.packets import Packet
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spec.many import ResolvedTable

REPORT_SCHEMA = pa.schema([("table", pa.string()), ("figure", pa.string()), ("rows", pa.int64())])
"""What partitions count: figures of a table, to be added up."""


@dataclass(frozen=True)
class TaskTable:
    """A table as tasks have it.

    Attributes
    ----------
    table
        What to join, checked against the schemas of the rows as tasks have them.
    sent
        The rows, if every task has them all; None if they come in packets.
    """

    table: ResolvedTable
    sent: BroadcastTable | None = None

    def source(self, arrived: Mapping[str, Source]) -> Source:
        """Return the rows that a task has of it."""
        if self.sent is None:
            return arrived[self.table.name]
        return TableSource(self.sent.table(self.table.join.right_schema.names))


@dataclass(frozen=True)
class KeyStep:
    """What one task does with one key: the rows that come, and the tables that they are joined with.

    Attributes
    ----------
    spine
        The schema of the rows of the spine as they come.
    tables
        The tables.
    """

    spine: pa.Schema
    tables: tuple[TaskTable, ...]

    def arrived(
        self, batches: Iterable[pa.RecordBatch], context: JoinContext
    ) -> tuple[Source, list[Source], JoinContext]:
        """Return the spine and the tables in a partition to which packets were sent, and what joins may use."""
        schemas = {each.table.name: each.table.join.right_schema for each in self.tables if each.sent is None}
        rows, joining = received(batches, {SPINE: self.spine, **schemas}, context)
        return rows[SPINE], [each.source(rows) for each in self.tables], joining

    def joined(self, left: Source, rights: list[Source], context: JoinContext) -> pa.Table:
        """Return the rows of the spine with the columns of the tables."""
        return join_tables([each.table for each in self.tables], self.spine, left, rights, context)

    def counted(self, left: Source, rights: list[Source], context: JoinContext) -> pa.Table:
        """Return what a report counts of the rows."""
        rows = []
        for each, right, report in zip(
            self.tables, rights, reports([each.table for each in self.tables], left, rights, context), strict=True
        ):
            # Rows that every task has are counted once, by who sends them.
            right_rows = right.num_rows if each.sent is None else 0
            figures = {"left_rows": report.left_rows, "right_rows": right_rows, "matched": report.matched}
            figures |= dict(report.reasons)
            if report.leaked is not None:
                figures["leaked"] = report.leaked
            rows += [{"table": each.table.name, "figure": name, "rows": count} for name, count in figures.items()]
        return pa.Table.from_pylist(rows, REPORT_SCHEMA)


@dataclass(frozen=True)
class JoinKey(OutputStage):
    """Joins what a partition received, and gives out the result.

    Attributes
    ----------
    step
        What to join.
    names
        The columns of the result, in order.
    """

    step: KeyStep
    names: tuple[str, ...]

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        left, rights, joining = self.step.arrived(batches, context)
        yield self.step.joined(left, rights, joining).select(list(self.names))


@dataclass(frozen=True)
class JoinSent(OutputStage):
    """Joins the rows of the spine that a task has with tables that every task has.

    Attributes
    ----------
    feed
        The rows of the spine.
    step, names
        As for `JoinKey`.
    """

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
    """Joins what a partition received, and sends the rows on to the partitions of another key.

    Attributes
    ----------
    step
        What to join.
    sent
        The schema of the rows as they are sent, but for the encoding of keys.
    by, placement
        The other key, and where it goes.
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
    """Counts what a report says of the rows that a partition received.

    Attributes
    ----------
    step
        What to count.
    """

    step: KeyStep

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the figures."""
        left, rights, joining = self.step.arrived(batches, context)
        yield self.step.counted(left, rights, joining)


@dataclass(frozen=True)
class CountSent(OutputStage):
    """Counts the same of the rows of the spine that a task has, for tables that every task has.

    Attributes
    ----------
    feed
        The rows of the spine.
    step
        What to count.
    """

    feed: Feed
    step: KeyStep

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the figures."""
        for chunk in self.feed.chunks(batches):
            rights = [each.source({}) for each in self.step.tables]
            yield replace(self.step, spine=chunk.schema).counted(TableSource(chunk), rights, context)
