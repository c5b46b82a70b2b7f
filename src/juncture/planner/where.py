"""What the planner knows of predicate joins: the algorithms, what rules them out, and what such a join means."""

from __future__ import annotations

from juncture.planner.conditions import Condition, key_conditions
from juncture.planner.inequality import EXTERNAL_MERGE, NESTED, RULES, SPARK, whole
from juncture.planner.inequality_cost import near_cost_s
from juncture.planner.planning_input import Kind, Question
from juncture.predicate.language.sql import describe
from juncture.spec.where import ResolvedWhere

__all__ = ["WHERE"]


def _tree_needs_two(question: Question, algorithm: str) -> str | None:
    """Refuse a tree of a second expression where only one is limited, as in ``l.a < r.b``."""
    if algorithm == "tree" and question.offer.limited < 2:
        return "it needs inequalities on two different right expressions, and the predicate has fewer."
    return None


def _blocks_have_no_keys(question: Question, algorithm: str) -> str | None:
    """Refuse blocks where ``by="k"`` has to be equal, which is no part of the predicate that they are judged by."""
    if algorithm == "blocks" and question.join.left_by:
        return "it cannot bring equal by= columns together."
    return None


def _meaning(join: ResolvedWhere) -> str:
    return whole(join, f"each left row gets the right rows for which {describe(join.predicate)}")


def _conditions(join: ResolvedWhere) -> tuple[Condition, ...]:
    return (*key_conditions(join), *join.shape.parts())


WHERE = Kind(
    title="Predicate join",
    algorithms={
        "local": {
            "sorted": "sort the right side by what is equal and one limited expression, find spans of it",
            "tree": "the same, with a tree of a second limited expression",
            "blocks": "rule out pairs of blocks by the bounds of their columns, compare the rest",
            "nested": NESTED,
            "external_merge": EXTERNAL_MERGE,
        },
        "spark": SPARK | {"sql": "Spark's own join by what is equal, with the rest as a condition"},
    },
    rules=(*RULES, _tree_needs_two, _blocks_have_no_keys),
    cost_s=near_cost_s,
    meaning=_meaning,
    conditions=_conditions,
)
"""Predicate joins."""
