"""What an algorithm should shuffle on Spark, and what a task should hold, each with its source."""

from __future__ import annotations

from juncture.planner.algorithm import Algorithm, PlanningInput, held_side
from juncture.planner.decision import Estimate
from juncture.planner.memory import HELD_ROW_BYTES, held_bytes
from juncture.planner.rules import TABLE_FACTOR

_TOGETHER_BYTES = 64 << 20
"""Up to so much Spark puts small partitions together, as long as there is one for each core."""

_SPARK_DECIDES = Estimate(value=None, source="Spark decides how to bring rows together")


def expected_shuffle(planning: PlanningInput, algorithm: Algorithm) -> Estimate | None:
    """Return how many bytes an algorithm should shuffle on Spark, before compression; None in-process."""
    if planning.engine != "spark":
        return None
    if algorithm.sends:
        return Estimate(value=0, source=f"the {algorithm.holds} side goes to every task, rows of the other stay")
    if algorithm.shuffles is None:
        return _SPARK_DECIDES
    left, right = planning.stats.left.bytes, planning.stats.right.bytes
    if left is None or right is None:
        return Estimate(value=None, source="a side is not counted")
    if algorithm.shuffles == "once":
        return Estimate(value=left + right, source="both sides once")
    copies = _copies(planning, algorithm)
    how = f"left rows {copies[0]:.1f} times, right rows {copies[1]:.1f} times"
    return Estimate(value=round(left * copies[0] + right * copies[1]), source=how)


def expected_task(planning: PlanningInput, algorithm: Algorithm) -> Estimate | None:
    """Return what an algorithm should make a task hold on Spark; None in-process."""
    if planning.engine != "spark":
        return None
    if algorithm.sends:
        return _sent(planning, algorithm)
    if algorithm.shuffles is None:
        return _SPARK_DECIDES
    return _in_python(planning, algorithm) if algorithm.in_python else _in_jvm(planning, algorithm)


def _sent(planning: PlanningInput, algorithm: Algorithm) -> Estimate:
    """Return what the side takes that goes to every task."""
    name = held_side(planning, algorithm)
    side = planning.stats.of(name)
    if algorithm.in_python:
        return _estimate(held_bytes(planning.join, name, side), f"the {name} side whole, in Python")
    table = None if side.bytes is None else side.bytes * TABLE_FACTOR
    return _estimate(table, f"a table of the {name} side whole, in the JVM, which all its tasks share")


def _in_python(planning: PlanningInput, algorithm: Algorithm) -> Estimate:
    """Return what a partition of both sides takes in Python."""
    left = held_bytes(planning.join, "left", planning.stats.left)
    right = held_bytes(planning.join, "right", planning.stats.right)
    total = None if left is None or right is None else left + right
    share = max(1 / planning.partitions, 0.0 if algorithm.splits_keys else planning.hottest_key_share)
    return _part(total, share, "in Python; the excess spills")


def _in_jvm(planning: PlanningInput, algorithm: Algorithm) -> Estimate:
    """Return what a partition takes in the JVM: of both sides sorted, or of one as a table."""
    left, right = planning.stats.left, planning.stats.right
    if left.bytes is None or right.bytes is None or left.rows is None or right.rows is None:
        return _estimate(None, "")
    copies = _copies(planning, algorithm)
    moved = left.bytes * copies[0] + right.bytes * copies[1]
    # Adaptive execution makes as many tasks of small partitions as there are cores.
    together = min(_TOGETHER_BYTES, moved / planning.resources.cores) / max(moved, 1)
    share = max(1 / planning.partitions, together)
    if algorithm.holds is not None:
        smaller = min(left.bytes, right.bytes)
        return _part(smaller * TABLE_FACTOR, share, "as a table in the JVM, of the smaller side only")
    # A row that is sorted takes as much besides as one that Python holds.
    sorted_bytes = (left.rows * copies[0] + right.rows * copies[1]) * HELD_ROW_BYTES
    return _part(moved + sorted_bytes, share, "sorted in the JVM; the excess spills")


def _copies(planning: PlanningInput, algorithm: Algorithm) -> tuple[float, float]:
    """Return how often a row of each side moves."""
    features = planning.features
    return (features.left_copies, features.right_copies) if algorithm.shuffles == "copies" else (1.0, 1.0)


def _part(total: float | None, share: float, where: str) -> Estimate:
    """Return what a part takes that one task gets."""
    return _estimate(None if total is None else total * share, f"{share:.1%} of all rows, {where}")


def _estimate(held: float | None, how: str) -> Estimate:
    if held is None:
        return Estimate(value=None, source="what is held is not counted")
    return Estimate(value=round(held), source=how)
