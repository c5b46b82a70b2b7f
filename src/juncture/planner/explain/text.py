"""What a plan says, in words that the text and the page share."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np

from juncture.planner.choose import kind_of
from juncture.planner.memory import held_bytes, room_bytes
from juncture.planner.plan import Plan
from juncture.planner.planning_input import Estimate, Option
from juncture.planner.run import Run
from juncture.planner.stats import SideStats
from juncture.spec.size import format_size

__all__ = ["happened", "headline", "plan_in_short", "plan_words", "verdict"]


def headline(plan: Plan) -> str:
    """Say in a line what will run, where and why."""
    where = {"local": "in-process", "spark": "on Spark"}[plan.engine]
    return f"{kind_of(plan.join.spec).title} {where} by {plan.algorithm}: {plan.choice.reason}"


def plan_in_short(plan: Plan) -> Iterator[tuple[str, str]]:
    """Say how large a join is, as pairs of a heading and a text."""
    for name, side in (("left", plan.stats.left), ("right", plan.stats.right)):
        size = "" if side.bytes is None else f", about {format_size(side.bytes)}"
        yield name, "not counted" if side.rows is None else f"{side.rows:,} rows{size}"
    rows = plan.choice.rows.value
    yield "output", "not known" if rows is None else f"about {rows:,} rows"


def plan_words(plan: Plan) -> Iterator[tuple[str, str]]:
    """Say what will run and on what knowledge, as pairs of a heading and a text."""
    kind = kind_of(plan.join.spec)
    does = kind.algorithms[plan.engine][plan.algorithm]
    share = {"local": "in all", "spark": "per task"}[plan.engine]
    yield from kind.conditions(plan.join)
    yield "algorithm", f"{plan.algorithm}: {does}"
    yield "because", plan.choice.reason
    yield "left", _side(plan, plan.stats.left)
    yield "right", _side(plan, plan.stats.right)
    yield "output", _expected(plan.choice.rows, "rows")
    if plan.choice.shuffle_bytes is not None:
        yield "shuffle", _expected(plan.choice.shuffle_bytes)
    if plan.choice.task_bytes is not None:
        yield "memory", f"per task {_expected(plan.choice.task_bytes)}"
    yield "resources", f"{plan.resources.cores} cores, {format_size(plan.resources.memory_bytes)} {share}"
    if plan.engine == "local":
        yield "budget", _budget(plan)
    if plan.resources.constants.source is not None:
        yield "constants", f"measured, from {plan.resources.constants.source} (JUNCTURE_CONSTANTS)"
    yield from plan.details
    if plan.engine == "spark":
        yield "ran first", "; ".join(plan.jobs) or "nothing: no job ran to make this plan"


def _budget(plan: Plan) -> str:
    """Say whether the right rows fit in memory."""
    held, room = held_bytes(plan.join, "right", plan.stats.right), format_size(room_bytes(plan.resources))
    if held is None:
        return f"{room} may be held, and the right rows are not counted"
    verdict = "fit" if held <= room_bytes(plan.resources) else "do not fit"
    return f"{room} may be held: right rows of about {format_size(held)} {verdict}"


def _side(plan: Plan, side: SideStats) -> str:
    """Say what is known of a side, and where from."""
    facts = []
    if side.rows is not None:
        facts.append(f"{side.rows:,} rows{_source(side, 'rows')}")
    if side.bytes is not None:
        facts.append(f"about {format_size(side.bytes)}{_source(side, 'row_bytes')}")
    if side.keys is not None:
        facts.append(f"{side.keys:,} keys{_source(side, 'keys')}")
    if side.hottest_share is not None:
        facts.append(f"{side.hottest_share:.1%} of them in the hottest key{_source(side, 'hottest_share')}")
    if side.nulls:
        facts.append(f"{side.nulls:,} of them with a null that matches nothing{_source(side, 'nulls')}")
    if side.extent is not None:
        first, last = (_place(plan, value) for value in side.extent)
        facts.append(f"from {first} to {last}{_source(side, 'extent')}")
    if side.is_sorted is not None:
        facts.append(f"{'sorted' if side.is_sorted else 'not sorted'}{_source(side, 'is_sorted')}")
    return ", ".join(facts) or "not looked at"


def _expected(estimate: Estimate, unit: str = "") -> str:
    """Say what is expected, and how that was come by."""
    if estimate.value is None:
        return f"not known: {estimate.how}"
    figure = f"{estimate.value:,} {unit}" if unit else format_size(estimate.value) if estimate.value else "nothing"
    return f"about {figure} ({estimate.how})" if estimate.value else f"{figure} ({estimate.how})"


def _place(plan: Plan, value: Any) -> str:
    """Return an end of an extent as its column would show it."""
    domain = getattr(plan.join, "domain", None)
    if domain is None or not domain.is_time or not isinstance(value, Integral):
        return str(value)
    return str(np.datetime64(int(value), "D" if domain.kind == "date" else domain.unit))


def _source(side: SideStats, name: str) -> str:
    return f" ({side.sources[name]})" if name in side.sources else ""


def verdict(option: Option) -> str:
    """Say what an algorithm should cost, or why it is ruled out."""
    if option.refusal:
        return f"no: {option.refusal}"
    if option.cost_s is None:
        return "only when it is named: a reference to compare with"
    return _about(option.cost_s)


def happened(plan: Plan, run: Run) -> Iterator[tuple[str, str]]:
    """Say what happened beside what was expected, as pairs of a heading and a text."""
    expected_s = next((each.cost_s for each in plan.choice.options if each.algorithm == plan.algorithm), None)
    if run.algorithm not in (None, plan.algorithm):
        yield "algorithm", f"{run.algorithm}: what came was too large for {plan.algorithm}"
    yield "time", _seconds(run.seconds) + ("" if expected_s is None else f" (expected {_about(expected_s)})")
    for name, rows, side in (
        ("left", run.left_rows, plan.stats.left),
        ("right", run.right_rows, plan.stats.right),
    ):
        if rows is not None:
            expected = "unknown before" if side.rows is None else f"expected {side.rows:,}"
            yield name, f"{rows:,} rows ({expected})"
    wanted = plan.choice.rows.value
    yield "result", f"{run.rows:,} rows ({'unknown before' if wanted is None else f'expected about {wanted:,}'})"
    if len(run.phases) > 1:
        yield "phases", ", ".join(f"{name} {_seconds(seconds)}" for name, seconds in run.totals().items())
    if run.shuffle_bytes is not None:
        wanted = plan.choice.shuffle_bytes.value if plan.choice.shuffle_bytes is not None else None
        expected = "unknown before" if wanted is None else f"expected {format_size(wanted)} before compression"
        yield "shuffle", f"{format_size(run.shuffle_bytes)} ({expected})"
    if run.spilled_bytes is not None:
        yield "spilled", format_size(run.spilled_bytes) if run.spilled_bytes else "nothing"
    if run.peak_memory_bytes is not None and run.earlier_peak_bytes is not None:
        yield "memory", _memory(run.peak_memory_bytes, run.earlier_peak_bytes)
    if run.task_bytes is not None:
        held = f"a task held {format_size(run.task_bytes)} at most in the JVM, beside its Python"
        task = plan.choice.task_bytes
        yield (
            "memory",
            f"{held}; {'unknown before' if task is None or task.value is None else 'expected ' + _expected(task)}",
        )
    for heading, why in run.unknown:
        yield heading, f"not known: {why}"


def _memory(peak: int, earlier: int) -> str:
    if peak > earlier:
        return f"the process held {format_size(peak)} at most, and {format_size(earlier)} before the join"
    return f"the process stayed below the {format_size(peak)} that it had held before"


def _about(seconds: float) -> str:
    return f"about {seconds:.1f} s" if seconds >= 0.1 else "under 0.1 s"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.3f} s"
