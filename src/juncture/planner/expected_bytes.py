"""What a task on Spark should hold, with how the figure was come by."""

from __future__ import annotations

from juncture.planner.memory import HELD_ROW_BYTES, held_bytes
from juncture.planner.planning_input import Estimate, Question
from juncture.planner.rules import SENT
from juncture.spec.equi import ResolvedEqui

__all__ = ["TABLE_FACTOR", "expected_task"]

TABLE_FACTOR = 4
"""How much larger a side may be as a hash table in the JVM, in objects and with its keys apart."""

_TOGETHER_BYTES = 64 << 20
"""Up to so much Spark puts small partitions together, as long as there is one for each core."""

_PARTITIONED = ("bucket", "shuffle_hash", "sort_merge", "window")
"""What runs in the JVM, in the partitions of a shuffle."""


def expected_task(question: Question, algorithm: str) -> Estimate | None:
    """Return what an algorithm should make a task hold on Spark; None in-process.

    Examples
    --------
    A right side of a thousand rows goes to every task, with 48 bytes for each besides:

    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> from juncture.planner.stats import Resources
    >>> schema, resources = pa.schema([("ts", pa.int64())]), Resources(cores=2, memory_bytes=1 << 29)
    >>> stats = jn.Stats(right=jn.SideStats(rows=1_000, row_bytes=8))
    >>> join = jn.Asof(on="ts").resolve(schema, schema)
    >>> expected_task(Question(join=join, engine="spark", stats=stats, resources=resources), "broadcast")
    Estimate(value=56000, how='the right side whole, in Python')
    """
    if question.engine != "spark":
        return None
    left, right = question.stats.left, question.stats.right
    if algorithm in SENT:
        name = SENT[algorithm]
        side = left if name == "left" else right
        if isinstance(question.join, ResolvedEqui):
            table = None if side.bytes is None else side.bytes * TABLE_FACTOR
            return _estimate(table, f"a table of the {name} side whole, in the JVM, which all its tasks share")
        return _estimate(held_bytes(question.join, name, side), f"the {name} side whole, in Python")
    if algorithm in ("hash", "range"):
        held = [held_bytes(question.join, "left", left), held_bytes(question.join, "right", right)]
        total = None if None in held else sum(filter(None, held))
        share = _hottest(question) if algorithm == "hash" else 0.0
        return _part(total, max(1 / question.partitions, share), "in Python, of which what does not fit spills")
    if algorithm not in _PARTITIONED:
        return Estimate(value=None, how="Spark decides how to bring rows together")
    if left.bytes is None or right.bytes is None or left.rows is None or right.rows is None:
        return _estimate(None, "")
    copies = (question.offer.left_copies, question.offer.right_copies) if algorithm == "bucket" else (1.0, 1.0)
    moved = left.bytes * copies[0] + right.bytes * copies[1]
    # Adaptive execution makes as many tasks of small partitions as there are cores.
    together = min(_TOGETHER_BYTES, moved / question.resources.cores) / max(moved, 1)
    share = max(1 / question.partitions, together)
    if algorithm == "shuffle_hash":
        smaller = min(left.bytes, right.bytes)
        return _part(smaller * TABLE_FACTOR, share, "as a table in the JVM, of the smaller side only")
    # A row that is sorted takes as much besides as one that Python holds.
    placed = (left.rows * copies[0] + right.rows * copies[1]) * HELD_ROW_BYTES
    return _part(moved + placed, share, "sorted in the JVM, of which what does not fit spills")


def _hottest(question: Question) -> float:
    """Return what share of all rows stays together because it has one key."""
    if not question.join.left_by:
        return 1.0
    return max(question.stats.left.hottest_share or 0.0, question.stats.right.hottest_share or 0.0)


def _part(total: float | None, share: float, where: str) -> Estimate:
    """Return what a part takes that one task gets."""
    return _estimate(None if total is None else total * share, f"{share:.1%} of all rows, {where}")


def _estimate(held: float | None, how: str) -> Estimate:
    if held is None:
        return Estimate(value=None, how="nobody has counted what is held")
    return Estimate(value=round(held), how=how)
