"""Plans of joins of several tables to one spine, in which each table has an algorithm of its own, and their reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from textwrap import indent
from typing import Any, Literal

from juncture.planner.decision import PLACES, Decision, Engine
from juncture.planner.explain.charts import draw_distances
from juncture.planner.explain.html import figure, page, rows_table
from juncture.planner.explain.meaning import meaning_of
from juncture.planner.explain.text import in_short, plan_facts, plan_words
from juncture.planner.report import MatchReport
from juncture.planner.statistics import SideStats
from juncture.runtime.progress import Report
from juncture.spec.arguments import check_choice
from juncture.spec.many import ResolvedTable


@dataclass(frozen=True, repr=False)
class ManyReport(Mapping[str, MatchReport]):
    """A report for each table, by its name.

    Made by `juncture.ManyPlan.match_report`; not to be made by hand.

    Attributes
    ----------
    tables
        The reports.
    """

    tables: Mapping[str, MatchReport]

    def __getitem__(self, name: str) -> MatchReport:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return the reports as plain data."""
        return {name: asdict(each) for name, each in self.items()}

    def export(self, format: Literal["text", "json", "html"] = "text") -> str:  # noqa: A002 - as in Plan.explain
        """Return the reports as text, as JSON, or as one page with the distances of as-of joins as a chart.

        Raises
        ------
        SpecError
            If the format is another.
        PlanError
            If what draws the chart is not installed.
        """
        check_choice("format", format, ("text", "json", "html"))
        if format == "json":
            return json.dumps(self.to_dict(), indent=2)
        return self._page() if format == "html" else repr(self)

    def __repr__(self) -> str:
        return "\n".join(f"{name}\n{indent(repr(each), '  ')}" for name, each in self.items())

    def _repr_html_(self) -> str:
        return "".join(f"<h4>{escape(name)}</h4>{each._repr_html_()}" for name, each in self.items())

    def _page(self) -> str:
        title = "Match report"
        parts = [f"<h1>{title}</h1>"]
        parts += [f"<h2>{escape(name)}</h2>{each._repr_html_()}" for name, each in self.items()]
        distances = {name: each.distances for name, each in self.items() if each.distances is not None}
        for is_time in sorted({each.is_time for each in distances.values()}, reverse=True):
            unit_s = 1e-9 if is_time else 1.0
            points = [
                {"table": name, "share": share, "distance": getattr(each, share) * unit_s}
                for name, each in distances.items()
                if each.is_time == is_time
                for share in ("min", "p50", "p90", "p99", "max")
            ]
            caption = f"Distance of matches{', in seconds' * is_time}"
            parts.append(figure(draw_distances(points), caption))
        return page(title, parts)


_SHARED = ("left", "resources", "constants", "output")  # what all tables have in common


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """What will run for one of the tables."""

    table: ResolvedTable
    decision: Decision

    @property
    def algorithm(self) -> str:
        """The algorithm that will run."""
        return self.decision.algorithm

    def words(self) -> Iterator[tuple[str, str]]:
        """Say what will run, as pairs of a heading and a text."""
        yield "meaning", meaning_of(self.table.join)
        yield from (line for line in plan_words(self.decision) if line[0] not in _SHARED)
        yield "adds", ", ".join(self.table.names) or "no columns"


