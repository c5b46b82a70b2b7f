"""A plan as plain data: the source of the JSON and HTML forms."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from juncture.planner.decision import Decision, Estimate, Option
from juncture.planner.explain.meaning import conditions_of, meaning_of, title_of
from juncture.planner.memory import held_bytes, room_bytes
from juncture.planner.report import Measured
from juncture.planner.statistics import SideStats

FORMAT_VERSION = 3
"""Incremented when a key changes its meaning or is removed. New keys do not increment it."""


def plan_facts(plan: Decision, run: Measured | None = None) -> dict[str, Any]:
    """Return a plan, and its measured run if there is one, under stable keys."""
    choice, is_local = plan.choice, plan.engine == "local"
    facts = {
        "version": FORMAT_VERSION,
        "title": title_of(plan.join.spec),
        "engine": plan.engine,
        "meaning": meaning_of(plan.join),
        "conditions": list(conditions_of(plan.join)),
        "spec": plan.join.spec.to_dict(),
        "algorithm": plan.algorithm,
        "summary": choice.chosen.summary,
        "reason": choice.reason,
        "stats": {"left": _side(plan.stats.left), "right": _side(plan.stats.right)},
        "resources": {
            "cores": plan.resources.cores,
            "memory_bytes": plan.resources.memory_bytes,
            "constants": plan.resources.constants.source,
        },
        "budget": {
            "right_bytes": held_bytes(plan.join, "right", plan.stats.right) if is_local else None,
            "available_bytes": room_bytes(plan.resources.memory_bytes) if is_local else None,
        },
        "expected": {
            "output_rows": asdict(choice.output_rows),
            "shuffle_bytes": _estimate(choice.shuffle_bytes),
            "task_bytes": _estimate(choice.task_bytes),
        },
        "details": dict(plan.details),
        "jobs": list(plan.jobs),
        "options": [
            {**asdict(option), "chosen": option.algorithm == plan.algorithm} for option in ranked_options(plan)
        ],
    }
    return facts if run is None else {**facts, "measured": {**asdict(run), "unknown": dict(run.unknown)}}


def ranked_options(plan: Decision) -> list[Option]:
    """Return the options: the cheapest first, excluded ones last."""
    return sorted(plan.choice.options, key=_rank)


def _rank(option: Option) -> tuple[bool, float]:
    return option.excluded is not None, option.cost_s if option.cost_s is not None else float("inf")


def _side(side: SideStats) -> dict[str, Any]:
    return {**asdict(side), "bytes": side.bytes}


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)
