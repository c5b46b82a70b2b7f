"""The in-process plan of a join: what is known of the inputs, the choice, and how to run it, also on many tables."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from juncture.errors import SchemaError, SpecError
from juncture.inputs.frames import ArrowAnswer, FrameAnswer
from juncture.inputs.tables import columns_text
from juncture.kernels.compiled import compile_seconds
from juncture.local.computed import with_computed
from juncture.local.explain_row import explain_row, row_report
from juncture.local.kinds import REPORTS, execute, match, planning_input
from juncture.local.output.numbered import number_column
from juncture.local.statistics import Input
from juncture.planner.algorithm import PlanningInput
from juncture.planner.choose import cheapest, choose, serving
from juncture.planner.plan import Plan
from juncture.planner.report import MatchReport, Measured, RowExplanation
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.runtime.context import JoinContext, join_context
from juncture.runtime.memory import peak_memory_bytes
from juncture.runtime.progress import Report
from juncture.runtime.sources import Source
from juncture.spec.base import Spec
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES

_log = logging.getLogger(__name__)

_SHORT_S = 0.003  # the expected time of a join below which waking threads takes longer than they save

_FEW_ROWS = 1_000
"""The rows of a small table, as the choice of an algorithm assumes."""

_JOINS = 128
"""Joins that are remembered as validated, since a program often joins tables of the same schemas again."""


_Inputs = tuple[Resolved, Source, Source, str]
"""A join, both sides ready to be read, and the algorithm that joins them."""


@dataclass(frozen=True)
class _Execution:
    """A join that has been planned, to be run as often as its inputs can be read."""

    ready: ReadyJoin
    algorithm: str
    cost_s: float | None  # the expected time, if it is estimated

    def execute(self, report: Report | None) -> Any:
        """Return the joined table."""
        return self._in_input_type(self._batches(self.ready.answer, report))

    def stream(self, report: Report | None) -> pa.RecordBatchReader:
        """Return the rows as a reader of batches."""
        as_arrow = self.ready.validated.answer
        batches = as_arrow.batches(self._batches(as_arrow, report))
        return pa.RecordBatchReader.from_batches(as_arrow.schema, batches)

    def measure(self, report: Report | None, keep: bool) -> tuple[Measured, Any]:
        """Return rows, time by phase, spilled bytes and peak memory, and the joined table if it is to be kept."""
        batches: list[pa.RecordBatch] = []
        with self._context(report) as context:
            earlier_peak_bytes, earlier_compile_s = peak_memory_bytes(), compile_seconds()
            progress, rows = context.progress, 0
            join, left, right, algorithm = self._opened(self.ready.answer.run, context)
            progress.extend("inputs")
            for batch in execute(join, left, right, algorithm, context):
                rows += batch.num_rows
                if keep:
                    batches.append(batch)
            progress.extend("output")
            run = Measured(
                algorithm=algorithm,
                duration_s=progress.seconds,
                compile_s=compile_seconds() - earlier_compile_s,
                left_rows=left.num_rows,
                right_rows=right.num_rows,
                output_rows=rows,
                phases=tuple(progress.phases),
                spilled_bytes=context.spill.spilled_bytes,
                peak_memory_bytes=peak_memory_bytes(),
                earlier_peak_bytes=earlier_peak_bytes,
            )
        return run, self._in_input_type(batches) if keep else None

    def match(self, report: Report | None) -> pa.Table:
        """Return the row numbers of the matches."""
        with self._context(report) as context:
            pairs = list(match(*self._opened(self.ready.validated.answer.run.row_pairs(), context), context))
        columns = [pa.chunked_array(map(number_column, rows), pa.int64()) for rows in zip(*pairs, strict=True)]
        return pa.table(columns or [pa.array([], pa.int64())] * 2, names=["left_row", "right_row"])

    def match_report(self, report: Report | None) -> MatchReport:
        """Return what becomes of the left rows."""
        with self._context(report) as context:
            join, left, right, _ = self._opened(self.ready.answer.run, context)
            return REPORTS[type(join.spec)](join, left, right, context)

    def row_report(self, report: Report | None) -> pa.Table:
        """Return a row for each left row: its best match, or why there is none."""
        with self._context(report) as context:
            return row_report(*self._opened(self.ready.validated.answer.run, context), context).table()

    def explain_row(self, row: int) -> RowExplanation:
        """Return why a left row has the matches that it has, or none."""
        with self._context(None) as context:
            join, left, right, algorithm = self._opened(self.ready.validated.answer.run, context)
            if not 0 <= row < left.num_rows:
                raise SpecError(
                    f"row={row} is not a row of the left table, which has {left.num_rows:,} rows. Expected a number "
                    "from 0.",
                    name="JN-ARGUMENT-VALUE",
                )
            return explain_row(join, left, right, row, algorithm, context)

    def _in_input_type(self, batches: Iterable[pa.RecordBatch]) -> Any:
        return self.ready.left.input_table.restore(self.ready.answer.table(batches))

    def _context(self, report: Report | None) -> AbstractContextManager[JoinContext]:
        is_short = self.ready.is_counted and self.cost_s is not None and self.cost_s < _SHORT_S
        resources = self.ready.planning.resources
        return join_context(
            threads=1 if is_short else resources.cores,
            memory_bytes=resources.memory_bytes,
            in_order=resources.in_order,
            report=report,
            sizes=resources.sizes,
        )

    def _batches(self, answer: ArrowAnswer | FrameAnswer, report: Report | None) -> Iterator[pa.RecordBatch]:
        with self._context(report) as context:
            inputs = self._opened(answer.run, context)
            yield from execute(*inputs, context, schema=answer.schema if answer.schema.names else None)

    def _opened(self, join: Resolved, context: JoinContext) -> _Inputs:
        """Return both sides as sources, and the algorithm that serves now that streams have been counted."""
        ready = self.ready
        left = with_computed(ready.left.source(context), join, "left")
        right = with_computed(ready.right.source(context), join, "right")
        if ready.is_counted:
            return join, left, right, self.algorithm
        counted = Stats(
            left=ready.left.refreshed_stats(join, "left", ready.planning.stats.left, left),
            right=ready.right.refreshed_stats(join, "right", ready.planning.stats.right, right),
        )
        algorithm = serving(planning_input(join, counted, ready.planning.resources), self.algorithm)
        if algorithm != self.algorithm:
            _log.info("What came is too large for %s: joining by %s", self.algorithm, algorithm)
        return join, left, right, algorithm


@dataclass(frozen=True, eq=False)
class ValidatedJoin:
    """A spec, validated against the schemas of two inputs."""

    join: Resolved
    answer: ArrowAnswer


@dataclass(frozen=True, eq=False)
class _Schema:
    """A schema that equals those with the same columns and metadata."""

    schema: pa.Schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Schema) and self.schema.equals(other.schema, check_metadata=True)

    def __hash__(self) -> int:
        return hash(tuple(self.schema.names))


def validated_join(spec: Spec, left: pa.Schema, right: pa.Schema) -> ValidatedJoin:
    """Return the join of tables of two schemas. Raises SchemaError."""
    # Equal specs may have aggregates in another order, and so have their output columns.
    return _validated_join(spec, (*(spec.agg or ()), *(spec.windows or ())), _Schema(left), _Schema(right))


@lru_cache(maxsize=_JOINS)
def _validated_join(spec: Spec, _order: tuple[str, ...], left: _Schema, right: _Schema) -> ValidatedJoin:
    schemas = left.schema, right.schema
    join = spec.resolve(*schemas)
    return ValidatedJoin(join, ArrowAnswer.of(join, schemas))


@dataclass(frozen=True, kw_only=True)
class ReadyJoin:
    """A join whose inputs are open, and all that the choice of an algorithm depends on."""

    validated: ValidatedJoin
    left: Input
    right: Input
    answer: ArrowAnswer | FrameAnswer
    planning: PlanningInput  # what the choice depends on, for the join that `answer` runs
    choice: tuple[str, float | None] | None = None  # the algorithm and its cost, if they depend on no statistics

    @classmethod
    def of(
        cls, spec: Any, tables: tuple[Any, Any], stats: Stats | None, resources: Resources, *, brief: bool
    ) -> ReadyJoin:
        """Open the inputs, resolve the join, and look at the inputs."""
        rows = resources.sizes.slice_rows
        left, right = Input(tables[0], "left", rows), Input(tables[1], "right", rows)
        validated = validated_join(spec, left.input_table.schema, right.input_table.schema)
        return cls.opened(validated, left, right, stats, resources, brief=brief)

    @classmethod
    def opened(
        cls,
        validated: ValidatedJoin,
        left: Input,
        right: Input,
        stats: Stats | None,
        resources: Resources,
        *,
        brief: bool,
    ) -> ReadyJoin:
        """Look at inputs that are open."""
        answer: ArrowAnswer | FrameAnswer = validated.answer
        if left.input_table.frame is not None:
            schemas = left.input_table.schema, right.input_table.schema
            answer = FrameAnswer.of(validated.join, schemas, left.input_table.frame, right.input_table.frame)
        if brief and stats is None and left.is_small and right.is_small:
            planning, choice = _plan_of_few_rows(validated, resources)
            return cls(validated=validated, left=left, right=right, answer=answer, planning=planning, choice=choice)
        user_stats = stats or Stats()
        samples = (
            left.sample(answer.run, "left", user_stats.left, brief=brief),
            right.sample(answer.run, "right", user_stats.right, brief=brief),
        )
        known_stats = Stats(left=samples[0].stats, right=samples[1].stats)
        planning = planning_input(answer.run, known_stats, resources, (samples[0].rows, samples[1].rows))
        return cls(validated=validated, left=left, right=right, answer=answer, planning=planning)

    @property
    def is_counted(self) -> bool:
        """Whether the number of rows of both sides is known before they are read."""
        return self.left.is_counted and self.right.is_counted

    def join_by(self, algorithm: str) -> Any:
        """Return the joined table, by the cheapest algorithm if it is ``"auto"``."""
        if algorithm == "auto":
            return _Execution(self, *(self.choice or cheapest(self.planning))).execute(None)
        chosen = choose(self.planning, algorithm).chosen
        return _Execution(self, chosen.algorithm, chosen.cost_s).execute(None)


@lru_cache(maxsize=_JOINS)
def _plan_of_few_rows(validated: ValidatedJoin, resources: Resources) -> tuple[PlanningInput, tuple[str, float | None]]:
    """Return the plan of a join of small tables, which any number of rows stands for."""
    few = SideStats(rows=_FEW_ROWS)
    planning = planning_input(validated.answer.run, Stats(left=few, right=few), resources)
    return planning, cheapest(planning)


def plan(spec: Any, left: Any, right: Any, *, algorithm: str, stats: Stats | None, resources: Resources) -> Plan:
    """Plan a join of Arrow tables, streams and Parquet files, as `juncture.plan`."""
    ready = ReadyJoin.of(spec, (left, right), stats, resources, brief=False)
    choice = choose(ready.planning, algorithm)
    execution = _Execution(ready, choice.algorithm, choice.chosen.cost_s)
    return Plan(
        join=ready.validated.join,
        engine="local",
        choice=choice,
        stats=ready.planning.stats,
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


@dataclass(frozen=True, kw_only=True)
class PreparedJoin:
    """A join of tables of two schemas, validated once and run many times.

    Made by `juncture.prepare`; not to be made by hand. Several threads may use it at once.

    Attributes
    ----------
    join
        The spec, resolved against the two schemas.
    """

    join: Resolved
    _schemas: tuple[pa.Schema, pa.Schema] = field(repr=False)
    _validated: ValidatedJoin = field(repr=False)
    _algorithm: str = field(repr=False)
    _resources: Resources = field(repr=False)

    def __call__(self, left: Any, right: Any) -> Any:
        """Return the joined table of two tables of the schemas.

        Parameters
        ----------
        left, right
            Tables of this process, as for the join functions.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame or polars.DataFrame
            The joined table, in the type of the left table.

        Raises
        ------
        SchemaError
            If a table has other columns or types.
        DataError
            As the join functions do.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> quotes = pa.table({"ts": [1, 4], "bid": [9.5, 10.5]})
        >>> prepared = jn.prepare(pa.schema({"ts": pa.int64()}), quotes.schema, jn.Asof(on="ts"))
        >>> [prepared(pa.table({"ts": [ts]}), quotes)["bid"].to_pylist() for ts in (0, 3, 5)]
        [[None], [9.5], [10.5]]
        """
        inputs = Input(left, "left"), Input(right, "right")
        for side, opened, schema in zip(SIDES, inputs, self._schemas, strict=True):
            actual = opened.input_table.schema
            if not actual.equals(schema):
                raise SchemaError(
                    f"The {side} table has the columns {columns_text(actual)}, but the join was prepared for "
                    f"{columns_text(schema)}. Cast the table, or prepare the join for its schema.",
                    name="JN-PREPARED-SCHEMA",
                )
        ready = ReadyJoin.opened(self._validated, *inputs, None, self._resources, brief=True)
        return ready.join_by(self._algorithm)


def prepare(spec: Any, schemas: tuple[pa.Schema, pa.Schema], *, algorithm: str, resources: Resources) -> PreparedJoin:
    """Validate a join of tables of two schemas. Raises SchemaError."""
    validated = validated_join(spec, *schemas)
    return PreparedJoin(
        join=validated.join, _schemas=schemas, _validated=validated, _algorithm=algorithm, _resources=resources
    )
