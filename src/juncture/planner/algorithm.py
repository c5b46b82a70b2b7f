"""An algorithm as the planner knows it: a row of data with its rules, and the cost of each step of its work.

Each step has one constant, in core-nanoseconds a row. Costs are right to within a factor: they rank the algorithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from juncture.planner.constants import Constants
from juncture.planner.planning_input import PlanningInput
from juncture.spec.schema import Side

Fact = Literal["counts", "size", "text", "sample", "keys", "lengths", "cuts"]
"""What may have to be learnt of the inputs: the rows of both sides; the size of a side that is held, whatever was said
of it; how long its strings are; a sample of both sides; how often keys come; the longest intervals; ends of key ranges.
"""


@dataclass(frozen=True)
class Need:
    """What has to be known before an algorithm runs."""

    fact: Fact
    unnamed: bool = False  # whether only the choice depends on it, so that a named algorithm does not need it


Cost = Callable[[PlanningInput], float | None]
"""Returns what an algorithm should take, in seconds; None where that is not estimated."""


@dataclass(frozen=True)
class Algorithm:
    """One way to run a join.

    `holds` is the side that is held whole, or by the partition on Spark: ``"smaller"`` is the right one for ``semi``
    and ``anti``, since left rows that stream past are shown at once.
    """

    name: str
    summary: str
    cost: Cost | None = None  # what it should take; without one it runs only when it is named
    _: KW_ONLY
    holds: Side | Literal["smaller"] | None = None
    sends: bool = False  # on Spark, whether that side goes to every task, and rows of the other stay
    shuffles: Literal["once", "copies"] | None = None  # on Spark, how rows of both sides move
    in_python: bool = False  # whether its tasks on Spark are Python
    splits_keys: bool = False  # whether the rows of one key may be divided among tasks
    needs: tuple[Need, ...] = ()  # what has to be known before it runs, in the order in which it is looked for
    rules: tuple[Rule, ...] = ()  # what rules it out, the first that applies being the reason given


Rule = Callable[[PlanningInput, Algorithm], str | None]
"""Looks at an algorithm, and returns why it is ruled out, or None."""


def broadcast(
    side: Side, cost: Cost, *, needs: tuple[Need, ...], rules: tuple[Rule, ...], in_python: bool = True
) -> Algorithm:
    """Return the algorithm that sends a side to every task of Spark, and leaves rows of the other where they are."""
    name, other = ("broadcast", "left") if side == "right" else ("broadcast_left", "right")
    sent = f"{'' if in_python else 'a table of '}the {side} side"
    summary = f"send {sent} to every task; the {other} side is not shuffled"
    return Algorithm(name, summary, cost, holds=side, sends=True, in_python=in_python, needs=needs, rules=rules)


def held_side(planning: PlanningInput, algorithm: Algorithm) -> Side:
    """Return the side that an algorithm holds, which holds one."""
    assert algorithm.holds is not None
    if algorithm.holds != "smaller":
        return algorithm.holds
    if planning.join.how in ("semi", "anti"):
        return "right"
    left, right = planning.stats.left.bytes, planning.stats.right.bytes
    if left is None or right is None:
        return "left" if planning.left_rows < planning.right_rows else "right"
    return "left" if left < right else "right"


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
