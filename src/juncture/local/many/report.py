"""The match report of a table that is joined to a spine, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import plain
from juncture.kernels.array_types import Mask
from juncture.local.asof.report import figures_of, match_counts
from juncture.local.kinds import REPORTS
from juncture.local.many.answers import Answer, about, answer, task_algorithm
from juncture.local.many.spine import Spine
from juncture.local.reasons import counts_of, reasons_of
from juncture.ordered.kinds import domain_of
from juncture.planner.explain.meaning import explanations_of
from juncture.planner.report import MatchReport
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sources import Source
from juncture.runtime.take import gather, select
from juncture.runtime.working_types import working
from juncture.spec.aggregate import Aggregate
from juncture.spec.asof import ResolvedAsof
from juncture.spec.many import ResolvedTable


def report_of(
    table: ResolvedTable, algorithm: str, spine: Spine, left: Source, right: Source, context: JoinContext
) -> MatchReport:
    """Count what becomes of the rows of the spine in a table; arguments as for `juncture.local.many.answers.answer`."""
    count = REPORTS.get(type(table.join.spec))
    answer = None
    if table.check_available_at is not None or count is None:
        answer = _answer(table, algorithm, spine, left, right, context)
    leaked = None if answer is None else _leaked(table, answer, left, context)
    if count is not None:
        table_context = context.within(MemoryBudget(context.memory.total_bytes))
        return replace(count(table.join, left, right, table_context), leaked=leaked)
    assert answer is not None
    assert answer.matched is not None
    join, left, right = working(table.join, left, right)
    reasons = reasons_of(join, answer.matched, spine.keys(join, left), left, right, context)
    return MatchReport(
        left_rows=left.num_rows,
        right_rows=right.num_rows,
        matched=int(np.count_nonzero(answer.matched)),
        ties=None,
        distances=None,
        leaked=leaked,
        explanations=explanations_of(table.join),
        **counts_of(reasons),
    )


def figures(
    tables: Sequence[ResolvedTable], left: Source, rights: Sequence[Source], context: JoinContext
) -> Iterator[pa.Table]:
    """Yield what sums up to the report of each table over tasks. Errors name the table."""
    spine = Spine(context)
    for table, right in zip(tables, rights, strict=True):
        with about(table.name):
            yield _figures_of(table, task_algorithm(table, left, right, context), spine, left, right, context)


def _figures_of(
    table: ResolvedTable, algorithm: str, spine: Spine, left: Source, right: Source, context: JoinContext
) -> pa.Table:
    """Return what sums up to the report of a table over tasks, as `juncture.local.asof.report.figures_of` does."""
    distances = None
    if isinstance(table.join, ResolvedAsof):
        table_context = context.within(MemoryBudget(context.memory.total_bytes))
        counts, distances = match_counts(table.join, left, right, table_context)
        leaked = None
        if table.check_available_at is not None:
            leaked = _leaked(table, _answer(table, algorithm, spine, left, right, context), left, context)
    else:
        report = report_of(table, algorithm, spine, left, right, context)
        counts, leaked = {"matched": report.matched, **report.reasons}, report.leaked
    return figures_of(counts if leaked is None else counts | {"leaked": leaked}, distances)


def _answer(
    table: ResolvedTable, algorithm: str, spine: Spine, left: Source, right: Source, context: JoinContext
) -> Answer:
    """Return what a table gives each row of the spine, with what shows whether it was available."""
    check, more = table.check_available_at, tuple[Aggregate, ...]()
    if check is not None and table.join.aggregates:
        more = (Aggregate("known", check.right, "max", table.join.right_schema.field(check.right).type),)
    return answer(table, algorithm, spine, left, right, context, more=more, marks_matches=True)


def _leaked(table: ResolvedTable, answer: Answer, left: Source, context: JoinContext) -> int | None:
    """Count the rows of the spine whose match became available only after their own time, if that is checked."""
    check = table.check_available_at
    if check is None:
        return None
    assert answer.matched is not None
    rows = np.flatnonzero(answer.matched)
    [times] = select(left, [check.left], rows, context)
    if answer.pointers is not None:
        [available] = gather(answer.right, [check.right], answer.pointers[rows], context)
    else:
        assert answer.aggregates is not None
        available = answer.aggregates.column(answer.aggregates.num_columns - 1).take(pa.array(rows))
    return int(np.count_nonzero(_is_later(available, times)))


def _is_later(ones: pa.ChunkedArray, others: pa.ChunkedArray) -> Mask:
    """Return a mask of the values that are later than others, compared exactly; false for null."""
    later, earlier = (plain(side.combine_chunks()) for side in (ones, others))
    domain = domain_of(later.type, earlier.type)
    assert domain is not None
    is_earlier, _, present = domain.compared(earlier, later)
    return is_earlier if present is None else is_earlier & present
