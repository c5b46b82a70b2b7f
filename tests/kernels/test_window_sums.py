"""Counts and sums over windows around sorted slots against brute force."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import window_sums
from juncture.kernels.intrinsics import WINDOW


@given(
    groups=st.lists(st.lists(st.integers(0, 9), max_size=40).map(sorted), min_size=1, max_size=4),
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 12), st.integers(-5, 5)), max_size=30),
    width=st.integers(-1, 3),
    edge=st.integers(0, 40),
    data=st.data(),
)
def test_totals_are_those_of_the_rows_in_each_window(groups, rows, width, edge, data):
    rows = [row for row in rows if row[0] < len(groups)]
    high = [value for group in groups for value in group]
    low = [value - width for value in high]
    starts = np.cumsum([0, *map(len, groups)])
    order = np.array(data.draw(st.permutations(range(len(high)))), np.int32)
    # The first slot that is not past a row; rows past all slots of their group are dropped before.
    firsts = [starts[key] + sum(each < on for each in groups[key]) for key, on, _ in rows]
    kept = [row for row in range(len(rows)) if firsts[row] < starts[rows[row][0] + 1]]
    slots = np.array([firsts[row] for row in kept], np.int32)
    on = np.array([rows[row][1] for row in kept], np.int64)
    keys = np.array([key for key, _, _ in rows], np.int32)
    words = np.array([[value] for _, _, value in rows], np.int64).reshape(-1, 1)
    ends, numbers = np.empty(len(kept), np.int32), np.array(kept, np.int32)
    padded = np.array([*low, *[0] * WINDOW], np.int64)
    window_sums.range_ends(slots, on, numbers, len(kept), keys, starts, padded, ends)
    totals, rest = np.zeros((len(high), 2), np.int64), np.empty(len(kept), np.int32)
    for places, sign in ((slots, 1), (ends, -1)):
        for first, end in ((0, min(edge, len(high))), (min(edge, len(high)), len(high))):
            outside = window_sums.add_at(places, numbers, words, 0, len(kept), first, end, sign, totals, rest, 0)
            assert rest[:outside].tolist() == [
                row for row, slot in enumerate(places) if slot >= 0 and not first <= slot < end
            ]
    sums = np.zeros((2, len(high)), np.int64)
    window_sums.sum_slots(totals, starts, order, 0, len(groups), sums)
    for group, values in enumerate(groups):
        for place, value in enumerate(values):
            inside = [row[2] for row in rows if row[0] == group and value - width <= row[1] <= value]
            assert sums[:, order[starts[group] + place]].tolist() == [len(inside), sum(inside)]
