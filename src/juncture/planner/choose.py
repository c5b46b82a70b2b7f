"""The choice of an algorithm: drop what cannot serve, cost the rest, take the least.

What cannot serve is said by rules, one small function each, which stand with the kind of join that they are about. A
rule looks at one algorithm and returns why it is ruled out, or None.
"""

from __future__ import annotations

from collections.abc import Callable

from juncture.errors import PlanError
from juncture.planner.asof import ASOF
from juncture.planner.equi import EQUI
from juncture.planner.expected_bytes import expected_task
from juncture.planner.expected_rows import (
    Matches,
    asof_matches,
    equi_matches,
    expected_rows,
    expected_shuffle,
    near_matches,
)
from juncture.planner.overlap import OVERLAP
from juncture.planner.planning_input import Choice, Engine, Kind, Option, Question
from juncture.planner.range import RANGE
from juncture.planner.where import WHERE
from juncture.spec.arguments import check_choice
from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where

__all__ = ["KINDS", "check_algorithm", "choose", "kind_of", "serving"]

KINDS: dict[type, Kind] = {Asof: ASOF, Range: RANGE, Overlap: OVERLAP, Where: WHERE, Equi: EQUI}
"""The kinds of join, by their specs."""

_MATCHES: dict[type, Callable[[Question], Matches]] = {
    Asof: asof_matches,
    Range: near_matches,
    Overlap: near_matches,
    Where: near_matches,
    Equi: equi_matches,
}
"""What should match, by the spec."""


def kind_of(spec: object) -> Kind:
    """Return what the planner knows of the kind of join that a spec describes."""
    return KINDS[type(spec)]


def check_algorithm(spec: object, algorithm: str, engine: Engine) -> None:
    """Refuse a name that the engine does not know for this kind of join.

    Raises
    ------
    SpecError
        If no engine has such an algorithm.
    PlanError
        If another engine has it.
    """
    kind = kind_of(spec)
    known = kind.algorithms[engine]
    other: Engine = "spark" if engine == "local" else "local"
    if isinstance(algorithm, str) and algorithm not in known and algorithm in kind.algorithms[other]:
        names = ", ".join(["'auto'", *map(repr, known)])
        where = {"local": "in-process", "spark": "on Spark"}
        raise PlanError(
            f"algorithm={algorithm!r} runs {where[other]}, but these inputs are joined {where[engine]}. "
            f"Expected one of {names}."
        )
    check_choice("algorithm", algorithm, ["auto", *known])


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
    kind = kind_of(question.join.spec)
    check_algorithm(question.join.spec, algorithm, question.engine)
    options = tuple(_weigh(kind, question, name) for name in kind.algorithms[question.engine])
    if algorithm != "auto":
        option = next(option for option in options if option.algorithm == algorithm)
        if option.refusal:
            raise PlanError(f"algorithm={algorithm!r} cannot run this join: {option.refusal} Pass algorithm='auto'.")
        return _choice(question, algorithm, "it was named", options)
    able = [option for option in options if option.refusal is None and option.cost_s is not None]
    if not able:
        refusals = " ".join(f"{option.algorithm}: {option.refusal}" for option in options)
        raise PlanError(f"No algorithm can run this join as asked. {refusals}")
    best = min(able, key=lambda option: option.cost_s or 0.0)
    return _choice(question, best.algorithm, _reason(best, able, options), options)


def _choice(question: Question, algorithm: str, reason: str, options: tuple[Option, ...]) -> Choice:
    matches = _MATCHES[type(question.join.spec)](question)
    return Choice(
        algorithm=algorithm,
        reason=reason,
        options=options,
        rows=expected_rows(question, matches),
        shuffle_bytes=expected_shuffle(question, algorithm),
        task_bytes=expected_task(question, algorithm),
    )


def serving(question: Question, algorithm: str) -> str:
    """Return the chosen algorithm or, if it turns out that it cannot serve, the best that can.

    A plan is made on what is said of a stream, which has been counted once it is read.
    """
    kind = kind_of(question.join.spec)
    return algorithm if _refusal(kind, question, algorithm) is None else choose(question).algorithm


def _refusal(kind: Kind, question: Question, algorithm: str) -> str | None:
    return next((why for rule in kind.rules if (why := rule(question, algorithm))), None)


def _weigh(kind: Kind, question: Question, algorithm: str) -> Option:
    refusal = _refusal(kind, question, algorithm)
    return Option(algorithm=algorithm, cost_s=kind.cost_s(question, algorithm), refusal=refusal)


def _reason(best: Option, able: list[Option], options: tuple[Option, ...]) -> str:
    others = sorted((option.cost_s or 0.0, option.algorithm) for option in able if option is not best)
    if not others:
        return f"the other {len(options) - 1} are ruled out"
    return f"it should cost the least, and {others[0][1]} is next"
