"""The in-process plan of a join: what is known of the inputs, the choice, and how to run it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from juncture.errors import PlanError
from juncture.inputs import as_arrow, give_back, kind_of, paths_of
from juncture.local import asof, overlap, where
from juncture.local import range as ranges
from juncture.local.scan import ParquetSource, Source, TableSource
from juncture.local.spill import SpillFolder, SpooledSource
from juncture.local.threads import available_cores
from juncture.planner.choose import choose
from juncture.planner.plan import Plan, Progress
from juncture.planner.question import Choice, Question
from juncture.planner.stats import Resources, SideStats, Stats
from juncture.spec.asof import Asof
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.resolved import Resolved
from juncture.spec.where import Where

__all__ = ["plan_asof", "plan_overlap", "plan_range", "plan_where"]


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

    def stats(self, columns: Iterable[str]) -> SideStats:
        """Return what is known without reading a row."""
        if self._source is None:
            return SideStats()
        source = "Parquet footers" if isinstance(self._source, ParquetSource) else "Arrow table"
        row_bytes = self._source.bytes_of(list(dict.fromkeys(columns))) // max(self._source.num_rows, 1)
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


@dataclass(frozen=True)
class _Inputs:
    """The two inputs of a join, and the type that its answer is given back in."""

    left: _Input
    right: _Input
    finish: Callable[[pa.Table], Any]

    @classmethod
    def of(cls, left: Any, right: Any) -> _Inputs:
        return cls(_Input(left, "left"), _Input(right, "right"), give_back(left))

    def stats(self, stats: Stats | None, left: Iterable[str | None], right: Iterable[str | None]) -> Stats:
        """Return what is given, or what is known of the columns compared."""
        if stats is not None:
            return stats
        ours, theirs = ([name for name in names if name is not None] for names in (left, right))
        return Stats(left=self.left.stats(ours), right=self.right.stats(theirs))


Work = Callable[[Source, Source, SpillFolder, str, Progress | None], "Iterator[pa.RecordBatch] | pa.Table"]
"""Joins two sources by an algorithm, and returns the answer in batches as they are asked for, or whole."""


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
    inputs = _Inputs.of(left, right)
    join = spec.resolve(inputs.left.schema, inputs.right.schema)
    stats = inputs.stats(stats, (join.left_on, *join.left_by), (join.right_on, *join.right_by))

    def whole(left: Source, right: Source, _spill: SpillFolder, algorithm: Any, progress: Progress | None) -> pa.Table:
        return asof.join(join, left, right, algorithm=algorithm, progress=progress)[0]

    return _plan(join, inputs, stats, algorithm, whole)


def plan_range(spec: Range, left: Any, right: Any, *, algorithm: str, stats: Stats | None) -> Plan:
    """Plan a range join: as `plan_asof`."""
    inputs = _Inputs.of(left, right)
    join = spec.resolve(inputs.left.schema, inputs.right.schema)
    stats = inputs.stats(stats, (join.left_on, *join.left_by), (join.right_on, *join.right_by))

    def stream(
        left: Source, right: Source, spill: SpillFolder, algorithm: Any, progress: Progress | None
    ) -> Iterator[pa.RecordBatch]:
        return ranges.stream(join, left, right, algorithm=algorithm, spill=spill, progress=progress)

    return _plan(join, inputs, stats, algorithm, stream)


def plan_overlap(spec: Overlap, left: Any, right: Any, *, algorithm: str, stats: Stats | None) -> Plan:
    """Plan an overlap join: as `plan_asof`."""
    inputs = _Inputs.of(left, right)
    join = spec.resolve(inputs.left.schema, inputs.right.schema)
    stats = inputs.stats(stats, (*join.left_interval, *join.left_by), (*join.right_interval, *join.right_by))

    def stream(
        left: Source, right: Source, spill: SpillFolder, algorithm: Any, progress: Progress | None
    ) -> Iterator[pa.RecordBatch]:
        return overlap.stream(join, left, right, algorithm=algorithm, spill=spill, progress=progress)

    return _plan(join, inputs, stats, algorithm, stream)


def plan_where(spec: Where, left: Any, right: Any, *, algorithm: str, stats: Stats | None) -> Plan:
    """Plan a predicate join: as `plan_asof`."""
    inputs = _Inputs.of(left, right)
    join = spec.resolve(inputs.left.schema, inputs.right.schema)
    conditions = where.Conditions.of(join)
    stats = inputs.stats(stats, conditions.columns("left"), conditions.columns("right"))

    def stream(
        left: Source, right: Source, spill: SpillFolder, algorithm: Any, progress: Progress | None
    ) -> Iterator[pa.RecordBatch]:
        return where.stream(join, left, right, algorithm=algorithm, spill=spill, progress=progress)

    plan = _plan(join, inputs, stats, conditions.algorithm if algorithm == "auto" else algorithm, stream)
    where.check_serves(conditions, plan.choice.algorithm)
    return replace(plan, choice=_by_shape(plan.choice, conditions, named=algorithm != "auto"))


def _by_shape(choice: Choice, conditions: where.Conditions, *, named: bool) -> Choice:
    """Return a choice whose reasons are what the predicate offers."""
    options = tuple(replace(each, refusal=where.refusal(conditions, each.algorithm)) for each in choice.options)
    reason = choice.reason if named else "it makes the most of what the predicate offers"
    return replace(choice, reason=reason, options=options)


def _plan(join: Resolved, inputs: _Inputs, stats: Stats, algorithm: str, work: Work) -> Plan:
    resources = Resources(cores=available_cores(), memory_bytes=_memory_bytes())
    choice = choose(Question(join=join, engine="local", stats=stats, resources=resources), algorithm)

    def batches(progress: Progress | None) -> Iterator[pa.RecordBatch]:
        with SpillFolder() as spill:
            answer = work(inputs.left.source(spill), inputs.right.source(spill), spill, choice.algorithm, progress)
            yield from answer.to_batches() if isinstance(answer, pa.Table) else answer

    def run(progress: Progress | None) -> Any:
        with SpillFolder() as spill:
            answer = work(inputs.left.source(spill), inputs.right.source(spill), spill, choice.algorithm, progress)
            if not isinstance(answer, pa.Table):
                answer = pa.Table.from_batches(answer, join.output_schema)
        return inputs.finish(answer)

    return Plan(
        join=join,
        engine="local",
        choice=choice,
        stats=stats,
        resources=resources,
        run=run,
        stream=lambda progress: pa.RecordBatchReader.from_batches(join.output_schema, batches(progress)),
    )


def _memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
