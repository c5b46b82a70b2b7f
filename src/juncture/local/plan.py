"""The in-process plan of a join: what is known of the inputs, the choice, and how to run it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from juncture.errors import PlanError
from juncture.inputs import Given, kind_of, paths_of, read_table
from juncture.inputs.frames import ArrowAnswer, FrameAnswer
from juncture.local.asof.report import match_report
from juncture.local.kinds import planning_input
from juncture.local.profile import Opened, measure
from juncture.local.statistics import Looked, look
from juncture.planner.choose import choose, serving
from juncture.planner.constants import constants_at_hand
from juncture.planner.plan import Plan
from juncture.planner.report import MatchReport
from juncture.planner.run import Run
from juncture.planner.stats import Resources, SideStats, Stats, combined
from juncture.runtime.context import JoinContext, join_context
from juncture.runtime.memory import LEAST_MEMORY_BYTES, default_budget_bytes
from juncture.runtime.progress import Report
from juncture.runtime.sources import ParquetSource, Source, TableSource
from juncture.runtime.spill import MEMORY_BYTES as SPOOLED_BYTES
from juncture.runtime.spill import SpooledSource
from juncture.runtime.threads import available_cores
from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side
from juncture.spec.size import format_size

__all__ = ["plan"]

_log = logging.getLogger(__name__)


class _Input:
    """One input, whose schema is known before it is read; a stream is kept as it is read, for it comes only once."""

    def __init__(self, table: Any, side: Side) -> None:
        self._side = side
        self._is_read = False
        self._source: Source | None = None
        if kind_of(table, side) == "path":
            self._source = ParquetSource(paths_of(table))
            self.given = Given(schema=self._source.schema)
        else:
            self.given = read_table(table, side)
            if self.given.table is not None:
                self._source = TableSource(self.given.table)

    def look(self, join: Resolved, side: Side, given: SideStats) -> Looked:
        """Return what is known before the join runs: of a stream, what the caller says."""
        if self._source is None:
            return Looked(combined(given, SideStats()))
        return look(join, side, self._source, given)

    def seen(self, join: Resolved, side: Side, known: SideStats, source: Source) -> SideStats:
        """Return what is known once the input can be read: a stream has been counted, whatever was said of it."""
        if self._source is not None:
            return known
        row_bytes = source.bytes_of(join.needed(side)) // max(source.num_rows, 1)
        counted = SideStats(
            rows=source.num_rows, row_bytes=row_bytes, sources=dict.fromkeys(("rows", "row_bytes"), "count")
        )
        return combined(known, counted)

    def source(self, context: JoinContext) -> Source:
        """Return the input as something that the join can read again.

        Raises
        ------
        PlanError
            If it is a stream that an earlier run has read.
        """
        if self._source is not None:
            return self._source.within(context.memory.total_bytes)
        if self.given.is_stream and self._is_read:
            raise PlanError(
                f"The {self._side} table is a stream, which an earlier execute() has read to its end. "
                "Plan the join again with a new one."
            )
        self._is_read = True
        assert self.given.batches is not None
        schema, memory_bytes = self.given.schema, context.memory.total_bytes
        if self.given.number is not None:
            schema = schema.append(pa.field(self.given.number, pa.int64()))
        return SpooledSource(schema, self.given.batches(), context.spill, min(SPOOLED_BYTES, memory_bytes // 16))

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied.

        Raises
        ------
        PlanError
            If it is a stream.
        """
        if self._source is None:
            raise PlanError(
                f"The {self._side} table is a stream, which comes once and to this process alone, so that the plan can "
                "be neither pickled nor copied. Pass a table instead, such as its read_all(), or a path."
            )
        return vars(self)


