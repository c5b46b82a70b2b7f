"""The algorithms for one of the tables of a join of many to one spine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from juncture.planner.algorithm import Algorithm, PlanningInput, enter_ns, spread_s, terms
from juncture.planner.choose import ALGORITHMS, refusal
from juncture.planner.decision import Engine
from juncture.planner.rules import sent_bytes_most
from juncture.spec.base import Spec

_SPINE_ROWS = 1 << 20  # how many rows of the spine a task joins to a broadcast table at once


def is_lookup(join: Any) -> bool:
    """Return whether equal keys alone decide which single row of a table a row of the spine gets."""
    return join.spec.is_lookup and not join.aggregates and join.predicate is None


def _finds_by_keys(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse to look up rows by their keys alone where more decides."""
    return None if is_lookup(planning.join) else "it finds rows by equal keys alone."


def _has_keys(planning: PlanningInput, _: Algorithm) -> str | None:
    return None if planning.join.left_by else "there is no key to shuffle by."


def _fits_beside_others(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse to send tables to every task that are too large together."""
    limit_bytes = sent_bytes_most(planning)
    size = planning.stats.right.bytes
    if size is not None and size + planning.features.sent_bytes <= limit_bytes:
        return None
    return f"the table and all smaller ones exceed {limit_bytes / 1e6:,.0f} MB, the limit for copies in every task."


def _lookup_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    # The keys of the spine are coded once for all tables.
    return spread_s(planning, left * c.dense_key_ns + right * c.equi_probe_ns)


def _broadcast_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    passes = max(planning.resources.cores, left // _SPINE_ROWS)
    sent_s = right * (0 if planning.direct else c.collect_ns) / 1e9
    return c.stage_s + sent_s + spread_s(planning, passes * right * c.search_ns)


def _shared_shuffle_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    # The first table of a key pays for the spine.
    moved = right if planning.features.spine_is_shuffled else left + right
    return 2 * c.stage_s + spread_s(planning, moved * (enter_ns(planning) + c.scatter_ns) + right * c.search_ns)


TABLES: Mapping[Engine, tuple[Algorithm, ...]] = {
    "local": (
        Algorithm(
            "lookup",
            "look up the key of each right row among those of the spine, which are coded once",
            _lookup_s,
            rules=(_finds_by_keys,),
        ),
    ),
    "spark": (
        Algorithm(
            "broadcast",
            "send the table to every task, and join it there",
            _broadcast_s,
            holds="right",
            sends=True,
            in_python=True,
            rules=(_fits_beside_others,),
        ),
        Algorithm(
            "shared_shuffle",
            "shuffle the spine and all tables with this key once, and join them in tasks",
            _shared_shuffle_s,
            shuffles="once",
            in_python=True,
            rules=(_has_keys,),
        ),
    ),
}
"""What joins of many tables have beside, or on Spark instead of, the algorithms of a kind of join."""


def table_algorithms(spec: Spec, engine: Engine) -> tuple[Algorithm, ...]:
    """Return the algorithms for a table of a join of many."""
    return (*TABLES[engine], *(ALGORITHMS[spec.joined_as][engine] if engine == "local" else ()))


def sharing(tables: Sequence[PlanningInput]) -> list[PlanningInput]:
    """Return tables of one key on Spark, with whether others of them bring the spine to the partitions of the key.

    The spine is shuffled if a table cannot be broadcast, or if that saves more than the spine costs.
    """
    broadcast, shuffle = TABLES["spark"]
    spine_s = _shared_shuffle_s(tables[0]) - _shared_shuffle_s(_beside_shuffled(tables[0]))
    saved_s, has_to = 0.0, False
    for each in tables:
        if refusal(each, shuffle) is not None:
            continue
        has_to = has_to or refusal(each, broadcast) is not None
        saved_s += max(0.0, _broadcast_s(each) - _shared_shuffle_s(_beside_shuffled(each)))
    return [_beside_shuffled(each) for each in tables] if has_to or saved_s > spine_s else list(tables)


def _beside_shuffled(planning: PlanningInput) -> PlanningInput:
    return replace(planning, features=replace(planning.features, spine_is_shuffled=True))
