"""What a plan says: in words, which the text and the page share, and as plain data for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from juncture.planner.decision import PLACES, Decision, Estimate, Option
from juncture.planner.explain.meaning import conditions_of, meaning_of, title_of
from juncture.planner.memory import held_bytes, room_bytes
from juncture.planner.report import Measured
from juncture.planner.statistics import SideStats
from juncture.spec.size import format_size

FACTS: Mapping[str, str] = {
    "rows": "rows",
    "row_bytes": "size",
    "distinct_keys": "distinct keys",
    "hottest_key_share": "hottest key share",
    "null_rows": "null rows",
    "on_range": "on range",
    "key_range": "key range",
    "is_sorted": "order",
}
"""What may be known of a side, and what a table calls it."""

_WORTH_SAYING_S = 0.01  # a shorter time of compiling is of no account


def title(plan: Decision) -> str:
    """Say what kind of join it is, and where it runs."""
    return f"{title_of(plan.join.spec)} {PLACES[plan.engine]}"


def in_short(plan: Decision) -> str:
    """Return the heart of what a plan says, in a few lines."""
    return "\n".join([_headline(plan), *(f"  {heading:<7} {text}" for heading, text in _sizes(plan))])


def in_a_line(plan: Decision) -> str:
    """Return the same in one line."""
    return "; ".join([_headline(plan), *(f"{heading} {text}" for heading, text in _sizes(plan))])


def plan_text(plan: Decision, run: Measured | None = None) -> str:
    """Return what a plan says, and what happened if it has run."""
    lines = [title(plan), f"  meaning    {meaning_of(plan.join)}"]
    lines += [f"  {heading:<9}  {text}" for heading, text in plan_words(plan)]
    options = ranked_options(plan)
    width = max(len(option.algorithm) for option in options)
    lines.append("  options")
    for option in options:
        mark = "*" if option.algorithm == plan.algorithm else " "
        lines.append(f"    {mark} {option.algorithm:<{width}}  {verdict(option)}")
    if run is not None:
        lines.append("  measured")
        lines += [f"    {heading:<9}  {text}" for heading, text in happened(plan, run)]
    return "\n".join(lines)


def _headline(plan: Decision) -> str:
    return f"{title(plan)} by {plan.algorithm}: {plan.choice.reason}"


def _sizes(plan: Decision) -> Iterator[tuple[str, str]]:
    for name, side in (("left", plan.stats.left), ("right", plan.stats.right)):
        size = "" if side.bytes is None else f", about {format_size(side.bytes)}"
        yield name, "not counted" if side.rows is None else f"{side.rows:,} rows{size}"
    rows = plan.choice.output_rows.value
    yield "output", "unknown" if rows is None else f"about {rows:,} rows"


def plan_words(plan: Decision) -> Iterator[tuple[str, str]]:
    """Say what will run and on what knowledge, as pairs of a heading and a text."""
    share = {"local": "in all", "spark": "per task"}[plan.engine]
    yield from conditions_of(plan.join)
    yield "algorithm", f"{plan.algorithm}: {plan.choice.chosen.summary}"
    yield "reason", plan.choice.reason
    yield "left", _side(plan, plan.stats.left)
    yield "right", _side(plan, plan.stats.right)
    yield "output", _expected(plan.choice.output_rows, "rows")
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
        yield "jobs", "; ".join(plan.jobs) or "none: planning ran no Spark job"


def _budget(plan: Decision) -> str:
    """Say whether the right rows fit in memory."""
    right_bytes = held_bytes(plan.join, "right", plan.stats.right)
    available_bytes = room_bytes(plan.resources.memory_bytes)
    room = format_size(available_bytes)
    if right_bytes is None:
        return f"{room} available; the right rows are not counted"
    verdict = "fit" if right_bytes <= available_bytes else "do not fit"
    return f"{room} available: right rows of about {format_size(right_bytes)} {verdict}"


def facts_of(plan: Decision, side: SideStats) -> Mapping[str, tuple[str, str]]:
    """Say what is known of a side: each figure in words, and its source, by what `FACTS` calls it."""
    facts = {
        "rows": None if side.rows is None else f"{side.rows:,} rows",
        "row_bytes": None if side.bytes is None else f"about {format_size(side.bytes)}",
        "distinct_keys": None if side.distinct_keys is None else f"{side.distinct_keys:,} distinct keys",
        "hottest_key_share": None
        if side.hottest_key_share is None
        else f"hottest key share {side.hottest_key_share:.1%}",
        "null_rows": f"{side.null_rows:,} null rows" if side.null_rows else None,
        "on_range": None
        if side.on_range is None
        else "on range {} to {}".format(*(_end_text(plan, end) for end in side.on_range)),
        "key_range": None if side.key_range is None else "keys {} to {}".format(*side.key_range),
        "is_sorted": None if side.is_sorted is None else "sorted" if side.is_sorted else "not sorted",
    }
    return {name: (fact, side.provenance.get(name, "")) for name, fact in facts.items() if fact}


def _side(plan: Decision, side: SideStats) -> str:
    """Say what is known of a side, each figure with its source, in a line."""
    facts = facts_of(plan, side).values()
    return ", ".join(f"{fact} ({source})" if source else fact for fact, source in facts) or "unknown"


def _expected(estimate: Estimate, unit: str = "") -> str:
    if estimate.value is None:
        return f"unknown: {estimate.source}"
    figure = f"{estimate.value:,} {unit}" if unit else format_size(estimate.value) if estimate.value else "nothing"
    return f"about {figure} ({estimate.source})" if estimate.value else f"{figure} ({estimate.source})"


def _end_text(plan: Decision, value: Any) -> str:
    """Return an end of an `on_range` as its column would show it."""
    domain = plan.join.domain
    return str(value) if domain is None else domain.value_text(value)


def verdict(option: Option) -> str:
    """Say what an algorithm should cost, or why it is ruled out."""
    if option.excluded:
        return f"excluded: {option.excluded}"
    if option.cost_s is None:
        return option.remark or "only if named: a reference for comparison"
    return about(option.cost_s)


def happened(plan: Decision, run: Measured) -> Iterator[tuple[str, str]]:
    """Say what happened beside what was expected, as pairs of a heading and a text."""
    expected_s = plan.choice.chosen.cost_s
    if run.algorithm not in (None, plan.algorithm):
        yield "algorithm", f"{run.algorithm}: the input was too large for {plan.algorithm}"
    yield "time", _seconds(run.duration_s) + ("" if expected_s is None else f" (expected {about(expected_s)})")
    if run.compile_s is not None and run.compile_s >= _WORTH_SAYING_S:
        rest = _seconds(max(0.0, run.duration_s - run.compile_s))
        yield "compiling", f"{_seconds(run.compile_s)} of it, once per process; the join itself took {rest}"
    for name, rows, expected in (
        ("left", run.left_rows, plan.stats.left.rows),
        ("right", run.right_rows, plan.stats.right.rows),
    ):
        if rows is not None:
            yield name, f"{rows:,} rows ({_before(expected, '{:,}')})"
    yield "output", f"{run.output_rows:,} rows ({_before(plan.choice.output_rows.value, 'about {:,}')})"
    if len(run.phases) > 1:
        yield "phases", ", ".join(f"{name} {_seconds(seconds)}" for name, seconds in run.totals().items())
    if run.shuffle_bytes is not None:
        wanted = plan.choice.shuffle_bytes
        size = None if wanted is None or wanted.value is None else format_size(wanted.value)
        yield "shuffle", f"{format_size(run.shuffle_bytes)} ({_before(size, '{} before compression')})"
    if run.spilled_bytes is not None:
        yield "spilled", format_size(run.spilled_bytes) if run.spilled_bytes else "nothing"
    if run.peak_memory_bytes is not None and run.earlier_peak_bytes is not None:
        yield "memory", _memory(run.peak_memory_bytes, run.earlier_peak_bytes)
    if run.task_bytes is not None:
        wanted = plan.choice.task_bytes
        task = None if wanted is None or wanted.value is None else _expected(wanted)
        memory = f"at most {format_size(run.task_bytes)} in the JVM of one task, without its Python"
        yield "memory", f"{memory}; {_before(task)}"
    for heading, why in run.unknown:
        yield heading, f"unknown: {why}"


def _before(expected: object, form: str = "{}") -> str:
    return "no estimate" if expected is None else f"expected {form.format(expected)}"


def _memory(peak: int, earlier: int) -> str:
    if peak > earlier:
        return f"peak of the process {format_size(peak)}, {format_size(earlier)} before the join"
    return f"peak of the process {format_size(peak)}, reached before the join"


def about(seconds: float) -> str:
    """Say what a formula gives, to two digits: it is right to within a factor."""
    if seconds < 0.1:
        return "under 0.1 s"
    if seconds < 10:
        return f"about {seconds:.1f} s"
    scale = 10 ** (math.floor(math.log10(seconds)) - 1)
    return f"about {round(seconds / scale) * scale:,} s"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.3f} s"


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
        "stats": {"left": _side_facts(plan.stats.left), "right": _side_facts(plan.stats.right)},
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


def _side_facts(side: SideStats) -> dict[str, Any]:
    return {**asdict(side), "bytes": side.bytes}


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)
