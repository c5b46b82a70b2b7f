"""What the right answer is, and what an engine's answer was, boiled down to a few numbers that can be compared.

Every row has two weights between 1 and ten thousand, and every pair of rows that match the products of them. Sums of
these products no order of rows changes, but a single wrong, missing or repeated pair does. The right sums are found by
NumPy alone, by sorting and searching integers and by running sums, without ever making the pairs: so they owe nothing
to any contestant, and billions of pairs take no longer than the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from juncture.bench.range.task import Task
from juncture.datasets.range import VALUE_BITS

__all__ = ["AGGREGATES", "Answer", "expected_answer", "found_aggregates", "found_pairs", "weights_sql"]

Ints = npt.NDArray[np.int64]

AGGREGATES = ["count", "mean", "max"]
"""The aggregates that are checked, in order."""

_CHUNK_ROWS = 1_000_000
_FACTORS = ((1_000_003, 9_973), (7_919, 10_007))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer, boiled down.

    Attributes
    ----------
    rows
        How many rows there are. For aggregates, how many left rows have a match.
    sums
        Sums over the rows: of products of weights; for aggregates of the left weight with the count, the sum and the
        greatest of its values.
    """

    rows: int
    sums: tuple[int, ...]

    def difference(self, found: Answer) -> str | None:
        """Say how an answer differs from this one, or None."""
        wrong = [name for name in ("rows", "sums") if getattr(self, name) != getattr(found, name)]
        if not wrong:
            return None
        return "; ".join(f"{name}: expected {getattr(self, name)}, found {getattr(found, name)}" for name in wrong)


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
    if path.exists():
        kept = json.loads(path.read_text())
        return Answer(rows=kept["rows"], sums=tuple(kept["sums"]))
    if task.shape == "intervals":
        answer = _overlapping(task)
    else:
        answer = _aggregates_in_window(task) if aggregated else _pairs_in_window(task)
    path.write_text(json.dumps(asdict(answer)) + "\n")
    return answer


def found_pairs(task: Task, result: pa.Table | Iterable[pa.RecordBatch]) -> Answer:
    """Boil down the matches that an engine returned, in any order of columns and rows."""
    rows, sums = 0, [0, 0]
    left_id, right_id = task.joined_ids
    for batch in result.to_batches(_CHUNK_ROWS) if isinstance(result, pa.Table) else result:
        left, right = _ints(batch.column(left_id)), _ints(batch.column(right_id))
        rows += len(left)
        for each in range(2):
            sums[each] += int((_weights(left, each) * _weights(right, each)).sum())
    return Answer(rows=rows, sums=tuple(sums))


def found_aggregates(ids: Ints, count: Ints, mean: npt.NDArray[np.float64], most: npt.NDArray[np.float64]) -> Answer:
    """Boil down the aggregates that an engine returned; left rows without a match do not count.

    Means of values that are whole multiples give back the sum exactly.
    """
    some = count > 0
    count = count[some]
    totals = np.rint(mean[some] * count * 2.0**VALUE_BITS).astype(np.int64)
    greatest = np.rint(most[some] * 2.0**VALUE_BITS).astype(np.int64)
    return _aggregated(ids[some], count, totals, greatest)


def weights_sql(name: str, which: int) -> str:
    """Return the weight of the row that a column numbers, in Spark's SQL."""
    factor, modulus = _FACTORS[which]
    return f"(1 + {name} * {factor}L % {modulus}L)"


def _weights(ids: Ints, which: int) -> Ints:
    factor, modulus = _FACTORS[which]
    return 1 + ids * factor % modulus


def _pairs_in_window(task: Task) -> Answer:
    """Sum over the window of each left row by the difference of two running sums."""
    (left_ids, left_on), (right_ids, right_on) = _columns(task)
    order = np.argsort(right_on, kind="stable")
    right_ids, right_on = right_ids[order], right_on[order]
    first, end = _window(task, left_on, right_on)
    sums = []
    for which in range(2):
        running = np.concatenate([[0], np.cumsum(_weights(right_ids, which))])
        sums.append(int((_weights(left_ids, which) * (running[end] - running[first])).sum()))
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
    weight = _weights(ids, 0)
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
        weights = _weights(right_ids, which)
        until_start, until_stop = (np.concatenate([[0], np.cumsum(weights[order])]) for order in (by_start, by_stop))
        sums.append(int((_weights(left_ids, which) * (until_start[started] - until_stop[stopped])).sum()))
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
    return column.to_numpy(zero_copy_only=False) if pa.types.is_floating(column.type) else _ints(column)


def _ints(column: pa.Array) -> Ints:
    return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))
