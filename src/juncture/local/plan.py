"""The in-process plan of an as-of join: what is known of the inputs, the choice, and how to run it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from juncture.errors import PlanError
from juncture.inputs import as_arrow, give_back, kind_of, paths_of
from juncture.local.asof import join as join_sources
from juncture.local.scan import ParquetSource, Source, TableSource
from juncture.local.spill import SpillFolder, SpooledSource
from juncture.local.threads import available_cores
from juncture.planner.choose import choose
from juncture.planner.plan import Plan, Progress
from juncture.planner.question import Question
from juncture.planner.stats import Resources, SideStats, Stats
from juncture.spec.asof import Asof, ResolvedAsof

__all__ = ["plan_asof"]


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

    def stats(self, on: str, by: tuple[str, ...]) -> SideStats:
        """Return what is known without reading a row."""
        if self._source is None:
            return SideStats()
        source = "Parquet footers" if isinstance(self._source, ParquetSource) else "Arrow table"
        row_bytes = self._source.bytes_of([on, *by]) // max(self._source.num_rows, 1)
        return SideStats(
            rows=self._source.num_rows,
            row_bytes=row_bytes,
            sources={"rows": source, "row_bytes": f"{source}, by and on"},
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


def plan_asof(spec: Asof, left: Any, right: Any, *, algorithm: str, stats: Stats | None) -> Plan:
    """Plan an as-of join of Arrow tables, streams and Parquet files.

    Parameters
    ----------
    spec, left, right, algorithm, stats
        As for `juncture.plan`.

    Raises
    ------
    SchemaError, PlanError, DataError
        As `juncture.plan` does.
    """
    sides = _Input(left, "left"), _Input(right, "right")
    join = spec.resolve(sides[0].schema, sides[1].schema)
    if stats is None:
        stats = Stats(
            left=sides[0].stats(join.left_on, join.left_by), right=sides[1].stats(join.right_on, join.right_by)
        )
    resources = Resources(cores=available_cores(), memory_bytes=_memory_bytes())
    choice = choose(Question(join=join, engine="local", stats=stats, resources=resources), algorithm)
    return Plan(
        join=join,
        engine="local",
        choice=choice,
        stats=stats,
        resources=resources,
        run=_runner(join, sides, choice.algorithm, give_back(left)),
    )


def _runner(
    join: ResolvedAsof, sides: tuple[_Input, _Input], algorithm: Any, finish: Callable[[pa.Table], Any]
) -> Callable[[Progress | None], Any]:
    def run(progress: Progress | None) -> Any:
        with SpillFolder() as spill:
            left, right = (side.source(spill) for side in sides)
            table, _ = join_sources(join, left, right, algorithm=algorithm, progress=progress)
        return finish(table)

    return run


def _memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
