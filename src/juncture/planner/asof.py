"""What the planner knows of as-of joins: the algorithms, what rules them out, and what they cost."""

from __future__ import annotations

from juncture.planner.asof_cost import COSTS
from juncture.planner.conditions import equal_names, key_conditions
from juncture.planner.cost import Work
from juncture.planner.memory import too_much
from juncture.planner.planning_input import Kind, Question
from juncture.planner.rules import fits_in_a_task, looks_first
from juncture.spec.asof import Asof, ResolvedAsof
from juncture.spec.duration import format_duration

__all__ = ["ASOF"]


def _spec(question: Question) -> Asof:
    assert isinstance(question.join, ResolvedAsof)
    return question.join.spec


def _keeps_right_rows(question: Question, algorithm: str) -> str | None:
    """Refuse ``how="right"`` where no task alone can know that a right row was never taken."""
    how = _spec(question).how
    if how not in ("right", "full") or algorithm not in ("broadcast", "broadcast_left", "window", "native"):
        return None
    return f"how={how!r} keeps right rows that no left row took, which no task knows alone: hash and range can."


def _needs_keys(question: Question, algorithm: str) -> str | None:
    """Refuse a shuffle by key where there is no key."""
    if algorithm == "hash" and not question.join.left_by:
        return "there is no by column to shuffle by; range spreads the rows by their order instead."
    return None


def _window_serves(question: Question, algorithm: str) -> str | None:
    """Refuse to window what one window function cannot say."""
    spec = _spec(question)
    if algorithm not in ("window", "native"):
        return None
    if spec.matches > 1:
        return f"matches={spec.matches}: it finds one match per row."
    if spec.ties == "error":
        return "ties='error': it cannot tell that there was a tie."
    return None


def _native_is_right(question: Question, algorithm: str) -> str | None:
    """Refuse Spark's own join where it is off, or would give another answer."""
    spec = _spec(question)
    if algorithm != "native":
        return None
    if not question.native:
        return "the session has spark.sql.join.asofJoin.enabled off (or is older than Spark 4.3)."
    if spec.direction == "nearest":
        return "Spark's own nearest is wrong when an earlier right value repeats."
    if spec.how not in ("inner", "left"):
        return f"how={spec.how!r}: Spark's own knows inner and left."
    return None


def _fits_in_memory(question: Question, algorithm: str) -> str | None:
    """Refuse to sort a right side that does not fit: 100 million rows of 32 bytes take 8 GB."""
    return too_much(question, algorithm, ("merge",))


def _cost_s(question: Question, algorithm: str) -> float | None:
    formula = COSTS.get(algorithm)
    left, right = question.stats.left, question.stats.right
    if formula is None:
        return None
    shares = [side.hottest_share for side in (left, right) if side.hottest_share is not None]
    return formula(
        Work(
            left_rows=question.left_rows,
            right_rows=question.right_rows,
            hottest_share=max(shares, default=0.0) if question.join.left_by else 1.0,
            direct=question.direct,
            resources=question.resources,
        )
    )


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
    by = f", of equal {equal_names(join)}" if join.left_by else ""
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


ASOF = Kind(
    title="As-of join",
    algorithms={
        "local": {
            "probe": "sort the left, or as much of it as fits at a time, and stream the right past it",
            "merge": "sort both sides, one linear pass",
        },
        "spark": {
            "broadcast": "the right side goes to every task, the left never moves",
            "broadcast_left": "the left side goes to every task, the right never moves",
            "hash": "one shuffle of both sides by key",
            "range": "one shuffle of both sides into equal ranges of (key, on), with carryover",
            "window": "union and one window, all in SQL",
            "native": "Spark's own ASOF JOIN",
        },
    },
    rules=(
        _fits_in_memory,
        _keeps_right_rows,
        _needs_keys,
        looks_first,
        fits_in_a_task,
        _window_serves,
        _native_is_right,
    ),
    cost_s=_cost_s,
    meaning=_meaning,
    conditions=key_conditions,
)
"""As-of joins."""
