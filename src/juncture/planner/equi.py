"""The algorithms for equality joins: what they do, cost and need, and what rules them out.

| operator of Spark | right when |
| --- | --- |
| broadcast | one side is small: it is sent everywhere, and the other never moves |
| shuffle hash | both are large, and of one each partition fits into a task: no sort |
| sort-merge | neither fits: sorting spills to disk, and takes any size |

Source: "Understanding Join Algorithms".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from juncture.columnar.key_table import is_narrow
from juncture.columnar.types import plain_type
from juncture.planner.algorithm import Algorithm, Cost, Need, PlanningInput, Rule, broadcast, held_side, spread_s, terms
from juncture.planner.decision import Engine
from juncture.planner.memory import ASSUMED_ROW_BYTES, held_bytes
from juncture.planner.rules import TABLE_FACTOR, fits_as_table, in_memory, is_checked, keeps_right_rows, knows_left_rows
from juncture.spec.schema import SIDES, Side
from juncture.spec.size import format_size

_PIECE_SHARE = 1 / 3
"""How much of the memory a side of a piece may take, where a join is done in pieces: most is for what it gives out."""


def _has_order(planning: PlanningInput) -> bool:
    """Return whether the key is a single number, date or time, which can be sorted as it is."""
    join = planning.join
    key = plain_type(join.left_schema.field(join.left_by[0]).type)
    is_whole = pa.types.is_integer(key) or (pa.types.is_temporal(key) and not pa.types.is_interval(key))
    return is_whole and len(join.left_by) == 1 and not join.nulls_equal


def _spilled_bytes(planning: PlanningInput) -> int:
    """Return what a join in pieces writes: nothing if it can hold the smaller side."""
    side_bytes = [held_bytes(planning.join, side, planning.stats.of(side)) for side in SIDES]
    room = planning.resources.memory_bytes * _PIECE_SHARE
    if any(each is not None and each <= room for each in side_bytes):
        return 0
    if None in side_bytes:
        return (planning.left_rows + planning.right_rows) * ASSUMED_ROW_BYTES
    return sum(filter(None, side_bytes))


def _has_dense_keys(planning: PlanningInput) -> bool:
    """Return whether the right side is not the larger one, and its keys are integers that need no hash table."""
    right = planning.stats.right
    return (
        planning.right_rows <= planning.left_rows
        and right.key_range is not None
        and is_narrow(*right.key_range, planning.right_rows)
    )


def _hash_ns(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    if _has_dense_keys(planning):
        return (left + right) * c.dense_key_ns
    # One table is made by one thread at a time.
    return (left + right) * c.equi_probe_ns + min(left, right) * c.hash_build_ns * planning.resources.cores


def _parallel_hash_ns(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    if _has_dense_keys(planning):
        return _hash_ns(planning)
    partitioned_ns = (left + right) * (c.equi_probe_ns + c.partition_ns) + min(left, right) * c.hash_build_ns
    return partitioned_ns + c.index_s * 1e9


def _sort_merge_ns(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    # Keys that cannot be sorted as they are get their order from a table.
    added_ns = 0.0 if _has_order(planning) else right * c.hash_build_ns * planning.resources.cores
    return left * c.merge_left_ns + right * c.merge_right_ns + added_ns


def _grace_ns(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    # The output has one row for each row of the larger side, say.
    restored_ns = max(left, right) * c.restore_ns if planning.resources.in_order else 0.0
    return _hash_ns(planning) + restored_ns + _spilled_bytes(planning) * c.spill_ns


def _external_sort_merge_ns(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    ordered = max(left, right) if planning.resources.in_order else 0
    restored_ns = (left + right + ordered) * c.restore_ns
    # Rows are written as ranges to be sorted, as the window that they are joined in, and in the output.
    return _sort_merge_ns(planning) + restored_ns + 3 * _spilled_bytes(planning) * c.spill_ns


def _spread(core_ns: Callable[[PlanningInput], float]) -> Cost:
    return lambda planning: spread_s(planning, core_ns(planning))


def _broadcast_s(planning: PlanningInput, sent: Side) -> float:
    c, left, right = terms(planning)
    sent_rows, kept_rows = (left, right) if sent == "left" else (right, left)
    read_ns = (left + right) * c.scan_ns
    # The driver collects a side and makes a table of it, alone.
    prepared = sent_rows * (c.collect_ns + c.jvm_build_ns) / 1e9
    return c.stage_s + prepared + spread_s(planning, read_ns + kept_rows * c.jvm_probe_ns)


def _shuffle_hash_s(planning: PlanningInput) -> float:
    c, *rows = terms(planning)
    return _shuffled_s(planning, min(rows) * c.jvm_build_ns + max(rows) * c.jvm_probe_ns)


def _spark_sort_merge_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    return _shuffled_s(planning, (left + right) * c.key_sort_ns)


def _shuffled_s(planning: PlanningInput, joined_ns: float) -> float:
    """Return the cost of a shuffle of both sides and a join. What all do, such as making the output, is left out."""
    c, left, right = terms(planning)
    return 2 * c.stage_s + spread_s(planning, (left + right) * (c.scan_ns + c.shuffle_ns) + joined_ns)


def _fits_in_partition(planning: PlanningInput, algorithm: Algorithm) -> str | None:
    """Refuse tables of partitions that do not fit, such as 10 GB in 20 partitions of tasks of 1 GB: none spills."""
    if why := is_checked(planning, algorithm):
        return why
    name = held_side(planning, algorithm)
    side = planning.stats.of(name)
    if side.bytes is None:
        return f"its tables do not spill, and the size of the {name} side is unknown."
    share = max(1 / planning.partitions, side.hottest_key_share or 0.0)
    limit = planning.resources.memory_bytes // TABLE_FACTOR
    if side.bytes * share <= limit:
        return None
    what = "the hottest key" if share > 1 / planning.partitions else f"one of {planning.partitions:,} partitions"
    return (
        f"its tables do not spill: {what} of the {name} side takes about {format_size(int(side.bytes * share))}, but "
        f"the limit is {format_size(limit)}."
    )


def _sent(side: Side, rule: Rule) -> Algorithm:
    cost = partial(_broadcast_s, sent=side)
    return broadcast(side, cost, needs=(Need("size"),), rules=(rule, fits_as_table), in_python=False)


EQUI: Mapping[Engine, tuple[Algorithm, ...]] = {
    "local": (
        in_memory(
            "hash", "build a hash table of the smaller side and stream the other side past it", _spread(_hash_ns)
        ),
        in_memory(
            "parallel_hash",
            "build a hash table for each partition of the keys, on all cores",
            _spread(_parallel_hash_ns),
        ),
        Algorithm(
            "grace",
            "partition both sides on disk by the hash of the key and join each partition in memory",
            _spread(_grace_ns),
        ),
        in_memory("sort_merge", "sort both sides by key and merge them", _spread(_sort_merge_ns)),
        Algorithm(
            "external_sort_merge",
            "sort both sides by key on disk and merge them",
            _spread(_external_sort_merge_ns),
        ),
    ),
    "spark": (
        _sent("right", keeps_right_rows),
        _sent("left", knows_left_rows),
        Algorithm(
            "shuffle_hash",
            "shuffle both sides by key and build a hash table of the smaller side in each task",
            _shuffle_hash_s,
            holds="smaller",
            shuffles="once",
            needs=(Need("counts"), Need("size"), Need("keys")),
            rules=(_fits_in_partition,),
        ),
        Algorithm(
            "sort_merge",
            "shuffle both sides by key, sort each partition and merge",
            _spark_sort_merge_s,
            shuffles="once",
            needs=(Need("counts"), Need("keys")),
        ),
    ),
}
"""Equality joins."""