@dataclass(frozen=True, kw_only=True)
class ManyPlan:
    """What will run for a spine and its tables, why, and on what knowledge.

    Made by `juncture.plan_many`; not to be made by hand. Shown, it is its explanation in short.

    Attributes
    ----------
    engine
        ``"local"`` (in-process) or ``"spark"``.
    spine
        What is known of the spine.
    tables
        What will run for each table.
    details
        What they share, as pairs of a heading and a text.
    jobs
        The Spark jobs that ran while the plan was made, in words.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades = pa.table({"ts": [2, 5], "symbol": ["a", "b"]})
    >>> quotes = pa.table({"ts": [1, 4], "symbol": ["a", "b"], "bid": [9.5, 10.5]})
    >>> plan = jn.plan_many(trades, {"quotes": jn.Right(quotes, jn.Asof(on="ts", by="symbol"))})
    >>> plan.tables["quotes"].algorithm
    'merge'
    >>> plan.execute().to_pydict()
    {'ts': [2, 5], 'symbol': ['a', 'b'], 'bid': [9.5, 10.5]}
    """

    engine: Engine
    spine: SideStats
    tables: dict[str, TablePlan]
    details: tuple[tuple[str, str], ...] = ()
    jobs: tuple[str, ...] = ()
    _run: Callable[[Report | None], Any] = field(repr=False)
    _count_matches: Callable[[], ManyReport] = field(repr=False)

    def execute(self, *, progress: Report | None = None) -> Any:
        """Run the joins.

        Parameters
        ----------
        progress
            As for `juncture.Plan.execute`; phases come once for each table.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
            The rows of the spine in their order, with the columns of the tables beside them, in the spine's library. On
            Spark a DataFrame without an order, whose rows are computed by the next action.
        """
        return self._run(progress)

    def match_report(self) -> ManyReport:
        """Count what becomes of the rows of the spine in each table: matched or why not, and what leaked.

        Returns
        -------
        ManyReport
            Prints as a table for each table; `ManyReport.export` gives a page or JSON.

        Notes
        -----
        Costs about as much as the joins less their payload.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> spine = pa.table({"ts": [3, 9]})
        >>> rates = pa.table({"ts": [1, 8], "rate": [1.0, 1.1], "ingested_at": [2, 10]})
        >>> plan = jn.plan_many(spine, {"rates": jn.Right(rates, jn.Asof(on="ts"), check_available_at="ingested_at")})
        >>> plan.match_report()["rates"].leaked
        1
        """
        return self._count_matches()

    def explain(self, format: Literal["text", "json", "html"] = "text") -> str:  # noqa: A002 - as in Plan.explain
        """Say what will run for each table, why, and what they share, in a format of `juncture.Plan.explain`."""
        check_choice("format", format, ("text", "json", "html"))
        if format == "json":
            return json.dumps(self._facts(), indent=2, default=str)
        return self._page() if format == "html" else self._text()

    def __repr__(self) -> str:
        lines = [self._title(), *(f"  {heading:<9}  {text}" for heading, text in self._words())]
        for name, each in self.tables.items():
            lines.append(f"  {name}: {in_short(each.decision).splitlines()[0]}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def _title(self) -> str:
        count = len(self.tables)
        return f"Join of {count} table{'s' * (count != 1)} to one spine {PLACES[self.engine]}"

    def _words(self) -> Iterator[tuple[str, str]]:
        """Say what the tables share, as pairs of a heading and a text."""
        rows = "not counted" if self.spine.rows is None else f"{self.spine.rows:,} rows"
        yield "spine", rows
        yield from self.details
        if self.engine == "spark":
            yield "jobs", "; ".join(self.jobs) or "none: planning ran no Spark job"

    def _text(self) -> str:
        lines = [self._title(), *(f"  {heading:<9}  {text}" for heading, text in self._words())]
        for name, each in self.tables.items():
            lines += [f"  table {name!r}", *(f"    {heading:<9}  {text}" for heading, text in each.words())]
        return "\n".join(lines)

    def _page(self) -> str:
        parts = [f"<h1>{escape(self._title())}</h1>", rows_table(self._words())]
        for name, each in self.tables.items():
            parts += [f"<h2>{escape(name)}: {escape(each.algorithm)}</h2>", rows_table(each.words())]
        return page(escape(self._title()), parts)

    def _facts(self) -> dict[str, Any]:
        return {
            "version": 1,
            "engine": self.engine,
            "spine": asdict(self.spine),
            "details": dict(self.details),
            "jobs": list(self.jobs),
            "tables": {
                name: {**plan_facts(each.decision), "adds": each.table.names} for name, each in self.tables.items()
            },
        }
