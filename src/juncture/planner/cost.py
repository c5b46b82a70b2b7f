"""What each as-of algorithm costs, in seconds, from row counts and resources.

A formula adds up what an algorithm does to its rows: read, shuffle, hand to Python, search, sort. Each step has one
constant, in core-nanoseconds a row. They are right to within a factor, and rank the algorithms rather than foretell
their times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from juncture.planner.stats import Resources

__all__ = ["SPARK_COSTS", "Constants", "Work"]


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Cost of one row in one step.

    Attributes
    ----------
    scan_ns, direct_scan_ns
        Read from a DataFrame; read by the task itself through Arrow.
    shuffle_ns
        Write to and read from a shuffle.
    to_python_ns, from_python_ns
        Cross from the JVM to Python, and back.
    search_ns
        Code, search and match in a kernel.
    sort_ns
        Sort in the JVM.
    collect_ns
        Bring to the driver.
    job_s
        Start one more stage or job.
    """

    scan_ns: float = 100
    direct_scan_ns: float = 60
    shuffle_ns: float = 440
    to_python_ns: float = 500
    from_python_ns: float = 300
    search_ns: float = 120
    sort_ns: float = 1_100
    collect_ns: float = 700
    job_s: float = 0.15


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a cost formula needs to know.

    Attributes
    ----------
    left_rows, right_rows
        Rows of each side.
    hottest_share
        Share of all rows that have the most frequent key: 1 where there is no key.
    direct
        Whether the tasks read the inputs themselves.
    resources
        Cores and memory.
    """

    left_rows: int
    right_rows: int
    hottest_share: float
    direct: bool
    resources: Resources
    constants: Constants = Constants()

    def spread_s(self, core_ns: float) -> float:
        """Seconds for work that divides evenly among the cores."""
        return core_ns / self.resources.cores / 1e9

    def keyed_s(self, core_ns: float) -> float:
        """Seconds for work that cannot divide a key."""
        return core_ns * max(1 / self.resources.cores, self.hottest_share) / 1e9


def _broadcast_s(work: Work) -> float:
    c = work.constants
    per_task = work.right_rows * c.search_ns
    if work.direct:
        return work.spread_s(work.left_rows * (c.direct_scan_ns + c.search_ns + c.from_python_ns)) + per_task / 1e9
    streamed = work.left_rows * (c.scan_ns + c.to_python_ns + c.search_ns + c.from_python_ns)
    collected = work.right_rows * (c.collect_ns + c.search_ns)
    return c.job_s + collected / 1e9 + work.spread_s(streamed + per_task)


def _broadcast_left_s(work: Work) -> float:
    c = work.constants
    candidates = min(work.left_rows * work.resources.cores, work.right_rows)
    merged = candidates * (c.from_python_ns + c.shuffle_ns + c.to_python_ns) + work.left_rows * c.from_python_ns
    per_task = work.left_rows * c.search_ns
    if work.direct:
        streamed = work.right_rows * (c.direct_scan_ns + c.search_ns)
        return c.job_s + work.spread_s(streamed + merged) + per_task / 1e9
    streamed = work.right_rows * (c.scan_ns + c.to_python_ns + c.search_ns)
    return 2 * c.job_s + work.left_rows * c.collect_ns / 1e9 + work.spread_s(streamed + merged) + per_task / 1e9


def _hash_s(work: Work) -> float:
    c = work.constants
    rows = work.left_rows + work.right_rows
    joined = rows * (c.to_python_ns + c.search_ns) + work.left_rows * c.from_python_ns
    return c.job_s + work.spread_s(rows * (c.scan_ns + c.shuffle_ns)) + work.keyed_s(joined)


def _range_s(work: Work) -> float:
    c = work.constants
    rows = work.left_rows + work.right_rows
    joined = rows * (c.to_python_ns + c.search_ns) + work.left_rows * c.from_python_ns
    carried = work.right_rows * (c.scan_ns + min(1.0, work.hottest_share * work.resources.cores) * c.to_python_ns)
    return 3 * c.job_s + work.spread_s(rows * (2 * c.scan_ns + c.shuffle_ns) + joined + carried)


def _window_s(work: Work) -> float:
    c = work.constants
    rows = work.left_rows + work.right_rows
    return c.job_s + work.spread_s(rows * c.scan_ns) + work.keyed_s(rows * (c.shuffle_ns + c.sort_ns))


SPARK_COSTS: dict[str, Callable[[Work], float]] = {
    "broadcast": _broadcast_s,
    "broadcast_left": _broadcast_left_s,
    "hash": _hash_s,
    "range": _range_s,
    "window": _window_s,
}
"""The formula of each algorithm that the planner weighs on Spark."""
