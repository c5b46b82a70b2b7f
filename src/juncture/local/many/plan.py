"""The in-process plan of joins of several tables to one spine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from juncture.inputs.tables import InputTable
from juncture.local.computed import with_computed
from juncture.local.kinds import planning_input
from juncture.local.many.answers import Answer, about, answer, can_gather, with_answers
from juncture.local.many.report import report_of
from juncture.local.many.spine import Spine, read_spine
from juncture.local.statistics import Input
from juncture.planner.choose import choose, serving
from juncture.planner.decision import Decision
from juncture.planner.many import ManyPlan, ManyReport, TablePlan
from juncture.planner.statistics import Resources, Stats
from juncture.planner.tables import TABLES, table_algorithms
from juncture.runtime.context import JoinContext, join_context
from juncture.runtime.progress import Report
from juncture.runtime.sources import Source
from juncture.spec.many import ResolvedTable, Right, resolve_table


@dataclass(frozen=True)
class _TableInput:
    table: ResolvedTable
    right: Input
    decision: Decision


@dataclass(frozen=True)
class _ManyExecution:
    """Joins that have been planned, to be run as often as their inputs can be read."""

    spine: Input
    tables: tuple[_TableInput, ...]
    resources: Resources

    def execute(self, report: Report | None) -> Any:
        """Return the joined table."""
        with self._context(report) as context:
            left, context = read_spine(self.spine.source(context), context)
            spine, answers = Spine(context), list[tuple[Answer, InputTable]]()
            gathers = can_gather((each.table for each in self.tables), self.spine.input_table)
            for each in self.tables:
                with about(each.table.name):
                    sides = _sides(each, left, context)
                    algorithm = self._algorithm(each, *sides)
                    table_answer = answer(each.table, algorithm, spine, *sides, context, gathers=gathers)
                    answers.append((table_answer, each.right.input_table))
            return self.spine.input_table.restore(with_answers(self.spine.input_table, left, answers, context))

    def match_report(self) -> ManyReport:
        """Return what becomes of the rows of the spine in each table."""
        with self._context(None) as context:
            left, context = read_spine(self.spine.source(context), context)
            spine, reports = Spine(context), {}
            for each in self.tables:
                with about(each.table.name):
                    sides = _sides(each, left, context)
                    algorithm = self._algorithm(each, *sides)
                    reports[each.table.name] = report_of(each.table, algorithm, spine, *sides, context)
            return ManyReport(reports)

    def _context(self, report: Report | None) -> JoinContext:
        resources = self.resources
        return join_context(
            threads=resources.cores, memory_bytes=resources.memory_bytes, report=report, sizes=resources.sizes
        )

    def _algorithm(self, each: _TableInput, left: Source, right: Source) -> str:
        """Return the algorithm that serves now that streams have been counted."""
        chosen, stats, join = each.decision.algorithm, each.decision.stats, each.table.join
        if any(row.name == chosen for row in TABLES["local"]):
            # It holds no right rows, however many come.
            return chosen
        stats_now = Stats(
            left=self.spine.refreshed_stats(join, "left", stats.left, left),
            right=each.right.refreshed_stats(join, "right", stats.right, right),
        )
        return serving(planning_input(join, stats_now, self.resources), chosen)


def _sides(each: _TableInput, left: Source, context: JoinContext) -> tuple[Source, Source]:
    """Return the spine and a table with all columns that their join compares."""
    join, right = each.table.join, each.right.source(context)
    return with_computed(left, join, "left"), with_computed(right, join, "right")


def plan(spine: Any, rights: Mapping[str, Right], resources: Resources) -> ManyPlan:
    """Plan joins of Arrow tables, streams and Parquet files to a spine of these, as `juncture.plan_many`."""
    left = Input(spine, "left")
    taken, tables = set(left.input_table.schema.names), list[_TableInput]()
    for name, right in rights.items():
        with about(name):
            right_input = Input(right.table, "right")
            table = resolve_table(name, right, left.input_table.schema, right_input.input_table.schema, taken)
            tables.append(
                _TableInput(table, right_input, _decided(table, right.algorithm, left, right_input, resources))
            )
    execution = _ManyExecution(left, tuple(tables), resources)
    return ManyPlan(
        engine="local",
        spine=tables[0].decision.stats.left,
        tables={each.table.name: TablePlan(table=each.table, decision=each.decision) for each in tables},
        details=details_of([each.table for each in tables]),
        _run=execution.execute,
        _count_matches=execution.match_report,
    )


def details_of(tables: list[ResolvedTable]) -> tuple[tuple[str, str], ...]:
    """Say what tables share: lists of keys, and orders."""
    keys = dict[str, list[str]]()
    for table in tables:
        by = ", ".join(str(left_key) for left_key, _ in table.join.spec.key_pairs())
        keys.setdefault(by or "no key", []).append(table.name)
    return tuple(("key", f"{by}: coded once for {', '.join(names)}") for by, names in keys.items())


def _decided(table: ResolvedTable, algorithm: str, left: Input, right: Input, resources: Resources) -> Decision:
    """Choose how to join a table, by what is known without a look at its rows."""
    join = table.join
    stats = Stats(left=left.declared(join, "left"), right=right.declared(join, "right"))
    among = table_algorithms(join.spec, "local") if algorithm == "auto" else None
    choice = choose(planning_input(join, stats, resources), algorithm, among)
    return Decision(join=join, engine="local", choice=choice, stats=stats, resources=resources)
