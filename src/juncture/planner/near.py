"""What the planner knows of joins of rows that lie near each other: range, overlap and predicate joins."""

from __future__ import annotations

from juncture.planner.near_cost import near_cost_s
from juncture.planner.question import Kind, Question
from juncture.predicate.sql import to_sql
from juncture.spec.duration import format_duration
from juncture.spec.overlap import ResolvedOverlap
from juncture.spec.range import Bound, ResolvedRange
from juncture.spec.resolved import Resolved
from juncture.spec.where import ResolvedWhere

__all__ = ["OVERLAP", "RANGE", "WHERE"]

_SPARK = {
    "broadcast": "the right side goes to every task, the left never moves",
    "broadcast_left": "the left side goes to every task, the right never moves",
    "range": "one shuffle of both sides into equal ranges, with copies of rows that reach into several",
    "bucket": "bins on several levels and one shuffle by bin, all in SQL",
    "nested": "Spark's own join with the condition",
}
_NESTED = "compare all pairs"


def _tree_needs_two(question: Question, algorithm: str) -> str | None:
    """Refuse a tree of a second expression where only one is limited, as in ``l.a < r.b``."""
    if question.engine == "local" and algorithm == "tree" and question.offer.limited < 2:
        return "it needs inequalities on two different right expressions, and the predicate has fewer."
    return None


def _blocks_have_no_keys(question: Question, algorithm: str) -> str | None:
    """Refuse blocks where ``by="k"`` has to be equal, which is no part of the predicate that they are judged by."""
    if algorithm == "blocks" and question.join.left_by:
        return "it cannot bring equal by= columns together."
    return None


def _range(join: ResolvedRange) -> str:
    ends = [_end(join, bound, join.left_on) for bound in (join.lower, join.upper)]
    on = join.right_on if join.right_on != join.left_on else f"right {join.right_on}"
    if join.lower is None:
        window = f"{on} is {_word(join.upper, 'at most', 'less than')} {ends[1]}"
    elif join.upper is None:
        window = f"{on} is {_word(join.lower, 'at least', 'more than')} {ends[0]}"
    else:
        words = _word(join.lower, "from", "after"), _word(join.upper, "to", "to before")
        window = f"{on} is {words[0]} {ends[0]} {words[1]} {ends[1]}"
    return _whole(join, f"{_gets(bool(join.aggregates))} whose {window}")


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


def _overlap(join: ResolvedOverlap) -> str:
    ours, theirs = (f"{start or '-∞'} to {end or '∞'}" for start, end in (join.left_interval, join.right_interval))
    return _whole(join, f"{_gets(bool(join.aggregates))} whose {theirs} overlaps its {ours}")


def _where(join: ResolvedWhere) -> str:
    return _whole(join, f"each left row gets the right rows for which {to_sql(join.predicate)}")


def _gets(aggregated: bool) -> str:
    return "each left row gets aggregates of the right rows" if aggregated else "each left row gets the right rows"


def _whole(join: Resolved, sentence: str) -> str:
    pairs = zip(join.left_by, join.right_by, strict=True)
    names = [ours if ours == theirs else f"{ours} = {theirs}" for ours, theirs in pairs]
    return f"{sentence}{', of equal ' + ', '.join(names) if names else ''} ({join.how} join)"


RANGE = Kind(
    title="Range join",
    algorithms={
        "local": {"sorted": "sort the right side, find each left row's window as a span of it", "nested": _NESTED},
        "spark": _SPARK,
    },
    rules=(),
    cost_s=near_cost_s,
    meaning=_range,
)
"""Range joins."""

OVERLAP = Kind(
    title="Overlap join",
    algorithms={
        "local": {"tree": "sort the right intervals by start, find those that overlap by a tree of their ends"}
        | {"nested": _NESTED},
        "spark": _SPARK,
    },
    rules=(),
    cost_s=near_cost_s,
    meaning=_overlap,
)
"""Overlap joins."""

WHERE = Kind(
    title="Predicate join",
    algorithms={
        "local": {
            "sorted": "sort the right side by what is equal and one limited expression, find spans of it",
            "tree": "the same, with a tree of a second limited expression",
            "blocks": "rule out pairs of blocks by the bounds of their columns, compare the rest",
            "nested": _NESTED,
        },
        "spark": _SPARK | {"sql": "Spark's own join by what is equal, with the rest as a condition"},
    },
    rules=(_tree_needs_two, _blocks_have_no_keys),
    cost_s=near_cost_s,
    meaning=_where,
)
"""Predicate joins."""
