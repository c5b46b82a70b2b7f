"""Views of tables that change, held to DuckDB's answer after every epoch."""

from __future__ import annotations

from fuzz.kind import Facts, Kind
from fuzz.views.cases import ViewCase, draw, smaller
from fuzz.views.judge import judge
from fuzz.views.script import script

__all__ = ["VIEWS"]


def label(case: ViewCase) -> str:
    return f"views: {case.query.shape}"


def facts(case: ViewCase) -> Facts:
    return {"shapes": [case.query.shape], "epochs": [str(case.epochs)]}


VIEWS = Kind(draw, judge, smaller, script, label, facts)
