"""The cost of the steps of a join. The cost formulas of algorithms are sums of these.

A formula adds up what an algorithm does to its rows: read, shuffle, hand to Python, search, sort. Each step has one
constant, in core-nanoseconds a row. Costs are right to within a factor, and rank the algorithms rather than foretell
their times.
"""

from __future__ import annotations

from juncture.planner.algorithm import Cost
from juncture.planner.constants import Constants
from juncture.planner.planning_input import PlanningInput


def terms(planning: PlanningInput) -> tuple[Constants, int, int]:
    """Return what formulas are made of: what a row costs in each step, and the rows of both sides."""
    return planning.resources.constants, planning.left_rows, planning.right_rows


def enter_ns(planning: PlanningInput) -> float:
    """Return what it takes to bring a row into a task's Python."""
    c = planning.resources.constants
    return c.direct_scan_ns if planning.direct else c.scan_ns + handed_ns(c)


def handed_ns(constants: Constants) -> float:
    """Return what it takes to hand a row of the JVM's to Python."""
    return constants.to_python_ns + constants.row_size_ns


def spread_s(planning: PlanningInput, core_ns: float) -> float:
    """Return the seconds of work that divides evenly among the cores."""
    return core_ns / planning.resources.cores / 1e9


def keyed_s(planning: PlanningInput, core_ns: float) -> float:
    """Return the seconds of work that cannot divide a key."""
    return core_ns * max(1 / planning.resources.cores, planning.hottest_key_share) / 1e9


def if_counted(cost: Cost) -> Cost:
    """Return a formula without an answer where right rows are not counted: those are held only if someone says so."""
    return lambda planning: None if planning.stats.right.rows is None else cost(planning)
