"""What the steps of a join cost, of which each kind's formulas are made.

A formula adds up what an algorithm does to its rows: read, shuffle, hand to Python, search, sort. Each step has one
constant, in core-nanoseconds a row. Costs are right to within a factor, and rank the algorithms rather than foretell
their times.
"""

from __future__ import annotations

from dataclasses import dataclass

from juncture.planner.constants import Constants
from juncture.planner.stats import Resources

__all__ = ["Work"]


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

    @property
    def constants(self) -> Constants:
        """What a row costs in each step."""
        return self.resources.constants

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
