"""The in-process plan of a join: what is known of the inputs, the choice, and how to run it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from juncture.errors import SpecError
from juncture.inputs.frames import ArrowAnswer, FrameAnswer
from juncture.local.computed import with_computed
from juncture.local.explain_row import explain_row, row_report
from juncture.local.input import Input
from juncture.local.kinds import REPORTS, match, planning_input
from juncture.local.output.numbered import number_column
from juncture.local.profile import Opened, measure
from juncture.planner.choose import cheapest, choose, serving
from juncture.planner.plan import Plan
from juncture.planner.planning_input import PlanningInput
from juncture.planner.report import MatchReport, Measured, RowExplanation
from juncture.planner.statistics import Resources, Stats
from juncture.runtime.context import JoinContext, join_context
from juncture.runtime.progress import Report
from juncture.spec.resolved import Resolved

_log = logging.getLogger(__name__)

_SHORT_S = 0.003
"""The expected time of a join below which waking threads takes longer than they save."""


@dataclass(frozen=True, kw_only=True)
class _Execution:
    """A join that has been planned, to be run as often as its inputs can be read."""

    left: Input
    right: Input
    answer: ArrowAnswer | FrameAnswer  # runs the join, and converts its rows
    as_arrow: ArrowAnswer  # the same for Arrow batches
    algorithm: str
    cost_s: float | None  # the expected time, if it is estimated
    stats: Stats
    resources: Resources

    def execute(self, report: Report | None) -> Any:
        """Return the joined table."""
        return self._as_given(self._batches(self.answer.run, report))

    def stream(self, report: Report | None) -> pa.RecordBatchReader:
        """Return the rows as a reader of batches."""
        batches = self.as_arrow.batches(self._batches(self.as_arrow.run, report))
        return pa.RecordBatchReader.from_batches(self.as_arrow.schema, batches)

    def measure(self, report: Report | None, keep: bool) -> tuple[Measured, Any]:
        """Return what happened, and the joined table if it is to be kept."""
        kept: list[pa.RecordBatch] = []
        with self._context(report) as context:
            run = measure(partial(self._opened, self.answer.run), context, kept.append if keep else _forget)
        return run, self._as_given(kept) if keep else None

    def match(self, report: Report | None) -> pa.Table:
        """Return the row numbers of the matches."""
        with self._context(report) as context:
            inputs = self._opened(self.as_arrow.run.row_pairs(), context)
            pairs = list(match(inputs.join, inputs.left, inputs.right, inputs.algorithm, context))
        columns = [pa.chunked_array(map(number_column, rows), pa.int64()) for rows in zip(*pairs, strict=True)]
        return pa.table(columns or [pa.array([], pa.int64())] * 2, names=["left_row", "right_row"])

    def match_report(self, report: Report | None) -> MatchReport:
        """Return what becomes of the left rows."""
        join = self.answer.run
        with self._context(report) as context:
            inputs = self._opened(join, context)
            return REPORTS[type(join.spec)](join, inputs.left, inputs.right, context)

    def row_report(self, report: Report | None) -> pa.Table:
        """Return a row for each left row: its best match, or why there is none."""
        with self._context(report) as context:
            inputs = self._opened(self.as_arrow.run, context)
            return row_report(inputs.join, inputs.left, inputs.right, inputs.algorithm, context).table()

    def explain_row(self, row: int) -> RowExplanation:
        """Return why a left row has the matches that it has, or none."""
        with self._context(None) as context:
            inputs = self._opened(self.as_arrow.run, context)
            if not 0 <= row < inputs.left.num_rows:
                raise SpecError(
                    f"row={row} is not a row of the left table, which has {inputs.left.num_rows:,} rows. Expected a "
                    "number from 0.",
                    name="JN-ARGUMENT-VALUE",
                )
            return explain_row(inputs.join, inputs.left, inputs.right, row, inputs.algorithm, context)

    def _as_given(self, batches: Iterable[pa.RecordBatch]) -> Any:
        """Return rows as a table such as the left one is."""
        return self.left.given.as_given(self.answer.table(batches))

    def _context(self, report: Report | None) -> AbstractContextManager[JoinContext]:
        is_counted = self.left.is_counted and self.right.is_counted
        is_short = is_counted and self.cost_s is not None and self.cost_s < _SHORT_S
        return join_context(
            threads=1 if is_short else None,
            memory_bytes=self.resources.memory_bytes,
            in_order=self.resources.in_order,
            report=report,
        )

    def _batches(self, join: Resolved, report: Report | None) -> Iterator[pa.RecordBatch]:
        with self._context(report) as context:
            yield from self._opened(join, context).batches(context)

    def _opened(self, join: Resolved, context: JoinContext) -> Opened:
        """Return both sides as sources, and the algorithm that serves now that streams have been counted."""
        left = with_computed(self.left.source(context), join, "left")
        right = with_computed(self.right.source(context), join, "right")
        if self.left.is_counted and self.right.is_counted:
            return Opened(join, left, right, self.algorithm)
        seen = Stats(
            left=self.left.seen(join, "left", self.stats.left, left),
            right=self.right.seen(join, "right", self.stats.right, right),
        )
        algorithm = serving(planning_input(join, seen, self.resources), self.algorithm)
        if algorithm != self.algorithm:
            _log.info("What came is too large for %s: joining by %s", self.algorithm, algorithm)
        return Opened(join, left, right, algorithm)


@dataclass(frozen=True, kw_only=True)
class ReadyJoin:
    """A join whose inputs are open, and all that the choice of an algorithm depends on."""

    resolved: Resolved  # the join of the inputs
    left: Input
    right: Input
    answer: ArrowAnswer | FrameAnswer
    as_arrow: ArrowAnswer
    planning: PlanningInput  # what the choice depends on, for the join that `answer` runs

    @classmethod
    def of(
        cls, spec: Any, tables: tuple[Any, Any], stats: Stats | None, resources: Resources, *, brief: bool
    ) -> ReadyJoin:
        """Open the inputs, resolve the join, and look at the inputs."""
        left, right = Input(tables[0], "left"), Input(tables[1], "right")
        resolved: Resolved = spec.resolve(left.given.schema, right.given.schema)
        as_arrow = ArrowAnswer.of(
            resolved, (left.given.schema, right.given.schema), left.given.number, right.given.number
        )
        return cls.opened(resolved, left, right, as_arrow, stats, resources, brief=brief)

    @classmethod
    def opened(
        cls,
        resolved: Resolved,
        left: Input,
        right: Input,
        as_arrow: ArrowAnswer,
        stats: Stats | None,
        resources: Resources,
        *,
        brief: bool,
    ) -> ReadyJoin:
        """Look at inputs that are open."""
        answer: ArrowAnswer | FrameAnswer = as_arrow
        if left.given.frame is not None:
            schemas = left.given.schema, right.given.schema
            frames, numbers = (left.given.frame, right.given.frame), (left.given.number, right.given.number)
            answer = FrameAnswer.of(resolved, schemas, *frames, *numbers)
        given = stats or Stats()
        looked = (
            left.look(answer.run, "left", given.left, brief=brief),
            right.look(answer.run, "right", given.right, brief=brief),
        )
        known = Stats(left=looked[0].stats, right=looked[1].stats)
        planning = planning_input(answer.run, known, resources, (looked[0].rows, looked[1].rows))
        return cls(resolved=resolved, left=left, right=right, answer=answer, as_arrow=as_arrow, planning=planning)

    def join_by(self, algorithm: str) -> Any:
        """Return the joined table, by the cheapest algorithm if it is ``"auto"``."""
        if algorithm == "auto":
            return self.execution(*cheapest(self.planning)).execute(None)
        chosen = choose(self.planning, algorithm).chosen
        return self.execution(chosen.algorithm, chosen.cost_s).execute(None)

    def execution(self, algorithm: str, cost_s: float | None) -> _Execution:
        """Return the join as an algorithm runs it."""
        return _Execution(
            left=self.left,
            right=self.right,
            answer=self.answer,
            as_arrow=self.as_arrow,
            algorithm=algorithm,
            cost_s=cost_s,
            stats=self.planning.stats,
            resources=self.planning.resources,
        )


def plan(spec: Any, left: Any, right: Any, *, algorithm: str, stats: Stats | None, resources: Resources) -> Plan:
    """Plan a join of Arrow tables, streams and Parquet files, as `juncture.plan`."""
    ready = ReadyJoin.of(spec, (left, right), stats, resources, brief=False)
    choice = choose(ready.planning, algorithm)
    execution = ready.execution(choice.algorithm, choice.chosen.cost_s)
    return Plan(
        join=ready.resolved,
        engine="local",
        choice=choice,
        stats=execution.stats,
        resources=resources,
        _run=execution.execute,
        _stream=execution.stream,
        _measure=execution.measure,
        _match=execution.match,
        _row_report=execution.row_report,
        _explain_row=execution.explain_row,
        _count_matches=execution.match_report if type(spec) in REPORTS else None,
    )


def join_at_once(spec: Any, left: Any, right: Any, *, algorithm: str, stats: Stats | None, resources: Resources) -> Any:
    """Return the joined table, as `plan` and `Plan.execute` do, with a brief look at tables in memory."""
    return ReadyJoin.of(spec, (left, right), stats, resources, brief=True).join_by(algorithm)


def _forget(_: pa.RecordBatch) -> None:
    """Let go of a batch."""
