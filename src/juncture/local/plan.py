"""The in-process plan of a join: what is known of the inputs, the choice, and how to run it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from juncture.errors import PlanError
from juncture.inputs import as_arrow, give_back, kind_of, paths_of
from juncture.local.kinds import KINDS, question
from juncture.local.scan import ParquetSource, Source, TableSource
from juncture.local.spill import SpillFolder, SpooledSource
from juncture.local.threads import available_cores
from juncture.planner.choose import choose
from juncture.planner.plan import Plan, Progress
from juncture.planner.stats import Resources, SideStats, Stats
from juncture.spec.resolved import Resolved

__all__ = ["plan"]


class _Input:
    """One input, whose schema is known before it is read; a stream is kept as it is read, for it comes only once."""

    def __init__(self, table: Any, side: str) -> None:
        self._side = side
        self._stream: pa.RecordBatchReader | None = None
        self._source: Source | None = None
        if kind_of(table, side) == "path":
            self._source = ParquetSource(paths_of(table))
        else:
            arrow = as_arrow(table, side)
            if isinstance(arrow, pa.Table):
                self._source = TableSource(arrow)
            else:
                self._stream = arrow
        self.schema: pa.Schema = self._source.schema if self._source is not None else arrow.schema

    def stats(self, columns: Sequence[str]) -> SideStats:
        """Return what is known without reading a row."""
        if self._source is None:
            return SideStats()
        source = "Parquet footers" if isinstance(self._source, ParquetSource) else "Arrow table"
        row_bytes = self._source.bytes_of(columns) // max(self._source.num_rows, 1)
        return SideStats(
            rows=self._source.num_rows,
            row_bytes=row_bytes,
            sources={"rows": source, "row_bytes": f"{source}, columns compared"},
        )

    def source(self, spill: SpillFolder) -> Source:
        """Return the input as something that can be read again.

        Raises
        ------
        PlanError
            If it is a stream that an earlier run has read.
        """
        if self._source is not None:
            return self._source
        if self._stream is None:
            raise PlanError(
                f"The {self._side} table is a stream, which an earlier execute() has read to its end. "
                "Plan the join again with a new one."
            )
        stream, self._stream = self._stream, None
        return SpooledSource(stream.schema, stream, spill)


def plan(spec: Any, left: Any, right: Any, *, algorithm: str, stats: Stats | None) -> Plan:
    """Plan a join of Arrow tables, streams and Parquet files.

    Parameters
    ----------
    spec, left, right, algorithm, stats
        As for `juncture.plan`.

    Raises
    ------
    SchemaError, PlanError, DataError
        As `juncture.plan` does.
    """
    ours, theirs, finish = _Input(left, "left"), _Input(right, "right"), give_back(left)
    join: Resolved = spec.resolve(ours.schema, theirs.schema)
    stats = stats or Stats(left=ours.stats(join.compared("left")), right=theirs.stats(join.compared("right")))
    resources = Resources(cores=available_cores(), memory_bytes=_memory_bytes())
    choice = choose(question(join, stats, resources), algorithm)

    def batches(progress: Progress | None) -> Iterator[pa.RecordBatch]:
        with SpillFolder() as spill:
            sources = ours.source(spill), theirs.source(spill)
            stream = KINDS[type(spec)].stream
            yield from stream(join, *sources, algorithm=choice.algorithm, spill=spill, progress=progress)

    return Plan(
        join=join,
        engine="local",
        choice=choice,
        stats=stats,
        resources=resources,
        run=lambda progress: finish(pa.Table.from_batches(batches(progress), join.output_schema)),
        stream=lambda progress: pa.RecordBatchReader.from_batches(join.output_schema, batches(progress)),
    )


def _memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
