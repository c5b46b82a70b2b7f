"""What the steps of a join cost, of which each kind's formulas are made.

A formula adds up what an algorithm does to its rows: read, shuffle, hand to Python, search, sort. Each step has one
constant, in core-nanoseconds a row. They are right to within a factor, and rank the algorithms rather than foretell
their times.
"""

from __future__ import annotations

from dataclasses import dataclass

from juncture.planner.stats import Resources

__all__ = ["Constants", "Work"]


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
    stage_s, python_s
        Start one more stage; start Python in the first task of a kind.
    key_sort_ns
        Sort by a key that is a number, in the JVM.
    table_ns, lookup_ns
        Put into a hash table of the JVM's; look up there.
    loop_ns, hashed_ns
        Compare two rows in Spark's nested loop; the same where it joins by keys, spread over all pairs.
    bin_pair_ns
        Compare two rows of a bin, in Spark's own join.
    made_ns
        Make a row of the result, where Spark joins itself.
    folded_ns
        Take a match into an aggregate.
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
    python_s: float = 1.0
    key_sort_ns: float = 360
    table_ns: float = 500
    lookup_ns: float = 100
    loop_ns: float = 6
    hashed_ns: float = 0.6
    bin_pair_ns: float = 25
    made_ns: float = 30
    folded_ns: float = 2
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
