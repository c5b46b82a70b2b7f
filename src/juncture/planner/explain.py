"""A plan in words."""

from __future__ import annotations

from collections.abc import Iterator

from juncture.planner.choose import ALGORITHMS, Option
from juncture.planner.plan import Plan
from juncture.planner.stats import SideStats
from juncture.spec.asof import ResolvedAsof
from juncture.spec.duration import format_duration

__all__ = ["explain_text"]


def explain_text(plan: Plan) -> str:
    """Return a plan as a block of text."""
    where, share = {"local": ("in-process", "in all"), "spark": ("on Spark", "per task")}[plan.engine]
    lines = [
        f"As-of join {where}",
        f"  meaning    {_meaning(plan.join)}",
        f"  algorithm  {plan.algorithm}: {ALGORITHMS[plan.engine][plan.algorithm]}",
        f"  because    {plan.choice.reason}",
        f"  left       {_side(plan.stats.left)}",
        f"  right      {_side(plan.stats.right)}",
        f"  resources  {plan.resources.cores} cores, {_size(plan.resources.memory_bytes)} {share}",
    ]
    lines += [f"  {heading:<9}  {text}" for heading, text in plan.details]
    if plan.engine == "spark":
        lines.append(f"  ran first  {'; '.join(plan.jobs) or 'nothing: no job ran to make this plan'}")
    lines.append("  weighed")
    lines += [f"    {line}" for line in _options(plan)]
    return "\n".join(lines)


def _meaning(join: ResolvedAsof) -> str:
    spec = join.spec
    strict = "" if spec.allow_exact_matches else "strictly "
    side = {
        "backward": f"the latest right row {strict}at or before it",
        "forward": f"the first right row {strict}at or after it",
        "nearest": f"the nearest {'' if spec.allow_exact_matches else 'other '}right row",
    }[spec.direction]
    if not spec.allow_exact_matches:
        side = side.replace("strictly at or before", "strictly before").replace(
            "strictly at or after", "strictly after"
        )
    if spec.matches > 1:
        side = f"up to {spec.matches} rows of " + side.replace("row", "rows", 1)
    names = [
        ours if ours == theirs else f"{ours} = {theirs}"
        for ours, theirs in zip(join.left_by, join.right_by, strict=True)
    ]
    by = f", of equal {', '.join(names)}" if names else ""
    on = join.left_on if join.left_on == join.right_on else f"{join.left_on} against {join.right_on}"
    return f"each left row gets {side}{by}, by {on}{_within(join)} ({spec.how} join)"


def _within(join: ResolvedAsof) -> str:
    if join.tolerance is None:
        return ""
    if join.tolerance.column is not None:
        return f", within the row's own {join.tolerance.column}"
    constant = join.tolerance.constant or 0
    if join.domain.is_time:
        return f", within {format_duration(int(constant) * join.domain.step_ns)}"
    if join.domain.kind == "decimal":
        return f", within {constant} steps of 1e-{join.domain.scale}"
    return f", within {constant}"


def _side(side: SideStats) -> str:
    facts = []
    if side.rows is not None:
        facts.append(f"{side.rows:,} rows{_source(side, 'rows')}")
    if side.bytes is not None:
        facts.append(f"about {_size(side.bytes)}{_source(side, 'row_bytes')}")
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
        yield f"{mark} {option.algorithm:<15} {_verdict(plan, option)}"


def _rank(option: Option) -> tuple[bool, float]:
    return option.refusal is not None, option.cost_s if option.cost_s is not None else float("inf")


def _verdict(plan: Plan, option: Option) -> str:
    if option.refusal:
        return f"no: {option.refusal}"
    if option.cost_s is None:
        return "only when it is named: a reference to compare with"
    if plan.engine == "local":
        return "can run"
    return f"about {option.cost_s:.1f} s"


def _size(size_bytes: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:,.1f} {unit}"
    return f"{size_bytes} B"
