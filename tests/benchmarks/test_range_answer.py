from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from juncture_benchmarks.datasets import write_events, write_intervals, write_points
from juncture_benchmarks.pairs import Answer, found_pairs
from juncture_benchmarks.range.answer import expected_answer, found_aggregates
from juncture_benchmarks.range.task import Task

SIZES = {"left_rows": 60, "right_rows": 90}


@pytest.fixture(params=["events", "points", "hot", "intervals", "long"])
def task(request, tmp_path) -> Task:
    """Few rows close together: windows and intervals end where points and others begin."""
    folder = tmp_path / "data"
    match request.param:
        case "events":
            return Task.of(write_events(folder, **SIZES), lower=-100_000_000, upper=0, closed="right")
        case "points":
            return Task.of(write_points(folder, **SIZES, span=100), lower=-3, upper=2)
        case "hot":
            tables = write_points(folder, **SIZES, span=100, stretch=10, hot_share=0.5)
            return Task.of(tables, lower=-10, upper=0, closed="right")
        case "intervals":
            return Task.of(write_intervals(folder, **SIZES, span=100, length=6))
        case _:
            return Task.of(write_intervals(folder, **SIZES, span=100, length=2, long_share=0.05))


def matches(task: Task) -> list[tuple[dict, dict]]:
    """Join by looking at every pair."""
    pairs = []
    lefts, rights = ([*map(plain, pq.read_table(path).to_pylist())] for path in (task.left, task.right))
    for left, right in product(lefts, rights):
        if task.shape == "intervals":
            met = left["start"] < right["stop"] and right["start"] < left["stop"]
        else:
            ours, theirs = left[task.on[0]], right[task.on[1]]
            met = (task.closed == "both" and theirs == ours + task.lower) or ours + task.lower < theirs
            met = met and theirs <= ours + task.upper
        if met:
            pairs.append((left, right))
    return pairs


def plain(row: dict) -> dict:
    """Turn times into microseconds."""
    return {
        name: round(value.timestamp() * 1_000_000) if hasattr(value, "timestamp") else value
        for name, value in row.items()
    }


def joined(task: Task, pairs: list[tuple[dict, dict]]) -> pa.Table:
    ours, theirs = task.ids
    left, right = task.joined_ids
    return pa.table({left: [each[ours] for each, _ in pairs], right: [each[theirs] for _, each in pairs]})


def test_the_expected_answer_is_that_of_all_pairs(task):
    expected = expected_answer(task)
    pairs = matches(task)
    assert expected.rows == len(pairs) > 50
    assert found_pairs(task.joined_ids, joined(task, pairs)) == expected
    assert found_pairs(task.joined_ids, joined(task, pairs[::-1]).to_batches(max_chunksize=7)) == expected


@pytest.mark.parametrize("task", ["events", "points", "hot"], indirect=True)
def test_aggregates_are_those_of_all_pairs(task):
    expected = expected_answer(task, aggregated=True)
    groups: dict[int, list[float]] = {}
    for left, right in matches(task):
        groups.setdefault(left[task.ids[0]], []).append(right[task.value])
    groups[1_000_000] = []
    ids = np.array(list(groups))
    count = np.array([len(values) for values in groups.values()])
    mean = np.array([sum(values) / max(len(values), 1) for values in groups.values()])
    most = np.array([max(values, default=0.0) for values in groups.values()])
    assert expected.rows == len(groups) - 1
    assert found_aggregates(ids, count, mean, most) == expected
    most[0] -= 2.0**-20
    assert expected.difference(found_aggregates(ids, count, mean, most)).startswith("sums: expected")


@pytest.mark.parametrize("mistake", ["row lost", "row twice", "other match", "two swapped"])
def test_any_mistake_in_one_row_is_seen(task, mistake):
    expected = expected_answer(task)
    table = joined(task, matches(task)).to_pydict()
    right = table[task.joined_ids[1]]
    match mistake:
        case "row lost":
            table = {name: values[1:] for name, values in table.items()}
        case "row twice":
            table = {name: [*values, values[0]] for name, values in table.items()}
        case "other match":
            right[0] += 1
        case "two swapped":
            right[0], right[-1] = right[-1], right[0]
    assert expected.difference(found_pairs(task.joined_ids, pa.table(table))) is not None


def test_it_is_kept_beside_the_tables_for_each_window(task, monkeypatch):
    first = expected_answer(task)
    monkeypatch.setattr(np, "argsort", None)
    assert expected_answer(task) == first
    assert isinstance(first, Answer)


def test_empty_tables_match_nothing(tmp_path):
    points = Task.of(write_points(tmp_path / "a", left_rows=5, right_rows=0, span=10), lower=-1, upper=1)
    intervals = Task.of(write_intervals(tmp_path / "b", left_rows=0, right_rows=5, span=10, length=1))
    assert expected_answer(points) == expected_answer(intervals) == Answer(rows=0, sums=(0, 0))
    assert expected_answer(points, aggregated=True) == Answer(rows=0, sums=(0, 0, 0))
