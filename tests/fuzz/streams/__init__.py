"""Joins of streams, whose output adds up to the join of the rows that came in time."""

from __future__ import annotations

from fuzz.kind import Facts, Kind
from fuzz.streams.cases import StreamCase, draw, smaller
from fuzz.streams.judge import judge
from fuzz.streams.script import script

__all__ = ["STREAMS"]


def label(case: StreamCase) -> str:
    return f"streams {case.join.kind}"


def facts(case: StreamCase) -> Facts:
    arguments = case.join.arguments
    how = f"{arguments.get('how')}, aggregated" if "agg" in arguments else str(arguments.get("how"))
    return {
        "how": [f"{case.join.kind} {how}"],
        "orders": [f"{len(case.left_orders)} and {len(case.right_orders)}"],
        "steps": ["with a restart" if any(step.restarts for step in case.steps) else "without restarts"],
    }


STREAMS = Kind(draw, judge, smaller, script, label, facts)
