"""What plans of streams on Spark cannot be asked, and what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

from juncture.errors import PlanError
from juncture.planner.report import MatchReport
from juncture.planner.run import Measured
from juncture.runtime.progress import Report

UNENDING = "no time is estimated, since a stream has no end"


class NoEquivalentError(PlanError):
    """Spark's own join of two streams has no equivalent of a join; the message says why, to be put into a sentence."""


def refuse_to_measure(_report: Report | None, _keep: bool) -> tuple[Measured, Any]:
    """Refuse to run a stream to its end.

    Raises
    ------
    PlanError
        Always.
    """
    _refuse("analyze() runs a join to its end")


def refuse_to_count(_report: Report | None) -> MatchReport:
    """Refuse to count the rows of a stream.

    Raises
    ------
    PlanError
        Always.
    """
    _refuse("match_report() reads all left rows")


def _refuse(asked: str) -> NoReturn:
    raise PlanError(
        f"{asked}, but a stream does not end. Start a query on the result of execute(), and read the number of rows "
        "from its lastProgress.",
        name="JN-STREAM-ENDLESS",
    )
