"""A join that has been planned: it can be explained, run, and analyzed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, TypeVar

import pyarrow as pa

from juncture.errors import PlanError
from juncture.planner.decision import Decision
from juncture.planner.explain.html import plan_page
from juncture.planner.explain.text import in_a_line, in_short, plan_facts, plan_text
from juncture.planner.report import MatchReport, Measured, RowExplanation
from juncture.runtime.progress import Report
from juncture.spec.arguments import check_choice

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Plan(Decision):
    """What will run, why, and on what knowledge.

    Made by `juncture.plan`; not to be made by hand. Shown, it is its explanation in short. It can be pickled and copied
    unless it runs on Spark or an input is a stream.

    Attributes
    ----------
    join
        The spec, resolved against the two schemas.
    engine
        ``"local"`` (in-process) or ``"spark"``.
    choice
        The algorithm, the reason, and what else was weighed.
    stats, resources
        What the choice was made on.
    jobs
        The Spark jobs that ran while the plan was made, in words.
    details
        What else the engine has to say, as pairs of a heading and a text.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades = pa.table({"ts": [2, 5], "price": [10.0, 11.0]})
    >>> quotes = pa.table({"ts": [1, 4, 9], "bid": [9.5, 10.5, 12.0]})
    >>> plan = jn.plan(trades, quotes, jn.Asof(on="ts"))
    >>> plan.engine, plan.algorithm
    ('local', 'merge')
    >>> plan
    As-of join in-process by merge: lowest estimated cost; next is probe
      left    2 rows, about 32 B
      right   3 rows, about 48 B
      output  about 2 rows
    >>> plan.execute().to_pydict()
    {'ts': [2, 5], 'price': [10.0, 11.0], 'bid': [9.5, 10.5]}
    """

    _run: Callable[[Report | None], Any] = field(repr=False)
    _measure: Callable[[Report | None, bool], tuple[Measured, Any]] = field(repr=False)
    _stream: Callable[[Report | None], pa.RecordBatchReader] | None = field(default=None, repr=False)
    _match: Callable[[Report | None], pa.Table] | None = field(default=None, repr=False)
    _count_matches: Callable[[Report | None], MatchReport] | None = field(default=None, repr=False)
    _row_report: Callable[[Report | None], pa.Table] | None = field(default=None, repr=False)
    _explain_row: Callable[[int], RowExplanation] | None = field(default=None, repr=False)
    _replay: Callable[[int], pa.Table] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return in_short(self)

    def explain(self, format: Literal["text", "json", "html"] = "text") -> str:  # noqa: A002 - what SQL's EXPLAIN calls it
        """Say in words and numbers what will run, why, and what else was weighed.

        Parameters
        ----------
        format
            ``"text"`` to be read; ``"json"`` to be used by programs; ``"html"`` for one page, which needs no network,
            with the plan as a picture and the costs as bars.

        Raises
        ------
        SpecError
            If the format is another.

        Examples
        --------
        >>> import json
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> table = pa.table({"ts": [1, 2]})
        >>> plan = jn.plan(table, table, jn.Asof(on="ts"))
        >>> json.loads(plan.explain(format="json"))["stats"]["left"]["rows"]
        2
        """
        return _explained(self, format)

    def execute(self, *, progress: Report | None = None) -> Any:
        """Run the join.

        Parameters
        ----------
        progress
            Called from this thread as an in-process join goes on, with the phase (``"left"``, ``"right"``,
            ``"payload"``), how many rows of it are done, and how many there are. Other methods call it in the same way.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
            In-process, the type of the left input, pyarrow where that was a path or a stream. On Spark a
            DataFrame, whose rows are computed by the next action.
        """
        self._announce()
        return self._run(progress)

    def analyze(self, *, keep: bool = False, progress: Report | None = None) -> Analysis:
        """Run the join, and set what happened beside what was expected, as ``EXPLAIN ANALYZE`` does in SQL.

        Parameters
        ----------
        keep
            Whether to keep the result. By default rows are counted and forgotten, as `batches` yields them, so that a
            result of any size can be analyzed.
        progress
            As for `execute`.

        Returns
        -------
        Analysis
            Prints as the text of `explain` with what happened: rows in and out, time by phase, spilled bytes, and the
            peak memory of the process. On Spark, the rows of the result and, where the session's UI is on, time by
            stage, bytes shuffled and spilled, and the peak memory of a task; what is not known is named. Its
            ``measured`` has the figures, its ``result`` what `execute` returns, if kept.

        Notes
        -----
        Costs what the join costs. On Spark the kept result is a DataFrame, whose rows are computed again when an
        next action.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> table = pa.table({"x": range(1_000)})
        >>> analysis = jn.plan(table, table, jn.Where("l.x <= r.x")).analyze()
        >>> analysis.measured.output_rows
        500500
        >>> print(analysis)  # doctest: +ELLIPSIS
        Predicate join in-process
        ...
          measured
        ...
            output     500,500 rows ...
        ...
        """
        self._announce()
        measured, result = self._measure(progress, keep)
        return Analysis(plan=self, measured=measured, result=result)

    def batches(self, *, progress: Report | None = None) -> pa.RecordBatchReader:
        """Run the join in-process, and return its rows as a reader of batches.

        No join holds more of its output than its budget allows, however many rows it has: as-of joins a piece at a
        time, others a few batches.

        Raises
        ------
        PlanError
            If the join runs on Spark, which has ways of its own to read a result in parts.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> table = pa.table({"x": range(1_000)})
        >>> plan = jn.plan(table, table, jn.Where("l.x <= r.x"))
        >>> sum(batch.num_rows for batch in plan.batches())
        500500
        """
        if self._stream is None:
            raise PlanError(
                "batches() needs an in-process join, but this join runs on Spark. Use execute().toLocalIterator() or "
                "execute().write instead.",
                name="JN-PLAN-ENGINE",
            )
        self._announce()
        return self._stream(progress)

    def match(self, *, progress: Report | None = None) -> pa.Table:
        """Run the join in-process, and return the row numbers of its rows instead of their columns.

        Returns
        -------
        pyarrow.Table
            ``left_row`` and ``right_row`` (int64, from 0) of each row that `execute` returns, in the same order. A row
            number is null where ``how`` keeps a row without a match; ``right_row`` also for ``semi`` and ``anti``. With
            ``agg=``, all matches that are aggregated.

        Raises
        ------
        PlanError
            If the join runs on Spark, where rows have no numbers, aggregates over several ``windows``, or an input is
            a stream that has been read.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> trades = pa.table({"ts": [0, 5, 9]})
        >>> quotes = pa.table({"ts": [4, 1]})
        >>> jn.plan(trades, quotes, jn.Asof(on="ts")).match().to_pydict()
        {'left_row': [0, 1, 2], 'right_row': [None, 0, 0]}
        """
        match = self._in_process(self._match, "match()")
        self._announce()
        return match(progress)

    def match_report(self, *, progress: Report | None = None) -> MatchReport:
        """Count what becomes of the left rows of an as-of join: matched, or why not, and how far the matches are.

        Returns
        -------
        MatchReport
            Of all left rows, whichever of them the join keeps. Prints as a table, in a notebook too.

        Raises
        ------
        PlanError
            If the join is of another kind, or an input is a stream that has been read.

        Notes
        -----
        Costs about as much as the join less its payload: the columns of ``by`` and ``on`` are read again. On Spark, two
        jobs and those that planning takes; quantiles of more than ten thousand different distances are then off by at
        most a ten-thousandth of the rows.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> trades = pa.table({"ts": [0, 5, 9]})
        >>> quotes = pa.table({"ts": [1, 4]})
        >>> jn.plan(trades, quotes, jn.Asof(on="ts", tolerance=3)).match_report()
        left rows           3
        right rows          2
        matched             1   33.33%
        unmatched           2   66.67%
          null on           0    0.00%  ts is null
          no candidate      1   33.33%  no right row before or at this ts
          beyond tolerance  1   33.33%  more than 3 away
        ties                0    0.00%  several right rows at the best ts
        distance            min 1, p50 1, p90 1, p99 1, max 1
        """
        if self._count_matches is None:
            raise PlanError(
                f"match_report() needs an as-of join, but this is {self.join.spec.title}. Use analyze() to count rows.",
                name="JN-REPORT-KIND",
            )
        return self._count_matches(progress)

    def row_report(self, *, progress: Report | None = None) -> pa.Table:
        """Return for each left row of an in-process join whether it has a match, why not, and how far a match is.

        Returns
        -------
        pyarrow.Table
            A row for each left row, in order, whichever of them the join keeps: ``left_row``, ``right_row``,
            ``reason`` (null with a match, else the name of a count of `MatchReport`) and ``distance``. As-of joins set
            ``right_row`` to the best match, and ``distance`` to that of the best right row, whether it matches or is
            beyond the tolerance: nanoseconds of dates and timestamps, else in the unit of ``on``.

        Raises
        ------
        PlanError
            As `match` does.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> trades = pa.table({"ts": [0, 5, 9]})
        >>> quotes = pa.table({"ts": [1, 4]})
        >>> report = jn.plan(trades, quotes, jn.Asof(on="ts", tolerance=3)).row_report()
        >>> report["right_row"].to_pylist(), report["distance"].to_pylist()
        ([None, 1, None], [None, 1.0, 5.0])
        >>> report["reason"].to_pylist()
        ['no_candidate', None, 'beyond_tolerance']
        """
        return self._in_process(self._row_report, "row_report()")(progress)

    def explain_row(self, row: int) -> RowExplanation:
        """Explain why a left row of an in-process join has the matches that it has, or none.

        Parameters
        ----------
        row
            The number of the left row, from 0.

        Returns
        -------
        RowExplanation
            Prints as a text: the matches, or why there is none; and for as-of and range joins the nearest other right
            rows, and why they are no matches.

        Raises
        ------
        SpecError
            If there is no such row.
        PlanError
            As `match` does.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> trades = pa.table({"ts": [0, 5, 9]})
        >>> quotes = pa.table({"ts": [1, 4]})
        >>> jn.plan(trades, quotes, jn.Asof(on="ts", tolerance=3)).explain_row(2)
        left row 2 (ts=9): no match, beyond tolerance: more than 3 away
          right row 1 (ts=4): 5 away: farther than the tolerance of 3
          right row 0 (ts=1): 8 away: farther than the tolerance of 3
        """
        return self._in_process(self._explain_row, "explain_row()")(row)

    def _in_process(self, call: Callable[[Any], Value] | None, method: str) -> Callable[[Any], Value]:
        """Return what a method calls; raise PlanError on Spark, and for several windows."""
        if call is None:
            raise PlanError(
                f"{method} needs an in-process join, but this join runs on Spark, where rows have no numbers. Add a "
                "column that identifies each row to both tables, and use execute(), or join Arrow tables, for example "
                "a sample.",
                name="JN-PLAN-ENGINE",
            )
        if any(each.window is not None for each in self.join.aggregates):
            raise PlanError(
                f"{method} needs one set of matches per row, but windows= defines several. Plan one join per window.",
                name="JN-MATCH-WINDOWS",
            )
        return call

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def _announce(self) -> None:
        if is_announced():
            _log.info("%s", in_a_line(self))


def is_announced() -> bool:
    """Return whether plans are logged before they run."""
    return _log.isEnabledFor(logging.INFO)


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What a plan expected, and what happened. Shown, it is the text of `explain`.

    Made by `Plan.analyze`; not to be made by hand.

    Attributes
    ----------
    plan
        What was expected.
    measured
        What happened.
    result
        What `Plan.execute` returns, if it was to be kept, else None.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades = pa.table({"ts": [2, 5], "price": [10.0, 11.0]})
    >>> quotes = pa.table({"ts": [1, 4, 9], "bid": [9.5, 10.5, 12.0]})
    >>> measured = jn.plan(trades, quotes, jn.Asof(on="ts")).analyze().measured
    >>> measured.left_rows, measured.right_rows, measured.output_rows, measured.spilled_bytes
    (2, 3, 2, 0)
    """

    plan: Plan
    measured: Measured
    result: Any = None

    def explain(self, format: Literal["text", "json", "html"] = "text") -> str:  # noqa: A002 - as in Plan.explain
        """Say what `Plan.explain` says, and what happened: in JSON as ``measured``, on the page with a timeline."""
        return _explained(self.plan, format, self.measured)

    def __repr__(self) -> str:
        return self.explain()


def _explained(plan: Decision, form: str, run: Measured | None = None) -> str:
    """Return what a plan says in one of three forms, with what happened if it has run."""
    check_choice("format", form, ("text", "json", "html"))
    if form == "json":
        # Ends of `on_range` may be decimals.
        return json.dumps(plan_facts(plan, run), indent=2, default=str)
    return plan_page(plan, run) if form == "html" else plan_text(plan, run)
