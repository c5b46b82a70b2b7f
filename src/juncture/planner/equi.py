"""What the planner knows of equality joins: the algorithms, what rules them out, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from juncture.planner.conditions import Condition, equal_names, key_conditions
from juncture.planner.equi_spark import RULES, SPARK, equi_cost_s
from juncture.planner.question import Kind, Question
from juncture.predicate.sql import to_sql
from juncture.spec.equi import ResolvedEqui
from juncture.spec.size import format_size

__all__ = ["EQUI", "HELD_ROW_BYTES", "EquiConstants"]

HELD_ROW_BYTES = 48
"""What a row that is held takes beside its columns: its key, its code and its place."""

HELD_SHARE = 0.6
"""How much of the memory held rows may take. The rest is for what comes in and goes out."""

_ASSUMED_ROW_BYTES = 32
_IN_MEMORY = ("hash", "parallel_hash", "sort_merge")


@dataclass(frozen=True, kw_only=True)
class EquiConstants:
    """Cost of one row in one step, in core-nanoseconds.

    Attributes
    ----------
    read_ns
        Read and decode.
    add_ns, find_ns
        Give a key a code in a table; look it up there.
    split_ns
        Bring rows into the order of their partitions.
    sort_ns, merge_ns
        Sort by code; walk through sorted rows.
    hold_ns, emit_ns
        Hold the columns of a right row; give out a left row with its matches.
    spill_ns
        Write to disk, and read again.
    """

    read_ns: float = 50
    add_ns: float = 150
    find_ns: float = 60
    split_ns: float = 60
    sort_ns: float = 60
    merge_ns: float = 30
    hold_ns: float = 40
    emit_ns: float = 40
    spill_ns: float = 250


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What a cost formula needs to know."""

    left: int
    right: int
    cores: int
    fits: bool
    constants: EquiConstants = EquiConstants()

    @property
    def through_ns(self) -> float:
        """What each algorithm does: read both sides, hold the right rows, give out the left ones."""
        c = self.constants
        return (self.left + self.right) * c.read_ns + self.right * c.hold_ns + self.left * c.emit_ns

    @property
    def small(self) -> int:
        return min(self.left, self.right)

    @property
    def large(self) -> int:
        return max(self.left, self.right)


def _hash_ns(work: _Work) -> float:
    c = work.constants
    # One table is made by one thread at a time.
    return work.through_ns + work.small * c.add_ns * work.cores + work.large * c.find_ns


def _parallel_hash_ns(work: _Work) -> float:
    c = work.constants
    return work.through_ns + work.small * (c.add_ns + c.split_ns) + work.large * (c.find_ns + c.split_ns)


def _sort_merge_ns(work: _Work) -> float:
    c = work.constants
    coded = work.right * c.add_ns * work.cores + work.left * c.find_ns
    return work.through_ns + coded + (work.left + work.right) * c.sort_ns + work.left * c.merge_ns


def _grace_ns(work: _Work) -> float:
    c = work.constants
    numbered = (work.left + work.right) * c.read_ns
    if work.fits:
        return _hash_ns(work) + numbered
    return _hash_ns(work) + numbered + (work.left + work.right) * (c.split_ns + 2 * c.spill_ns)


def _external_sort_merge_ns(work: _Work) -> float:
    c = work.constants
    rows = work.left + work.right
    return _sort_merge_ns(work) + rows * (c.read_ns + 2 * c.sort_ns + (0 if work.fits else 3 * c.spill_ns))


_COSTS: dict[str, Callable[[_Work], float]] = {
    "hash": _hash_ns,
    "parallel_hash": _parallel_hash_ns,
    "sort_merge": _sort_merge_ns,
    "grace": _grace_ns,
    "external_sort_merge": _external_sort_merge_ns,
}


def _held_bytes(question: Question) -> int | None:
    """Return what the right rows take in memory; None if nobody has counted them."""
    right = question.stats.right
    if right.rows is None:
        return None
    row_bytes = _ASSUMED_ROW_BYTES if right.row_bytes is None else right.row_bytes
    return right.rows * (row_bytes + HELD_ROW_BYTES)


def _fits_in_memory(question: Question, algorithm: str) -> str | None:
    """Refuse to hold what does not fit: 100 million right rows of 32 bytes take 8 GB."""
    if question.engine != "local" or algorithm not in _IN_MEMORY:
        return None
    held = _held_bytes(question)
    room = int(question.resources.memory_bytes * HELD_SHARE)
    if held is None or held <= room:
        return None
    return f"it holds right rows of about {format_size(held)}, and {format_size(room)} may be held."


def _cost_s(question: Question, algorithm: str) -> float | None:
    if question.engine == "spark":
        return equi_cost_s(question, algorithm)
    formula, held = _COSTS.get(algorithm), _held_bytes(question)
    if formula is None or (held is None and algorithm in _IN_MEMORY):
        # A side that nobody has counted is not held, unless someone says so.
        return None
    cores = question.resources.cores
    work = _Work(
        left=question.left_rows,
        right=question.right_rows,
        cores=cores,
        fits=held is not None and held <= question.resources.memory_bytes * HELD_SHARE,
    )
    return formula(work) / cores / 1e9


def _meaning(join: ResolvedEqui) -> str:
    nulls = ", nulls included" if join.nulls_equal else ""
    condition = "" if join.predicate is None else f" for which {to_sql(join.predicate)}"
    return f"each left row gets the right rows of equal {equal_names(join)}{nulls}{condition} ({join.how} join)"


def _conditions(join: ResolvedEqui) -> tuple[Condition, ...]:
    residual = () if join.predicate is None else (("residual", to_sql(join.predicate)),)
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
