"""Correct and actual aggregates, reduced to a few comparable numbers.

The right sums (see `juncture_benchmarks.pairs`) are found by NumPy alone, by sorting and searching integers and by
running sums, without ever making the pairs: so they owe nothing to any contestant, and billions of pairs take no longer
than the rows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from juncture.kernels.array_types import Ints
from juncture_benchmarks.datasets.range import VALUE_BITS
from juncture_benchmarks.pairs import Answer, ints, kept_answer, weights
from juncture_benchmarks.range.task import Task

__all__ = ["AGGREGATES", "expected_answer", "found_aggregates"]

AGGREGATES = ["count", "mean", "max"]
"""The aggregates that are checked, in order."""


def expected_answer(task: Task, *, aggregated: bool = False) -> Answer:
    """Find the right answer, or read it where an earlier call has left it.

    Parameters
    ----------
    task
        The join.
    aggregated
        Whether its matches are aggregated.

    Notes
    -----
    Takes O(n log n) in the rows, and some 60 bytes of memory for each; for aggregates it makes the matches of each
    row one by one. The answer is written into the folder of the tables.
    """
    kind = "aggregates" if aggregated else "pairs"
    path = Path(task.left).parent / f"answer-{kind}{task.lower:+d}{task.upper:+d}-{task.closed}.json"
    if task.shape == "intervals":
        return kept_answer(path, lambda: _overlapping(task))
    find = _aggregates_in_window if aggregated else _pairs_in_window
    return kept_answer(path, lambda: find(task))


def found_aggregates(ids: Ints, count: Ints, mean: npt.NDArray[np.float64], most: npt.NDArray[np.float64]) -> Answer:
    """Boil down the aggregates that an engine returned; left rows without a match do not count.

    Means of values that are whole multiples give back the sum exactly.
    """
    some = count > 0
    count = count[some]
    totals = np.rint(mean[some] * count * 2.0**VALUE_BITS).astype(np.int64)
    greatest = np.rint(most[some] * 2.0**VALUE_BITS).astype(np.int64)
    return _aggregated(ids[some], count, totals, greatest)


def _pairs_in_window(task: Task) -> Answer:
    """Sum over the window of each left row by the difference of two running sums."""
    (left_ids, left_on), (right_ids, right_on) = _columns(task)
    order = np.argsort(right_on, kind="stable")
    right_ids, right_on = right_ids[order], right_on[order]
    first, end = _window(task, left_on, right_on)
    sums = []
    for which in range(2):
        running = np.concatenate([[0], np.cumsum(weights(right_ids, which))])
        sums.append(int((weights(left_ids, which) * (running[end] - running[first])).sum()))
    return Answer(rows=int((end - first).sum()), sums=tuple(sums))


def _aggregates_in_window(task: Task) -> Answer:
    """Sum and compare the values of the window of each left row."""
    (left_ids, left_on), (_, right_on) = _columns(task)
    order = np.argsort(right_on, kind="stable")
    right_on = right_on[order]
    values = np.rint(_column(task.right, task.value) * 2.0**VALUE_BITS).astype(np.int64)[order]
    first, end = _window(task, left_on, right_on)
    some = end > first
    first, end, left_ids = first[some], end[some], left_ids[some]
    running = np.concatenate([[0], np.cumsum(values)])
    # Every other piece is a window; a value more lets the last one end where the values do.
    pieces = np.column_stack([first, end]).ravel()
    greatest = np.maximum.reduceat(np.append(values, 0), pieces)[::2] if len(pieces) else first
    return _aggregated(left_ids, end - first, running[end] - running[first], greatest)


def _aggregated(ids: Ints, count: Ints, totals: Ints, greatest: Ints) -> Answer:
    weight = weights(ids, 0)
    return Answer(rows=len(ids), sums=tuple(int((weight * each).sum()) for each in (count, totals, greatest)))


def _window(task: Task, left_on: Ints, right_on: Ints) -> tuple[Ints, Ints]:
    """Return where the window of each left row begins and ends in the sorted right ones."""
    first = np.searchsorted(right_on, left_on + task.lower, side="right" if task.closed == "right" else "left")
    end = np.searchsorted(right_on, left_on + task.upper, side="right")
    return first, np.maximum(first, end)


def _overlapping(task: Task) -> Answer:
    """Sum over all right intervals that start before a left one stops, less those that stop before it starts."""
    left_ids, left_starts, left_stops = (_column(task.left, name) for name in ("id", "start", "stop"))
    right_ids, right_starts, right_stops = (_column(task.right, name) for name in ("id", "start", "stop"))
    by_start, by_stop = np.argsort(right_starts), np.argsort(right_stops)
    started = np.searchsorted(right_starts[by_start], left_stops, side="left")
    stopped = np.searchsorted(right_stops[by_stop], left_starts, side="right")
    sums = []
    for which in range(2):
        theirs = weights(right_ids, which)
        until_start, until_stop = (np.concatenate([[0], np.cumsum(theirs[order])]) for order in (by_start, by_stop))
        sums.append(int((weights(left_ids, which) * (until_start[started] - until_stop[stopped])).sum()))
    return Answer(rows=int((started - stopped).sum()), sums=tuple(sums))


def _columns(task: Task) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Return number and place of all rows of both tables."""
    left, right = (
        (_column(folder, number), _column(folder, on))
        for folder, number, on in zip((task.left, task.right), task.ids, task.on, strict=True)
    )
    return left, right


def _column(folder: str, name: str) -> Ints:
    """Return a column of all files; times as integers, floats as they are."""
    column = pq.read_table(folder, columns=[name], partitioning=None)[name].combine_chunks()
    return column.to_numpy(zero_copy_only=False) if pa.types.is_floating(column.type) else ints(column)
