"""A plan in words."""

from __future__ import annotations

from collections.abc import Iterator

from juncture.planner.choose import kind_of
from juncture.planner.plan import Plan
from juncture.planner.question import Option
from juncture.planner.stats import SideStats
from juncture.spec.size import format_size

__all__ = ["explain_text"]


def explain_text(plan: Plan) -> str:
    """Return a plan as a block of text."""
    where, share = {"local": ("in-process", "in all"), "spark": ("on Spark", "per task")}[plan.engine]
    kind = kind_of(plan.join.spec)
    lines = [
        f"{kind.title} {where}",
        f"  meaning    {kind.meaning(plan.join)}",
        f"  algorithm  {plan.algorithm}: {kind.algorithms[plan.engine][plan.algorithm]}",
        f"  because    {plan.choice.reason}",
        f"  left       {_side(plan.stats.left)}",
        f"  right      {_side(plan.stats.right)}",
        f"  resources  {plan.resources.cores} cores, {format_size(plan.resources.memory_bytes)} {share}",
    ]
    lines += [f"  {heading:<9}  {text}" for heading, text in plan.details]
    if plan.engine == "spark":
        lines.append(f"  ran first  {'; '.join(plan.jobs) or 'nothing: no job ran to make this plan'}")
    lines.append("  weighed")
    lines += [f"    {line}" for line in _options(plan)]
    return "\n".join(lines)


def _side(side: SideStats) -> str:
    facts = []
    if side.rows is not None:
        facts.append(f"{side.rows:,} rows{_source(side, 'rows')}")
    if side.bytes is not None:
        facts.append(f"about {format_size(side.bytes)}{_source(side, 'row_bytes')}")
    if side.keys is not None:
        facts.append(f"{side.keys:,} keys{_source(side, 'keys')}")
    if side.hottest_share is not None:
        facts.append(f"{side.hottest_share:.1%} of them in the hottest key{_source(side, 'hottest_share')}")
    if side.is_sorted:
        facts.append("sorted")
    return ", ".join(facts) or "not looked at"


def _source(side: SideStats, name: str) -> str:
    return f" ({side.sources[name]})" if name in side.sources else ""


def _options(plan: Plan) -> Iterator[str]:
    for option in sorted(plan.choice.options, key=_rank):
        mark = "*" if option.algorithm == plan.algorithm else " "
        yield f"{mark} {option.algorithm:<15} {_verdict(option)}"


def _rank(option: Option) -> tuple[bool, float]:
    return option.refusal is not None, option.cost_s if option.cost_s is not None else float("inf")


def _verdict(option: Option) -> str:
    if option.refusal:
        return f"no: {option.refusal}"
    if option.cost_s is None:
        return "only when it is named: a reference to compare with"
    return f"about {option.cost_s:.1f} s" if option.cost_s >= 0.1 else "under 0.1 s"
