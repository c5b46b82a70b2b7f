"""Errors for methods of plans that streams do not support."""

from __future__ import annotations

from typing import Any, NoReturn

from juncture.errors import PlanError
from juncture.planner.report import MatchReport, Measured
from juncture.runtime.progress import Report

UNENDING = "no time is estimated, since a stream has no end"


class NoEquivalentError(PlanError):
    """Spark's own stream join cannot run a join. The message is a clause that gives the reason."""


def refuse_to_measure(_report: Report | None, _keep: bool) -> tuple[Measured, Any]:
    """Raise an error, because a stream has no end."""
    _refuse("analyze() runs a join to its end")


def refuse_to_count(_report: Report | None) -> MatchReport:
    """Raise an error, because a stream has no end."""
    _refuse("match_report() reads all left rows")


def _refuse(asked: str) -> NoReturn:
    raise PlanError(
        f"{asked}, but a stream does not end. Start a query on the result of execute(), and read the number of rows "
        "from its lastProgress.",
        name="JN-STREAM-ENDLESS",
    )
