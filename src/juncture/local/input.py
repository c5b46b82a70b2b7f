"""One input of an in-process join, whatever it comes as."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from juncture.errors import PlanError
from juncture.inputs import Files, Given, kind_of, open_files, read_table
from juncture.local.computed import with_computed
from juncture.local.statistics import Looked, look
from juncture.planner.statistics import SideStats, combined
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sources import ParquetSource, Source, TableSource
from juncture.runtime.spill import MEMORY_BYTES as SPOOLED_BYTES
from juncture.runtime.spill import SpooledSource
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side


class Input:
    """One input, whose schema is known before it is read; a stream is buffered when it is read."""

    def __init__(self, table: Any, side: Side) -> None:
        self._side = side
        self._is_read = False
        self._source: Source | None = None
        if not isinstance(table, ParquetSource):
            table = open_files(Files.of(table)) if kind_of(table, side) == "path" else read_table(table, side)
        if isinstance(table, ParquetSource):
            self._source = table
            self.given = Given(schema=table.schema)
        else:
            self.given = table
            if self.given.table is not None:
                self._source = TableSource(self.given.table)

    @property
    def is_counted(self) -> bool:
        """Whether the number of rows is known before the input is read."""
        return self._source is not None

    def look(self, join: Resolved, side: Side, given: SideStats, *, brief: bool = False) -> Looked:
        """Return what is known before the join runs: of a stream, what the caller says."""
        if self._source is None:
            return Looked(combined(given, SideStats()))
        return look(join, side, with_computed(self._source, join, side), given, brief=brief)

    def seen(self, join: Resolved, side: Side, known: SideStats, source: Source) -> SideStats:
        """Return what is known once the input can be read: a stream has been counted, whatever was said of it."""
        if self._source is not None:
            return known
        return combined(known, self._counted(join, side, source, "count"))

    def declared(self, join: Resolved, side: Side) -> SideStats:
        """Return what is known without a look at any row: nothing of a stream."""
        if self._source is None:
            return SideStats()
        where = "Parquet footers" if isinstance(self._source, ParquetSource) else "count"
        return self._counted(join, side, self._source, where)

    @staticmethod
    def _counted(join: Resolved, side: Side, source: Source, where: str) -> SideStats:
        row_bytes = with_computed(source, join, side).bytes_of(join.needed(side)) // max(source.num_rows, 1)
        return SideStats(
            rows=source.num_rows, row_bytes=row_bytes, provenance=dict.fromkeys(("rows", "row_bytes"), where)
        )

    def source(self, context: JoinContext) -> Source:
        """Return the input as a source that can be read again; raise PlanError for a stream that has been read."""
        if self._source is not None:
            return self._source.within(context.memory)
        if self.given.is_stream and self._is_read:
            raise PlanError(
                f"The {self._side} table is a reader that an earlier execute() has consumed. Plan the join again with "
                "a new reader.",
                name="JN-READER-CONSUMED",
            )
        self._is_read = True
        assert self.given.batches is not None
        schema, memory = self.given.schema, MemoryBudget(min(SPOOLED_BYTES, context.memory.total_bytes // 16))
        if self.given.number is not None:
            schema = schema.append(pa.field(self.given.number, pa.int64()))
        return SpooledSource(schema, self.given.batches(), context.spill, memory)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied; raise PlanError for a stream."""
        if self._source is None:
            raise PlanError(
                f"The plan cannot be pickled or copied, since the {self._side} table is a reader of this process. "
                "Pass a table, such as reader.read_all(), or a path.",
                name="JN-PLAN-PICKLE",
            )
        return vars(self)
