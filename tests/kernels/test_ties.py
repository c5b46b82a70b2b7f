"""Ties among right rows, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from juncture.kernels import ties
from juncture.kernels.hash_table import EMPTY

pytestmark = pytest.mark.usefixtures("each_way_to_run")

KEYS = 3
VALUES = st.integers(-4, 4)
ROWS = st.lists(st.tuples(VALUES, st.sampled_from([EMPTY, *range(KEYS)])), max_size=14).map(sorted)


@given(rows=ROWS)
def test_ties_of_each_key(rows):
    keys, on = np.array([key for _, key in rows], np.int32), np.array([value for value, _ in rows], np.int64)
    positions, heads = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    count = ties.list_ties(keys, on, KEYS, positions, heads)
    runs = {row: [i for i, other in enumerate(rows) if other == row] for row in rows if row[1] != EMPTY}
    expected = {run[0]: run for run in runs.values() if len(run) > 1}
    listed: dict[int, list[int]] = {}
    for position, head in zip(positions[:count].tolist(), heads[:count].tolist(), strict=True):
        listed.setdefault(head, []).append(position)
    assert listed == expected


@given(
    rows=st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=14).map(sorted),
    matches=st.lists(st.integers(-1, 13), max_size=20).map(sorted),
    forward=st.booleans(),
    least=st.booleans(),
)
def test_matches_are_decided_among_ties(rows, matches, forward, least):
    on = np.array([value for value, *_ in rows], np.int64)
    # As from a search: of equal rows all left rows match the last one, or the first one.
    edge = "left" if forward else "right"
    values = [rows[min(match, len(rows) - 1)][0] for match in matches if match >= 0]
    found = [np.searchsorted(on, value, edge) - (not forward) for value in values]
    positions = np.array([-1] * matches.count(-1) + found, np.int64)
    neighbours = positions + (1 if forward else -1)
    may_tie = (positions >= 0) & (neighbours >= 0) & (neighbours < len(on))
    may_tie[may_tie] = on[positions[may_tie]] == on[neighbours[may_tie]]
    candidates = np.flatnonzero(may_tie)
    heads, starts, firsts = (np.empty(len(candidates) + 1, np.int64) for _ in range(3))
    count = ties.list_tied_matches(candidates, positions, on, forward, heads, starts, firsts)
    tied = [
        head + place
        for head, length in zip(heads[:count], np.diff(starts[: count + 1]), strict=True)
        for place in range(length)
    ]
    keys = np.array([[*rows[position][1:], position] for position in tied], np.int64).reshape(-1, 3).T.copy()
    decided = positions.copy()
    ties.decide_matches(starts[: count + 1], heads, keys, least, firsts[:count], decided)
    for position, winner in zip(positions.tolist(), decided.tolist(), strict=True):
        equal = [(*rows[i][1:], i) for i in range(len(rows)) if position >= 0 and rows[i][0] == rows[position][0]]
        assert winner == ((min if least else max)(equal)[-1] if equal else position)


@given(
    rows=st.lists(st.tuples(VALUES, st.sampled_from([EMPTY, *range(KEYS)]), VALUES), max_size=14), least=st.booleans()
)
def test_one_row_wins_at_all_positions_that_tie(rows, least):
    rows = sorted(rows, key=lambda row: row[0])
    on, keys = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int32)
    positions, heads = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    count = ties.list_ties(keys, on, KEYS, positions, heads)
    numbers = np.random.default_rng(0).permutation(len(rows)).astype(np.int32)
    deciding = np.array([[rows[position][2] for position in positions[:count]]], np.int64)
    winners = numbers.copy()
    ties.decide_ties(positions[:count], heads[:count], deciding, least, numbers, winners)
    for position, (*tied, _) in enumerate(rows):
        equal = [(row[2], i) for i, row in enumerate(rows) if [*row[:2]] == tied and tied[1] != EMPTY]
        expected = (min if least else max)(equal)[-1] if equal else position
        assert winners[position] == numbers[expected]


@given(runs=st.lists(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=5), max_size=5))
@example(runs=[[(0, 0)] * 33])
def test_rows_are_ordered_within_short_runs(runs):
    starts = np.cumsum([0, *map(len, runs)]).astype(np.int64)
    rows = [row for run in runs for row in run]
    keys = np.array(rows, np.int64).reshape(-1, 2).T.copy()
    order = np.empty(len(rows), np.int64)
    assert ties.order_short_runs(starts, keys, order) == all(len(run) <= 32 for run in runs)
    if all(len(run) <= 32 for run in runs):
        assert [rows[i] for i in order] == [row for run in runs for row in sorted(run)]
        assert sorted(order.tolist()) == list(range(len(rows)))
