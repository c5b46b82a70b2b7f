"""The choice of an as-of algorithm: drop what cannot serve, cost the rest, take the least.

What cannot serve is said by rules, one small function each. A rule looks at one algorithm and returns why it is ruled
out, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from juncture.errors import PlanError, SpecError, did_you_mean
from juncture.planner.cost import SPARK_COSTS, Work
from juncture.planner.stats import Resources, Stats
from juncture.spec.asof import ResolvedAsof

__all__ = ["ALGORITHMS", "Choice", "Engine", "Option", "Question", "check_algorithm", "choose"]

Engine = Literal["local", "spark"]

ALGORITHMS: dict[Engine, dict[str, str]] = {
    "local": {
        "probe": "sort the left once, stream the right past it",
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
}
"""The algorithms of each engine, with what they do."""

BROADCAST_BYTES_MAX = 64 * 1024 * 1024
"""The largest side that is collected and shipped to tasks: it has to fit into one message of Spark Connect."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """All that the choice depends on.

    Attributes
    ----------
    join
        The resolved spec.
    engine
        Where it runs.
    stats, resources
        What is known of the inputs, and what may be used.
    direct
        Whether both inputs are paths that Spark's tasks read themselves.
    lazy
        Whether jobs at build time are forbidden.
    native
        Whether the session has Spark's own as-of join switched on.
    """

    join: ResolvedAsof
    engine: Engine
    stats: Stats
    resources: Resources
    direct: bool = False
    lazy: bool = False
    native: bool = False


@dataclass(frozen=True, kw_only=True)
class Option:
    """One algorithm, weighed.

    Attributes
    ----------
    algorithm
        Its name.
    cost_s
        What it should take; None where that is not estimated.
    refusal
        Why it cannot serve, or None.
    """

    algorithm: str
    cost_s: float | None = None
    refusal: str | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The algorithm that will run, why, and what else was weighed."""

    algorithm: str
    reason: str
    options: tuple[Option, ...]


def check_algorithm(algorithm: str, engine: Engine) -> None:
    """Refuse a name that the engine does not know.

    Raises
    ------
    SpecError
        If no engine has such an algorithm.
    PlanError
        If another engine has it.
    """
    if algorithm == "auto" or algorithm in ALGORITHMS[engine]:
        return
    other: Engine = "spark" if engine == "local" else "local"
    known = ", ".join(["'auto'", *map(repr, ALGORITHMS[engine])])
    if algorithm in ALGORITHMS[other]:
        where = {"local": "in-process", "spark": "on Spark"}
        raise PlanError(
            f"algorithm={algorithm!r} runs {where[other]}, but these inputs are joined {where[engine]}. "
            f"Expected one of {known}."
        )
    raise SpecError(
        f"algorithm={algorithm!r} is not known. Expected one of {known}. {did_you_mean(algorithm, ALGORITHMS[engine])}"
    )


def choose(question: Question, algorithm: str = "auto") -> Choice:
    """Choose an algorithm, or check the one that was named.

    Parameters
    ----------
    question
        What the choice depends on.
    algorithm
        ``"auto"``, or the one to take.

    Raises
    ------
    SpecError, PlanError
        If the named algorithm is unknown or cannot serve, or none can.
    """
    check_algorithm(algorithm, question.engine)
    options = tuple(_weigh(question, name) for name in ALGORITHMS[question.engine])
    if algorithm != "auto":
        option = next(option for option in options if option.algorithm == algorithm)
        if option.refusal:
            raise PlanError(f"algorithm={algorithm!r} cannot run this join: {option.refusal} Pass algorithm='auto'.")
        return Choice(algorithm=algorithm, reason="it was named", options=options)
    able = [option for option in options if option.refusal is None and option.cost_s is not None]
    if not able:
        refusals = " ".join(f"{option.algorithm}: {option.refusal}" for option in options)
        raise PlanError(f"No algorithm can run this join as asked. {refusals}")
    best = min(able, key=lambda option: option.cost_s or 0.0)
    return Choice(algorithm=best.algorithm, reason=_reason(best, able, options), options=options)


def _weigh(question: Question, algorithm: str) -> Option:
    refusal = next((why for rule in RULES if (why := rule(question, algorithm))), None)
    return Option(algorithm=algorithm, cost_s=_cost_s(question, algorithm), refusal=refusal)


