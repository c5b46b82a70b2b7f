"""The choice of an algorithm: drop what cannot serve, cost the rest, take the least."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

from juncture.errors import PlanError
from juncture.planner.algorithm import Algorithm, PlanningInput
from juncture.planner.asof import ASOF
from juncture.planner.decision import PLACES, Choice, Engine, Option
from juncture.planner.equi import EQUI
from juncture.planner.expected import expected_rows, expected_shuffle, expected_task
from juncture.planner.inequality import OVERLAP, RANGE, WHERE
from juncture.planner.rules import follows_stream
from juncture.spec.arguments import check_choice
from juncture.spec.asof import Asof
from juncture.spec.base import Spec
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where

ALGORITHMS: Mapping[type, Mapping[Engine, tuple[Algorithm, ...]]] = {
    Asof: ASOF,
    Range: RANGE,
    Overlap: OVERLAP,
    Where: WHERE,
    Equi: EQUI,
}
"""The algorithms of each engine, by the spec of a join."""


def algorithms_of(spec: Spec, engine: Engine) -> dict[str, Algorithm]:
    """Return the algorithms that an engine has for a join, by their names."""
    return _by_name(ALGORITHMS[spec.joined_as][engine])


def _by_name(algorithms: tuple[Algorithm, ...]) -> dict[str, Algorithm]:
    return {algorithm.name: algorithm for algorithm in algorithms}


def check_algorithm(spec: Spec, name: str, engine: Engine) -> None:
    """Refuse a name that the engine does not know for this kind of join."""
    if isinstance(name, str) and name == "auto":
        return
    other: Engine = "spark" if engine == "local" else "local"
    names_of_kind = algorithms_of(spec, engine)
    if isinstance(name, str) and name not in names_of_kind and name in algorithms_of(spec, other):
        names = ", ".join(["'auto'", *map(repr, names_of_kind)])
        raise PlanError(
            f"algorithm={name!r} runs {PLACES[other]}, but these inputs are joined {PLACES[engine]}. Use one of "
            f"{names}.",
            name="JN-ALGORITHM-ENGINE",
        )
    check_choice("algorithm", name, ["auto", *names_of_kind])


def choose(planning: PlanningInput, name: str = "auto", among: tuple[Algorithm, ...] | None = None) -> Choice:
    """Choose an algorithm of the kind of join, or `among` others; raise PlanError if the named one cannot serve."""
    check_algorithm(planning.join.spec, name, planning.engine)
    algorithms = algorithms_of(planning.join.spec, planning.engine) if among is None else _by_name(among)
    options = tuple(_option(planning, algorithm) for algorithm in algorithms.values())
    best, reason = _best(options) if name == "auto" else _named(options, name)
    return Choice(
        algorithm=best,
        reason=reason,
        options=options,
        output_rows=expected_rows(planning),
        shuffle_bytes=expected_shuffle(planning, algorithms[best]),
        task_bytes=expected_task(planning, algorithms[best]),
    )


def cheapest(planning: PlanningInput) -> tuple[str, float | None]:
    """Return the algorithm that `choose` would choose and its cost in seconds, without what an explanation needs."""
    costs = [
        (cost, algorithm)
        for algorithm in ALGORITHMS[planning.join.spec.joined_as][planning.engine]
        if algorithm.cost is not None and (cost := algorithm.cost(planning)) is not None
    ]
    # Of equal costs, the one that stands first is taken.
    for cost_s, algorithm in sorted(costs, key=itemgetter(0)):
        if refusal(planning, algorithm) is None:
            return algorithm.name, cost_s
    chosen = choose(planning).chosen
    return chosen.algorithm, chosen.cost_s


def serving(planning: PlanningInput, name: str) -> str:
    """Return the chosen algorithm, or the best that can serve now that the rows of a stream have been counted."""
    algorithm = algorithms_of(planning.join.spec, planning.engine)[name]
    return name if refusal(planning, algorithm) is None else choose(planning).algorithm


def refusal(planning: PlanningInput, algorithm: Algorithm) -> str | None:
    """Return why an algorithm cannot run a join; None if it can."""
    return next((why for rule in (follows_stream, *algorithm.rules) if (why := rule(planning, algorithm))), None)


def _option(planning: PlanningInput, algorithm: Algorithm) -> Option:
    return Option(
        algorithm=algorithm.name,
        summary=algorithm.summary,
        cost_s=None if algorithm.cost is None else algorithm.cost(planning),
        excluded=refusal(planning, algorithm),
    )


def _named(options: tuple[Option, ...], name: str) -> tuple[str, str]:
    """Return the algorithm that was named, and that as the reason."""
    excluded = next(option.excluded for option in options if option.algorithm == name)
    if excluded:
        mend = (
            " Pass algorithm='auto' to use another one." if any(option.excluded is None for option in options) else ""
        )
        raise PlanError(f"algorithm={name!r} cannot run this join: {excluded}{mend}", name="JN-ALGORITHM-UNSUITABLE")
    return name, "algorithm= names it"


def _best(options: tuple[Option, ...]) -> tuple[str, str]:
    """Return the algorithm that should cost the least, and why it was taken."""
    costs = {each.algorithm: each.cost_s for each in options if each.excluded is None and each.cost_s is not None}
    if not costs:
        refusals = " ".join(f"{option.algorithm}: {option.excluded}" for option in options)
        raise PlanError(
            f"No algorithm can run this join with these arguments. {refusals}", name="JN-ALGORITHM-UNSUITABLE"
        )
    # Of equal costs, the one that stands first is taken.
    best = min(costs, key=costs.__getitem__)
    others = sorted((cost, name) for name, cost in costs.items() if name != best)
    if not others:
        return best, f"all {len(options) - 1} other algorithms are excluded"
    return best, f"lowest estimated cost; next is {others[0][1]}"
