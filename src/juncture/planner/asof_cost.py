"""What each as-of algorithm costs, in seconds, from row counts and resources."""

from __future__ import annotations

import math
from collections.abc import Callable

from juncture.planner.cost import Work

__all__ = ["COSTS"]


_PIECE_ROW_BYTES = 300
"""What a left row takes with its matches, in the memory and in the output."""


def _probe_s(work: Work) -> float:
    c = work.constants
    # The right side goes by once for each piece of the left one.
    pieces = max(1, math.ceil(work.left_rows * _PIECE_ROW_BYTES / work.resources.memory_bytes))
    return work.spread_s(work.left_rows * c.order_ns + pieces * work.right_rows * c.probe_ns)


def _merge_s(work: Work) -> float:
    c = work.constants
    return work.spread_s(work.left_rows * c.order_ns + work.right_rows * c.merge_ns)


def _broadcast_s(work: Work) -> float:
    c = work.constants
    streamed = work.left_rows * (work.enter_ns + c.search_ns + c.from_python_ns)
    prepared = work.right_rows * c.search_ns
    if work.direct:
        return c.stage_s + prepared / 1e9 + work.spread_s(streamed)
    return 2 * c.stage_s + work.right_rows * c.collect_ns / 1e9 + prepared / 1e9 + work.spread_s(streamed)


def _broadcast_left_s(work: Work) -> float:
    c = work.constants
    candidates = min(work.left_rows * work.resources.cores, work.right_rows)
    streamed = work.right_rows * (work.enter_ns + c.search_ns)
    merged = candidates * c.scatter_ns + work.left_rows * (c.search_ns + c.from_python_ns)
    prepared = work.left_rows * (c.search_ns + (0 if work.direct else c.collect_ns)) / 1e9
    return (2 if work.direct else 3) * c.stage_s + prepared + work.spread_s(streamed + merged)


def _hash_s(work: Work) -> float:
    c = work.constants
    rows = work.left_rows + work.right_rows
    joined = rows * c.search_ns + work.left_rows * c.from_python_ns
    return 2 * c.stage_s + work.spread_s(rows * (work.enter_ns + c.scatter_ns)) + work.keyed_s(joined)


def _range_s(work: Work) -> float:
    c = work.constants
    rows = work.left_rows + work.right_rows
    scattered = rows * (work.enter_ns + c.scatter_ns)
    joined = rows * c.search_ns + work.left_rows * c.from_python_ns
    sampled = rows * (c.direct_scan_ns if work.direct else c.scan_ns)
    return 3 * c.stage_s + work.spread_s(scattered + joined + sampled)


def _window_s(work: Work) -> float:
    c = work.constants
    rows = work.left_rows + work.right_rows
    return 2 * c.stage_s + work.spread_s(rows * c.scan_ns) + work.keyed_s(rows * (c.shuffle_ns + c.sort_ns))


COSTS: dict[str, Callable[[Work], float]] = {
    "probe": _probe_s,
    "merge": _merge_s,
    "broadcast": _broadcast_s,
    "broadcast_left": _broadcast_left_s,
    "hash": _hash_s,
    "range": _range_s,
    "window": _window_s,
}
"""The formula of each algorithm that the planner weighs."""
