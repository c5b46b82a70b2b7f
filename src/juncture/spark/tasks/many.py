"""Tasks of joins of many tables to one spine, of grids and of interpolation.

Rows go to the partition of their key. A task joins the rows that it receives, then returns them or sends them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.local.asof.report import FIGURES
from juncture.local.many.answers import join_tables
from juncture.local.many.grid import between, ends_of, expanded
from juncture.local.many.report import figures
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource
from juncture.spark.tasks.engine import JOIN_SHARE
from juncture.spark.tasks.feed import BroadcastTable, Feed
from juncture.spark.tasks.packets import Packet, read_packets
from juncture.spark.tasks.placement import one_chunk
from juncture.spark.tasks.scatter import Scatter
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spark.tasks.store import ChainedRows, PacketStore
from juncture.spec.many import ResolvedTable
from juncture.spec.spines import InterpolatedColumns, ResolvedGrid

# A name that cannot clash with those of tables.
SPINE = "juncture:spine"
"""The side of packets of the spine."""

_RECEIVED_SHARE = 1 / 4  # share of a task's memory for received rows; the rest of the rows spill

_GRID_ROWS = 1 << 20


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
    """The join of one task by one key: the schema of spine rows, and the tables."""

    spine: pa.Schema
    tables: tuple[TaskTable, ...]
    # Of spine rows, if all tables are broadcast; otherwise they arrive in packets with those of the tables.
    feed: Feed | None = None

    def arrived(
        self, batches: Iterable[pa.RecordBatch], context: JoinContext
    ) -> Iterator[tuple[Source, list[Source], JoinContext]]:
        """Yield the spine and the tables that a task receives, and the context for joins."""
        if self.feed is not None:
            for chunk in self.feed.chunks(batches):
                yield TableSource(chunk), [each.source({}) for each in self.tables], context
            return
        schemas = {each.table.name: each.table.join.right_schema for each in self.tables if each.sent is None}
        schemas[SPINE] = self.spine
        stores = {
            side: PacketStore(schema, context.within(context.memory.reserve(side, _RECEIVED_SHARE / len(schemas))))
            for side, schema in schemas.items()
        }
        for packet in read_packets(batches):
            assert packet.side is not None
            stores[packet.side].add(packet)
        for store in stores.values():
            store.finish()
        joining = context.within(context.memory.reserve("join", JOIN_SHARE))
        rows: dict[str, Source] = {side: ChainedRows([store]) for side, store in stores.items()}
        yield rows[SPINE], [each.source(rows) for each in self.tables], joining

    def joined(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.Table]:
        """Yield the rows of the spine with the columns of the tables."""
        for left, rights, joining in self.arrived(batches, context):
            yield join_tables([each.table for each in self.tables], left.schema, left, rights, joining)

    def counted(self, left: Source, rights: list[Source], context: JoinContext) -> pa.Table:
        """Return the figures of a report, to be summed."""
        tables = []
        table_figures = figures([each.table for each in self.tables], left, rights, context)
        for each, right, rows in zip(self.tables, rights, table_figures, strict=True):
            # Broadcast tables are counted once, by the sender.
            size = {"figure": "right_rows", "distance": None, "rows": right.num_rows if each.sent is None else 0}
            with_size = pa.concat_tables([rows, pa.Table.from_pylist([size], FIGURES)])
            tables.append(with_size.add_column(0, "table", pa.repeat(each.table.name, with_size.num_rows)))
        return pa.concat_tables(tables)


@dataclass(frozen=True)
class JoinKey(OutputStage):
    """Joins what a task receives, and returns the result."""

    step: KeyStep
    names: tuple[str, ...]

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        for rows in self.step.joined(batches, context):
            yield rows.select(list(self.names))


@dataclass(frozen=True)
class JoinAndSend(PacketStage):
    """Joins what a task receives, and sends the rows `onward` to the partitions of another key."""

    step: KeyStep
    onward: Scatter

    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield one task's packets."""
        for rows in self.step.joined(batches, context):
            yield from self.onward.packets(rows.to_batches(), context)


@dataclass(frozen=True)
class CountTables(OutputStage):
    """Counts the rows that a task receives, for a report."""

    step: KeyStep

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the counts."""
        for left, rights, joining in self.step.arrived(batches, context):
            yield self.step.counted(left, rights, joining)


@dataclass(frozen=True)
class ExpandGrid(OutputStage):
    """Returns the grid rows of keys; the last two columns of `feed` are a key's start and end."""

    feed: Feed
    grid: ResolvedGrid

    def tables(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the rows."""
        for chunk in self.feed.chunks(batches):
            keys, (first, last) = chunk.select(chunk.column_names[:-2]), chunk.columns[-2:]
            begins = ends_of(self.grid, "first", one_chunk(first), chunk.num_rows)
            ends = ends_of(self.grid, "last", one_chunk(last), chunk.num_rows)
            usable = begins[1] & ends[1]
            for column in keys.columns:
                usable &= column.is_valid().to_numpy()
            rows, values = expanded(self.grid, np.flatnonzero(usable), begins[0][usable], ends[0][usable])
            for start in range(0, len(rows), _GRID_ROWS):
                part = slice(start, start + _GRID_ROWS)
                columns = [column.take(pa.array(rows[part])) for column in keys.columns]
                yield pa.table([*columns, values[part]], names=[*keys.column_names, self.grid.on])


@dataclass(frozen=True)
class InterpolateRows(OutputStage):
    """Interpolates between the rows before and after, which `feed` contains."""

    feed: Feed
    lines: InterpolatedColumns

    def tables(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the rows."""
        for chunk in self.feed.chunks(batches):
            yield between(self.lines, chunk)
