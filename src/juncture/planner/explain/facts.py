"""A plan as plain data, of which the JSON and the page are made."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from juncture.planner.choose import kind_of
from juncture.planner.memory import held_bytes, room_bytes
from juncture.planner.plan import Plan
from juncture.planner.planning_input import Option
from juncture.planner.stats import SideStats

__all__ = ["plan_facts", "ranked_options"]

FORMAT_VERSION = 1
"""Raised when a key changes its meaning or goes; keys may be added without."""


def plan_facts(plan: Plan) -> dict[str, Any]:
    """Return all that a plan says, under keys that do not change."""
    kind = kind_of(plan.join.spec)
    does = kind.algorithms[plan.engine]
    return {
        "version": FORMAT_VERSION,
        "title": kind.title,
        "engine": plan.engine,
        "meaning": kind.meaning(plan.join),
        "conditions": list(kind.conditions(plan.join)),
        "spec": plan.join.spec.to_dict(),
        "algorithm": plan.algorithm,
        "does": does[plan.algorithm],
        "reason": plan.choice.reason,
        "sides": {"left": _side(plan.stats.left), "right": _side(plan.stats.right)},
        "resources": {
            "cores": plan.resources.cores,
            "memory_bytes": plan.resources.memory_bytes,
            "constants": plan.resources.constants.source,
        },
        "budget": {
            "held_bytes": held_bytes(plan.join, "right", plan.stats.right) if plan.engine == "local" else None,
            "room_bytes": room_bytes(plan.resources) if plan.engine == "local" else None,
        },
        "expected": {
            "rows": asdict(plan.choice.rows),
            "shuffle_bytes": None if plan.choice.shuffle_bytes is None else asdict(plan.choice.shuffle_bytes),
            "task_bytes": None if plan.choice.task_bytes is None else asdict(plan.choice.task_bytes),
        },
        "details": dict(plan.details),
        "jobs": list(plan.jobs),
        "weighed": [
            {**asdict(option), "does": does[option.algorithm], "chosen": option.algorithm == plan.algorithm}
            for option in ranked_options(plan)
        ],
    }


def ranked_options(plan: Plan) -> list[Option]:
    """Return what was weighed, the cheapest first, what is ruled out last."""
    return sorted(plan.choice.options, key=_rank)


def _rank(option: Option) -> tuple[bool, float]:
    return option.refusal is not None, option.cost_s if option.cost_s is not None else float("inf")


def _side(side: SideStats) -> dict[str, Any]:
    # A null extent is one that nobody has looked at, as with the other figures.
    return {**asdict(side), "bytes": side.bytes}