@dataclass(frozen=True, kw_only=True)
class _Execution:
    """A join that has been planned, to be run as often as its inputs can be read.

    Attributes
    ----------
    left, right
        The inputs.
    answer
        What is run, and made of its rows.
    as_arrow
        The same for who reads batches.
    algorithm, stats, resources
        What was chosen, and what on.
    """

    left: _Input
    right: _Input
    answer: ArrowAnswer | FrameAnswer
    as_arrow: ArrowAnswer
    algorithm: str
    stats: Stats
    resources: Resources

    def execute(self, report: Report | None) -> Any:
        """Return the joined table."""
        return self.answer.table(self._batches(self.answer.run, report))

    def stream(self, report: Report | None) -> pa.RecordBatchReader:
        """Return the rows batch by batch, as they are asked for."""
        batches = self.as_arrow.batches(self._batches(self.as_arrow.run, report))
        return pa.RecordBatchReader.from_batches(self.as_arrow.schema, batches)

    def measure(self, report: Report | None, keep: bool) -> tuple[Run, Any]:
        """Return what happened, and the joined table if it is to be kept."""
        kept: list[pa.RecordBatch] = []
        with self._context(report) as context:
            run = measure(partial(self._opened, self.answer.run), context, kept.append if keep else _forget)
        return run, self.answer.table(kept) if keep else None

    def match_report(self, report: Report | None) -> MatchReport:
        """Return what becomes of the left rows of an as-of join."""
        join = self.answer.run
        assert isinstance(join, ResolvedAsof)
        with self._context(report) as context:
            inputs = self._opened(join, context)
            return match_report(join, inputs.left, inputs.right, context)

    def _context(self, report: Report | None) -> AbstractContextManager[JoinContext]:
        return join_context(memory_bytes=self.resources.memory_bytes, report=report)

    def _batches(self, join: Resolved, report: Report | None) -> Iterator[pa.RecordBatch]:
        with self._context(report) as context:
            yield from self._opened(join, context).batches(context)

    def _opened(self, join: Resolved, context: JoinContext) -> Opened:
        """Return both sides as sources, and the algorithm that serves now that streams have been counted."""
        left, right = (side.source(context) for side in (self.left, self.right))
        seen = Stats(
            left=self.left.seen(join, "left", self.stats.left, left),
            right=self.right.seen(join, "right", self.stats.right, right),
        )
        algorithm = serving(planning_input(join, seen, self.resources), self.algorithm)
        if algorithm != self.algorithm:
            _log.info("What came is too large for %s: joining by %s", self.algorithm, algorithm)
        return Opened(join, left, right, algorithm)


def plan(
    spec: Any,
    left: Any,
    right: Any,
    *,
    algorithm: str,
    stats: Stats | None,
    memory_bytes: int | None = None,
) -> Plan:
    """Plan a join of Arrow tables, streams and Parquet files.

    Parameters
    ----------
    spec, left, right, algorithm, stats
        As for `juncture.plan`.
    memory_bytes
        How much the join may hold.

    Raises
    ------
    SchemaError, PlanError, DataError
        As `juncture.plan` does.
    """
    ours, theirs = _Input(left, "left"), _Input(right, "right")
    resolved: Resolved = spec.resolve(ours.given.schema, theirs.given.schema)
    schemas = ours.given.schema, theirs.given.schema
    as_arrow = ArrowAnswer.of(resolved, schemas, ours.given.number, theirs.given.number)
    answer: ArrowAnswer | FrameAnswer = as_arrow
    if ours.given.frame is not None:
        answer = FrameAnswer.of(resolved, schemas, ours.given.frame, theirs.given.frame, theirs.given.number)
    join = answer.run
    given = stats or Stats()
    looked = ours.look(join, "left", given.left), theirs.look(join, "right", given.right)
    stats = Stats(left=looked[0].stats, right=looked[1].stats)
    budget_bytes = _budget_bytes(memory_bytes)
    resources = Resources(cores=available_cores(), memory_bytes=budget_bytes, constants=constants_at_hand())
    choice = choose(planning_input(join, stats, resources, (looked[0].rows, looked[1].rows)), algorithm)

    execution = _Execution(
        left=ours,
        right=theirs,
        answer=answer,
        as_arrow=as_arrow,
        algorithm=choice.algorithm,
        stats=stats,
        resources=resources,
    )
    return Plan(
        join=resolved,
        engine="local",
        choice=choice,
        stats=stats,
        resources=resources,
        run=execution.execute,
        stream=execution.stream,
        measure=execution.measure,
        count_matches=execution.match_report if isinstance(resolved, ResolvedAsof) else None,
    )


def _forget(_: pa.RecordBatch) -> None:
    """Let go of a batch."""


def _budget_bytes(memory_bytes: int | None) -> int:
    """Return how much a join is told that it may hold.

    Raises
    ------
    PlanError
        If it is too little to work in.
    """
    budget = default_budget_bytes() if memory_bytes is None else memory_bytes
    if budget < LEAST_MEMORY_BYTES:
        raise PlanError(
            f"memory= leaves {format_size(budget)} to join in, which is too small: the least is "
            f"{format_size(LEAST_MEMORY_BYTES)}. Pass memory='{LEAST_MEMORY_BYTES // 10**6}MB' or more."
        )
    return budget
