"""What the planner knows of range joins: the algorithms, and what such a join means."""

from __future__ import annotations

from juncture.planner.conditions import Condition, key_conditions
from juncture.planner.inequality import EXTERNAL_MERGE, NESTED, RULES, SPARK, gets, whole
from juncture.planner.inequality_cost import near_cost_s
from juncture.planner.planning_input import Kind
from juncture.spec.duration import format_duration
from juncture.spec.range import Bound, ResolvedRange

__all__ = ["RANGE"]


def _meaning(join: ResolvedRange) -> str:
    ends = [_end(join, bound, join.left_on) for bound in (join.lower, join.upper)]
    on = join.right_on if join.right_on != join.left_on else f"right {join.right_on}"
    if join.lower is None:
        window = f"{on} is {_word(join.upper, 'at most', 'less than')} {ends[1]}"
    elif join.upper is None:
        window = f"{on} is {_word(join.lower, 'at least', 'more than')} {ends[0]}"
    else:
        words = _word(join.lower, "from", "after"), _word(join.upper, "to", "to before")
        window = f"{on} is {words[0]} {ends[0]} {words[1]} {ends[1]}"
    return whole(join, f"{gets(join)} whose {window}")


def _conditions(join: ResolvedRange) -> tuple[Condition, ...]:
    ends = [_end(join, bound, f"left {join.left_on}") for bound in (join.lower, join.upper)]
    signs = [_word(bound, " <= ", " < ") for bound in (join.lower, join.upper)]
    below = ends[0] + signs[0] if join.lower is not None else ""
    above = signs[1] + ends[1] if join.upper is not None else ""
    is_band = join.lower is not None and join.upper is not None
    return (*key_conditions(join), ("band" if is_band else "inequality", f"{below}right {join.right_on}{above}"))


def _word(bound: Bound | None, closed: str, strict: str) -> str:
    return closed if bound is None or bound.closed else strict


def _end(join: ResolvedRange, bound: Bound | None, on: str) -> str:
    if bound is None:
        return ""
    if bound.column is not None:
        return f"{on} + {bound.column}"
    constant = bound.constant or 0
    if not constant:
        return on
    sign, size = ("-" if constant < 0 else "+"), abs(constant)
    if join.domain.is_time:
        return f"{on} {sign} {format_duration(int(size) * join.domain.step_ns)}"
    unit = f" steps of 1e-{join.domain.scale}" if join.domain.kind == "decimal" and join.domain.scale else ""
    return f"{on} {sign} {size}{unit}"


RANGE = Kind(
    title="Range join",
    algorithms={
        "local": {
            "sorted": "sort the right side, find each left row's window as a span of it",
            "nested": NESTED,
            "external_merge": EXTERNAL_MERGE,
        },
        "spark": SPARK,
    },
    rules=RULES,
    cost_s=near_cost_s,
    meaning=_meaning,
    conditions=_conditions,
)
"""Range joins."""
