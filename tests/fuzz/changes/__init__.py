"""Joins of changing tables, held to the join of the tables as they are after every epoch."""

from __future__ import annotations

from fuzz.changes.cases import ChangeCase, draw, smaller
from fuzz.changes.judge import judge
from fuzz.changes.script import script
from fuzz.kind import Facts, Kind

__all__ = ["CHANGES"]


def label(case: ChangeCase) -> str:
    return f"changes {case.join.kind}"


def facts(case: ChangeCase) -> Facts:
    arguments = case.join.arguments
    how = f"{arguments.get('how')}, aggregated" if "agg" in arguments else str(arguments.get("how"))
    state = "in memory" if case.reopened is None else "on disk"
    return {
        "how": [f"{case.join.kind} {how}"],
        "state": [f"{state} in small blocks" if case.is_small else state],
        "first": ["populated" if case.populates else "applied"],
    }


CHANGES = Kind(draw, judge, smaller, script, label, facts)
