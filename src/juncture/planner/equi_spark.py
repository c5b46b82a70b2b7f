"""What the planner knows of equality joins on Spark: when each of its operators is right, and what it costs.

| operator | right when |
| --- | --- |
| broadcast | one side is small: it is sent everywhere, and the other never moves |
| shuffle hash | both are large, and of one each partition fits into a task: no sort |
| sort-merge | neither fits: sorting spills to disk, and takes any size |

Source: "Understanding Join Algorithms" (seed 004).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from juncture.planner.cost import Work
from juncture.planner.expected_bytes import TABLE_FACTOR
from juncture.planner.planning_input import Question
from juncture.planner.rules import keeps_right_rows, knows_left_rows, not_checked, too_large_to_send
from juncture.spec.schema import Side
from juncture.spec.size import format_size

__all__ = ["RULES", "SPARK", "built_side", "equi_cost_s"]

SPARK = {
    "broadcast": "a table of the right side goes to every task, the left never moves",
    "broadcast_left": "a table of the left side goes to every task, the right never moves",
    "shuffle_hash": "shuffle both sides by key, a table of the smaller one's partition in each task",
    "sort_merge": "shuffle both sides by key, sort each partition, walk through both side by side",
}
"""The algorithms on Spark."""


def built_side(question: Question) -> Side:
    """Return the side that ``shuffle_hash`` makes tables of: the smaller one.

    For ``semi`` and ``anti`` it is the right one, since left rows that stream past are shown at once.
    """
    if question.join.how in ("semi", "anti"):
        return "right"
    sides = question.stats.left.bytes, question.stats.right.bytes
    if sides[0] is None or sides[1] is None:
        return "left" if question.left_rows < question.right_rows else "right"
    return "left" if sides[0] < sides[1] else "right"


def _fits_everywhere(question: Question, algorithm: str) -> str | None:
    """Refuse to send a side that is unknown, or whose table is too large, such as 1 GB to tasks of 1 GB."""
    return too_large_to_send(question, algorithm, question.resources.memory_bytes // TABLE_FACTOR)


def _fits_in_a_partition(question: Question, algorithm: str) -> str | None:
    """Refuse tables of partitions that do not fit, such as 10 GB in 20 partitions of tasks of 1 GB: none spills."""
    if algorithm != "shuffle_hash":
        return None
    name = built_side(question)
    side = question.stats.left if name == "left" else question.stats.right
    if why := not_checked(question, name):
        return why
    if side.bytes is None:
        return f"its tables do not spill, and the size of the {name} side is not known."
    share = max(1 / question.partitions, side.hottest_share or 0.0)
    limit = question.resources.memory_bytes // TABLE_FACTOR
    if side.bytes * share <= limit:
        return None
    what = "its hottest key" if share > 1 / question.partitions else f"one of {question.partitions:,} partitions"
    return (
        f"its tables do not spill: of the {name} side, {what} takes about {format_size(int(side.bytes * share))}, and "
        f"{format_size(limit)} may be held."
    )


RULES = (keeps_right_rows, knows_left_rows, _fits_everywhere, _fits_in_a_partition)
"""What rules out an algorithm on Spark."""


def _broadcast_s(work: Work) -> float:
    return _sent_s(work, sent_rows=work.right_rows, kept_rows=work.left_rows)


def _broadcast_left_s(work: Work) -> float:
    return _sent_s(work, sent_rows=work.left_rows, kept_rows=work.right_rows)


def _sent_s(work: Work, *, sent_rows: int, kept_rows: int) -> float:
    c = work.constants
    # The driver collects a side and makes a table of it, alone.
    read_ns = (sent_rows + kept_rows) * c.scan_ns
    return c.stage_s + sent_rows * (c.collect_ns + c.table_ns) / 1e9 + work.spread_s(read_ns + kept_rows * c.lookup_ns)


def _shuffle_hash_s(work: Work) -> float:
    c = work.constants
    small, large = sorted((work.left_rows, work.right_rows))
    return _shuffled_s(work, small * c.table_ns + large * c.lookup_ns)


def _sort_merge_s(work: Work) -> float:
    return _shuffled_s(work, (work.left_rows + work.right_rows) * work.constants.key_sort_ns)


def _shuffled_s(work: Work, joined_ns: float) -> float:
    c = work.constants
    moved_ns = (work.left_rows + work.right_rows) * (c.scan_ns + c.shuffle_ns)
    return 2 * c.stage_s + work.spread_s(moved_ns + joined_ns)


COSTS: Mapping[str, Callable[[Work], float]] = {
    "broadcast": _broadcast_s,
    "broadcast_left": _broadcast_left_s,
    "shuffle_hash": _shuffle_hash_s,
    "sort_merge": _sort_merge_s,
}
"""The formula of each algorithm. What all of them do, such as making the output, is left out."""


def equi_cost_s(question: Question, algorithm: str) -> float:
    """Return what an algorithm should take."""
    work = Work(left_rows=question.left_rows, right_rows=question.right_rows, resources=question.resources)
    return COSTS[algorithm](work)
