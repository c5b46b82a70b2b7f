"""What each as-of algorithm costs, in seconds, from row counts and resources.

A formula adds up what an algorithm does to its rows: read, shuffle, hand to Python, search, sort. Each step has one
constant, in core-nanoseconds a row. They are right to within a factor, and rank the algorithms rather than foretell
their times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from juncture.planner.stats import Resources

__all__ = ["COSTS", "Constants", "Work"]


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Cost of one row in one step.

    Attributes
    ----------
    scan_ns, direct_scan_ns
        Read by the JVM; read by the task itself through Arrow.
    to_python_ns, from_python_ns
        Cross from the JVM to Python, and back.
    search_ns
        Code, search and match in a kernel.
    scatter_ns
        Place in a partition, pack and shuffle as bytes.
    shuffle_ns, sort_ns
        Shuffle row by row, and sort, in the JVM.
    collect_ns
        Bring to the driver.
    stage_s
        Start one more stage.
    order_ns
        In-process, bring a left row into order, and give it out again.
    probe_ns, merge_ns
        In-process, find the place of a right row; sort it and walk past it.
    arrange_ns
        In-process, sort a right row by a limited expression, or find the span of a left one.
    found_ns, blocked_ns, compared_ns
        In-process, look at a pair of rows: in a span, in a pair of blocks, among all pairs.
    """

    scan_ns: float = 100
    direct_scan_ns: float = 60
    to_python_ns: float = 630
    from_python_ns: float = 300
    search_ns: float = 150
    scatter_ns: float = 350
    shuffle_ns: float = 440
    sort_ns: float = 2_000
    collect_ns: float = 650
    stage_s: float = 0.25
    order_ns: float = 360
    probe_ns: float = 90
    merge_ns: float = 220
    arrange_ns: float = 150
    found_ns: float = 30
    blocked_ns: float = 50
    compared_ns: float = 60


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a cost formula needs to know.

    Attributes
    ----------
    left_rows, right_rows
        Rows of each side.
    resources
        Cores and memory.
    direct
        Whether the tasks read the inputs themselves.
    hottest_share
        Share of all rows that have the most frequent key: 1 where there is no key.
    """

    left_rows: int
    right_rows: int
    resources: Resources
    direct: bool = False
    hottest_share: float = 0.0
    constants: Constants = Constants()

    @property
    def enter_ns(self) -> float:
        """What it takes to bring a row into a task's Python."""
        c = self.constants
        return c.direct_scan_ns if self.direct else c.scan_ns + c.to_python_ns

    def spread_s(self, core_ns: float) -> float:
        """Seconds for work that divides evenly among the cores."""
        return core_ns / self.resources.cores / 1e9

    def keyed_s(self, core_ns: float) -> float:
        """Seconds for work that cannot divide a key."""
        return core_ns * max(1 / self.resources.cores, self.hottest_share) / 1e9


def _probe_s(work: Work) -> float:
    c = work.constants
    return work.spread_s(work.left_rows * c.order_ns + work.right_rows * c.probe_ns)


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
