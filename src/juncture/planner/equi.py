"""What the planner knows of equality joins: the algorithms, what rules them out, and what they cost."""

from __future__ import annotations

import pyarrow as pa

from juncture.planner.conditions import Condition, equal_names, key_conditions
from juncture.planner.equi_cost import COSTS, EquiWork
from juncture.planner.equi_spark import RULES, SPARK, equi_cost_s
from juncture.planner.memory import ASSUMED_ROW_BYTES, held_bytes, too_much
from juncture.planner.planning_input import Kind, Question
from juncture.predicate.language.sql import describe
from juncture.spec.equi import ResolvedEqui
from juncture.spec.schema import plain_type

__all__ = ["EQUI"]

_PIECE_SHARE = 1 / 3
"""How much of the memory a side of a piece may take, where a join is done in pieces: most is for what it gives out."""

_IN_MEMORY = ("hash", "parallel_hash", "sort_merge")


def _fits_in_memory(question: Question, algorithm: str) -> str | None:
    """Refuse to hold what does not fit: 100 million right rows of 32 bytes take 8 GB."""
    return too_much(question, algorithm, _IN_MEMORY)


def _cost_s(question: Question, algorithm: str) -> float | None:
    if question.engine == "spark":
        return equi_cost_s(question, algorithm)
    held = held_bytes(question.join, "right", question.stats.right)
    if held is None and algorithm in _IN_MEMORY:
        # A side that nobody has counted is not held, unless someone says so.
        return None
    work = EquiWork(
        left_rows=question.left_rows,
        right_rows=question.right_rows,
        resources=question.resources,
        has_order=_has_order(question),
        spilled_bytes=_spilled_bytes(question),
    )
    return work.spread_s(COSTS[algorithm](work))


def _has_order(question: Question) -> bool:
    """Tell whether the key is a single number, date or time."""
    join = question.join
    assert isinstance(join, ResolvedEqui)
    key = plain_type(join.left_schema.field(join.left_by[0]).type)
    is_whole = pa.types.is_integer(key) or (pa.types.is_temporal(key) and not pa.types.is_interval(key))
    return is_whole and len(join.left_by) == 1 and not join.nulls_equal


def _spilled_bytes(question: Question) -> int:
    """Return what a join in pieces writes: nothing if it can hold the smaller side."""
    stats = question.stats
    held = [held_bytes(question.join, "left", stats.left), held_bytes(question.join, "right", stats.right)]
    room = question.resources.memory_bytes * _PIECE_SHARE
    if any(each is not None and each <= room for each in held):
        return 0
    return (question.left_rows + question.right_rows) * ASSUMED_ROW_BYTES if None in held else sum(filter(None, held))


def _meaning(join: ResolvedEqui) -> str:
    nulls = ", nulls included" if join.nulls_equal else ""
    condition = "" if join.predicate is None else f" for which {describe(join.predicate)}"
    return f"each left row gets the right rows of equal {equal_names(join)}{nulls}{condition} ({join.how} join)"


def _conditions(join: ResolvedEqui) -> tuple[Condition, ...]:
    residual = () if join.predicate is None else (("residual", describe(join.predicate)),)
    return (*key_conditions(join), *residual)


EQUI = Kind(
    title="Equality join",
    algorithms={
        "local": {
            "hash": "a table of the smaller side's keys, the other side streams past it",
            "parallel_hash": "the same, a table for each partition of the keys, made by all cores at once",
            "grace": "cut both sides by the hash of the key into pieces on disk, join each in memory",
            "sort_merge": "sort both sides by key, walk through them side by side",
            "external_sort_merge": "sort both sides by key on disk, walk through them side by side",
        },
        "spark": SPARK,
    },
    rules=(_fits_in_memory, *RULES),
    cost_s=_cost_s,
    meaning=_meaning,
    conditions=_conditions,
)
"""Equality joins."""
