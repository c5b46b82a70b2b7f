"""A join that has run, beside what was expected of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from juncture.planner.plan import Plan
from juncture.planner.run import Run

__all__ = ["Analysis"]


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What a plan expected, and what happened. Shown, it is the text of `explain`.

    Made by `Plan.analyze`; not to be made by hand.

    Attributes
    ----------
    plan
        What was expected.
    run
        What happened.
    result
        What `Plan.execute` returns, if it was to be kept, else None.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> trades = pa.table({"ts": [2, 5], "price": [10.0, 11.0]})
    >>> quotes = pa.table({"ts": [1, 4, 9], "bid": [9.5, 10.5, 12.0]})
    >>> analysis = jn.plan(trades, quotes, jn.Asof(on="ts")).analyze()
    >>> analysis.run.left_rows, analysis.run.right_rows, analysis.run.rows, analysis.run.spilled_bytes
    (2, 3, 2, 0)
    """

    plan: Plan
    run: Run
    result: Any = None

    def explain(self, format: Literal["text", "json", "html"] = "text") -> str:  # noqa: A002 - as in Plan.explain
        """Say what `Plan.explain` says, and what happened.

        Parameters
        ----------
        format
            As for `Plan.explain`; JSON has one key more, ``run``, and the page a timeline.

        Raises
        ------
        SpecError, PlanError
            As `Plan.explain` does.
        """
        from juncture.planner.explain.formats import explain

        return explain(self.plan, format, self.run)

    def __repr__(self) -> str:
        return self.explain()