def _cost_s(question: Question, algorithm: str) -> float | None:
    if question.engine == "local":
        both_sorted = question.stats.left.is_sorted and question.stats.right.is_sorted
        return {"probe": 1.0, "merge": 0.5 if both_sorted else 2.0}[algorithm]
    formula = SPARK_COSTS.get(algorithm)
    left, right = question.stats.left, question.stats.right
    if formula is None:
        return None
    shares = [side.hottest_share for side in (left, right) if side.hottest_share is not None]
    return formula(
        Work(
            left_rows=left.rows if left.rows is not None else ASSUMED_ROWS,
            right_rows=right.rows if right.rows is not None else ASSUMED_ROWS,
            hottest_share=max(shares, default=0.0) if question.join.left_by else 1.0,
            direct=question.direct,
            resources=question.resources,
        )
    )


ASSUMED_ROWS = 100_000_000
"""Rows of a side that nobody has counted: large, so that it is not shipped anywhere by mistake."""


def _reason(best: Option, able: list[Option], options: tuple[Option, ...]) -> str:
    others = sorted((option.cost_s or 0.0, option.algorithm) for option in able if option is not best)
    if not others:
        return f"the other {len(options) - 1} are ruled out"
    return f"it should cost the least, and {others[0][1]} is next"


def _keeps_right_rows(question: Question, algorithm: str) -> str | None:
    """Refuse ``how="right"`` where no task alone can know that a right row was never taken."""
    how = question.join.spec.how
    if how not in ("right", "full") or algorithm not in ("broadcast", "broadcast_left", "window", "native"):
        return None
    return f"how={how!r} keeps right rows that no left row took, which no task knows alone: hash and range can."


def _needs_keys(question: Question, algorithm: str) -> str | None:
    """Refuse a shuffle by key where there is no key."""
    if algorithm == "hash" and not question.join.left_by:
        return "there is no by column to shuffle by; range spreads the rows by their order instead."
    return None


def _looks_first(question: Question, algorithm: str) -> str | None:
    """Refuse jobs at build time under ``lazy=True``."""
    if question.lazy and not question.direct and algorithm in ("broadcast", "broadcast_left"):
        return "it collects a side when the join is built, which lazy=True forbids."
    if question.lazy and algorithm == "range":
        return "it samples both sides when the join is built, which lazy=True forbids."
    return None


def _fits_in_a_task(question: Question, algorithm: str) -> str | None:
    """Refuse to ship a side that is unknown, or too large for a task or a message."""
    if algorithm not in ("broadcast", "broadcast_left"):
        return None
    side = question.stats.right if algorithm == "broadcast" else question.stats.left
    name = "right" if algorithm == "broadcast" else "left"
    room = question.resources.memory_bytes // 4
    limit = room if question.direct else min(BROADCAST_BYTES_MAX, room)
    if side.bytes is None:
        return f"the size of the {name} side is not known." if question.lazy else None
    if side.bytes > limit:
        return f"the {name} side has about {side.bytes / 1e6:,.0f} MB, and {limit / 1e6:,.0f} MB may go to every task."
    return None


def _window_serves(question: Question, algorithm: str) -> str | None:
    """Refuse to window what one window function cannot say."""
    spec = question.join.spec
    if algorithm not in ("window", "native"):
        return None
    if spec.matches > 1:
        return f"matches={spec.matches}: it finds one match per row."
    if spec.ties == "error":
        return "ties='error': it cannot tell that there was a tie."
    return None


def _native_is_right(question: Question, algorithm: str) -> str | None:
    """Refuse Spark's own join where it is off, or would give another answer."""
    spec = question.join.spec
    if algorithm != "native":
        return None
    if not question.native:
        return "the session has spark.sql.join.asofJoin.enabled off (or is older than Spark 4.3)."
    if spec.direction == "nearest":
        return "Spark's own nearest is wrong when an earlier right value repeats."
    if spec.how not in ("inner", "left"):
        return f"how={spec.how!r}: Spark's own knows inner and left."
    return None


RULES: tuple[Callable[[Question, str], str | None], ...] = (
    _keeps_right_rows,
    _needs_keys,
    _looks_first,
    _fits_in_a_task,
    _window_serves,
    _native_is_right,
)
"""What rules an algorithm out, the first that applies being the reason given."""
