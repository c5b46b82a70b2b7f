"""What the planner knows of overlap joins: the algorithms, and what such a join means."""

from __future__ import annotations

from juncture.planner.conditions import Condition, key_conditions
from juncture.planner.inequality import EXTERNAL_MERGE, NESTED, RULES, SPARK, gets, whole
from juncture.planner.inequality_cost import near_cost_s
from juncture.planner.planning_input import Kind
from juncture.spec.overlap import ResolvedOverlap

__all__ = ["OVERLAP"]


def _meaning(join: ResolvedOverlap) -> str:
    ours, theirs = (f"{start or '-∞'} to {end or '∞'}" for start, end in (join.left_interval, join.right_interval))
    return whole(join, f"{gets(join)} whose {theirs} overlaps its {ours}")


def _conditions(join: ResolvedOverlap) -> tuple[Condition, ...]:
    sign = "<=" if join.closed == "both" else "<"
    (ours, our_end), (theirs, their_end) = join.left_interval, join.right_interval
    limits = [("left", ours, "right", their_end), ("right", theirs, "left", our_end)]
    shared = [f"{a} {start} {sign} {b} {end}" for a, start, b, end in limits if start is not None and end is not None]
    return (*key_conditions(join), *((("overlap", " AND ".join(shared)),) if shared else ()))


OVERLAP = Kind(
    title="Overlap join",
    algorithms={
        "local": {"tree": "sort the right intervals by start, find those that overlap by a tree of their ends"}
        | {"nested": NESTED, "external_merge": EXTERNAL_MERGE},
        "spark": SPARK,
    },
    rules=RULES,
    cost_s=near_cost_s,
    meaning=_meaning,
    conditions=_conditions,
)
"""Overlap joins."""
