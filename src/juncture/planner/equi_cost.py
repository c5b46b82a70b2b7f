"""What each algorithm for equality joins costs in-process, in seconds, from row counts and resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from juncture.planner.cost import Work

__all__ = ["COSTS", "EquiWork"]


@dataclass(frozen=True, kw_only=True)
class EquiWork(Work):
    """What a cost formula needs to know besides.

    Attributes
    ----------
    has_order
        Whether the key is a single number, which can be sorted as it is. Others get their order from a table.
    spilled_bytes
        What goes to disk where a join in pieces holds as much as it may: both sides, or nothing.
    """

    has_order: bool
    spilled_bytes: int

    @property
    def output_rows(self) -> int:
        """Rows of the output, where nobody has looked: one for each row of the larger side."""
        return max(self.left_rows, self.right_rows)


def _hash_ns(work: EquiWork) -> float:
    c = work.constants
    # One table is made by one thread at a time.
    added_ns = min(work.left_rows, work.right_rows) * c.add_ns * work.resources.cores
    return (work.left_rows + work.right_rows) * c.meet_ns + added_ns


def _parallel_hash_ns(work: EquiWork) -> float:
    c = work.constants
    rows = work.left_rows + work.right_rows
    return rows * (c.meet_ns + c.split_ns) + min(work.left_rows, work.right_rows) * c.add_ns


def _sort_merge_ns(work: EquiWork) -> float:
    c = work.constants
    added_ns = 0.0 if work.has_order else work.right_rows * c.add_ns * work.resources.cores
    return work.left_rows * c.walk_ns + work.right_rows * c.line_up_ns + added_ns


def _grace_ns(work: EquiWork) -> float:
    c = work.constants
    return _hash_ns(work) + work.output_rows * c.restore_ns + work.spilled_bytes * c.spill_ns


def _external_sort_merge_ns(work: EquiWork) -> float:
    c = work.constants
    ordered_rows = work.left_rows + work.right_rows + work.output_rows
    # Rows are written as ranges to be sorted, as the window that they are joined in, and in the output.
    return _sort_merge_ns(work) + ordered_rows * c.restore_ns + 3 * work.spilled_bytes * c.spill_ns


COSTS: Mapping[str, Callable[[EquiWork], float]] = {
    "hash": _hash_ns,
    "parallel_hash": _parallel_hash_ns,
    "sort_merge": _sort_merge_ns,
    "grace": _grace_ns,
    "external_sort_merge": _external_sort_merge_ns,
}
"""The formula of each algorithm, in core-nanoseconds."""
