"""The algorithms for as-of joins: what they do, cost and need, and what rules them out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from juncture.planner.algorithm import Algorithm, Need, PlanningInput, broadcast, enter_ns, keyed_s, spread_s, terms
from juncture.planner.decision import Engine
from juncture.planner.rules import collects, fits_in_memory, fits_in_task, samples
from juncture.spec.asof import Asof

_SORT_SHARE_WITHOUT_KEYS = 0.6
"""What it takes to sort a row and merge it without keys, beside the same with keys."""

_PIECE_ROW_BYTES = 240
"""How much memory there has to be for a left row of a piece: 72 bytes are of the share that left rows have of it."""


def _keeps_right_rows(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse ``how="right"`` where no task alone can know that a right row was never taken."""
    how = planning.join.how
    if how not in ("right", "full"):
        return None
    return (
        f"how={how!r} keeps unmatched right rows, but each task sees only a part of the left rows. Use hash or range."
    )


def _sees_all(planning: PlanningInput, algorithm: Algorithm) -> str | None:
    """Refuse ``available_at=`` and ``where=`` where left rows see only the nearest right rows, which may not match."""
    if not _passes_over_rows(planning):
        return None
    argument, may = "where", "not satisfy it"
    if planning.join.spec.available_at is not None:
        argument, may = "available_at", "not be available yet"
    why = "cuts keys" if algorithm.splits_keys else "looks at one right row for each left one"
    return f"{argument}=: it {why}, but the nearest row may {may}. Use broadcast, broadcast_left or hash."


def _passes_over_rows(planning: PlanningInput) -> bool:
    """Return whether a left row may take another right row than the nearest."""
    spec: Asof = planning.join.spec
    return spec.available_at is not None or spec.where is not None


def _has_keys(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse a shuffle by key where there is no key, unless nothing else keeps all rows together."""
    if planning.join.left_by or _passes_over_rows(planning):
        return None
    return "there is no by column to shuffle by. Use range, which partitions by order."


def _finds_one(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse to window what one window function cannot say."""
    spec: Asof = planning.join.spec
    if spec.matches > 1:
        return f"matches={spec.matches}: it finds only one match per row."
    return "ties='error': it cannot detect ties." if spec.ties == "error" else None


def _compares_in_sql(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse SQL where integers of 64 bits meet floats, which it would round them to, and what it has no words for."""
    assert planning.join.domain is not None
    return planning.join.domain.sql_refusal


def _is_right_in_spark(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse Spark's own join where it is off, or would give another answer."""
    spec: Asof = planning.join.spec
    if not planning.native:
        return "spark.sql.join.asofJoin.enabled is off, or Spark is older than 4.3."
    if spec.direction == "nearest":
        return "Spark's nearest returns wrong rows when an earlier right value repeats."
    return (
        None if spec.how in ("inner", "left") else f"how={spec.how!r}: Spark's ASOF JOIN supports only inner and left."
    )


def _probe_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    # The right side goes by once for each piece of the left one.
    pieces = max(1, math.ceil(left * _PIECE_ROW_BYTES / planning.resources.memory_bytes))
    return c.index_s + spread_s(planning, left * c.order_ns + pieces * right * c.probe_ns)


def _merge_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    sort_share = 1.0 if planning.features.has_keys else _SORT_SHARE_WITHOUT_KEYS
    left_ns = c.pass_ns if planning.stats.left.is_sorted else c.order_ns * sort_share
    right_ns = c.pass_ns if planning.stats.right.is_sorted else c.merge_ns * sort_share
    return spread_s(planning, left * left_ns + right * right_ns)


def _broadcast_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    streamed = left * (enter_ns(planning) + c.search_ns + c.from_python_ns)
    prepared = right * (c.search_ns + (0 if planning.direct else c.collect_ns)) / 1e9
    return (1 if planning.direct else 2) * c.stage_s + prepared + spread_s(planning, streamed)


def _broadcast_left_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    candidates = min(left * planning.resources.cores, right)
    streamed = right * (enter_ns(planning) + c.search_ns)
    merged = candidates * c.scatter_ns + left * (c.search_ns + c.from_python_ns)
    prepared = left * (c.search_ns + (0 if planning.direct else c.collect_ns)) / 1e9
    return (2 if planning.direct else 3) * c.stage_s + prepared + spread_s(planning, streamed + merged)


def _shuffled_s(planning: PlanningInput, *, splits_keys: bool) -> float:
    c, left, right = terms(planning)
    scattered = (left + right) * (enter_ns(planning) + c.scatter_ns)
    joined = (left + right) * c.search_ns + left * c.from_python_ns
    if not splits_keys:
        return 2 * c.stage_s + spread_s(planning, scattered) + keyed_s(planning, joined)
    sampled = (left + right) * (c.direct_scan_ns if planning.direct else c.scan_ns)
    return 3 * c.stage_s + spread_s(planning, scattered + joined + sampled)


def _window_s(planning: PlanningInput) -> float:
    c, left, right = terms(planning)
    sorted_s = keyed_s(planning, (left + right) * (c.shuffle_ns + c.sort_ns))
    return 2 * c.stage_s + spread_s(planning, (left + right) * c.scan_ns) + sorted_s


_SIZE = (Need("size"), Need("text", unnamed=True))
_SENT = (_keeps_right_rows, collects, fits_in_task)

ASOF: Mapping[Engine, tuple[Algorithm, ...]] = {
    "local": (
        Algorithm("probe", "sort the left side, in parts if needed, and stream the right side past it", _probe_s),
        Algorithm(
            "merge",
            "pass over both sides once, in order; sort a side that is not sorted",
            _merge_s,
            holds="right",
            rules=(fits_in_memory,),
        ),
    ),
    "spark": (
        broadcast("right", _broadcast_s, needs=_SIZE, rules=_SENT),
        broadcast("left", _broadcast_left_s, needs=_SIZE, rules=_SENT),
        Algorithm(
            "hash",
            "shuffle both sides once by key",
            partial(_shuffled_s, splits_keys=False),
            shuffles="once",
            in_python=True,
            # Whether it beats ``range`` depends on how often the hottest key comes.
            needs=(Need("counts"), Need("sample", unnamed=True)),
            rules=(_has_keys,),
        ),
        Algorithm(
            "range",
            "shuffle both sides once into equal ranges of (key, on), with carryover rows",
            partial(_shuffled_s, splits_keys=True),
            shuffles="once",
            in_python=True,
            splits_keys=True,
            needs=(Need("counts"), Need("sample")),
            rules=(_sees_all, samples),
        ),
        Algorithm(
            "window",
            "union both sides and use one window function, all in SQL",
            _window_s,
            shuffles="once",
            rules=(_compares_in_sql, _sees_all, _keeps_right_rows, _finds_one),
        ),
        Algorithm(
            "native",
            "Spark's ASOF JOIN",
            rules=(_compares_in_sql, _sees_all, _keeps_right_rows, _finds_one, _is_right_in_spark),
        ),
    ),
}
"""As-of joins."""
