"""Spans and pairs against plain binary search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import band, search
from juncture.kernels.intrinsics import WINDOW

pytestmark = pytest.mark.usefixtures("each_way_to_run")

EXTREMES = [-(2**63), 2**63 - 1, -1, 0, 1, 2**62]
values = st.one_of(
    st.integers(-20, 20),
    st.integers(0, 10**6),
    st.sampled_from(EXTREMES),
    st.integers(-(2**63), 2**63 - 1),
)


@given(
    lists=st.lists(st.lists(values, max_size=60), min_size=1, max_size=6),
    queries=st.lists(st.tuples(st.integers(-1, 5), values, values), max_size=150),
    rows_per_bucket=st.integers(1, 40),
)
def test_spans_are_those_of_binary_search(lists, queries, rows_per_bucket):
    starts = np.cumsum([0] + [len(group) for group in lists]).astype(np.int64)
    on = np.array([v for group in lists for v in sorted(group)] + [0] * WINDOW, np.int64)
    plan = np.zeros((len(lists), search.GROUP_COLUMNS), np.int64)
    index = np.zeros(search.plan_index(on, starts, rows_per_bucket, plan) + 1, np.int32)
    search.fill_index(on, starts, plan, 0, int(starts[-1]), int(np.searchsorted(starts, 0, "right")) - 1, index)
    queries = [query for query in queries if query[0] < len(lists)]
    keys = np.array([query[0] for query in queries], np.int32)
    low, high = (np.array([query[i] for query in queries], np.int64) for i in (1, 2))
    first, end = np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
    band.find_spans(keys, low, high, on, starts, plan, index, first, end)
    for query, (key, least, greatest) in enumerate(queries):
        found = list(range(first[query], end[query]))
        group = sorted(lists[key]) if key >= 0 else []
        wanted = [int(starts[key]) + i for i, value in enumerate(group) if least <= value <= greatest]
        assert found == wanted


@given(spans=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=20), keep=st.booleans())
def test_pairs_are_those_of_the_spans(spans, keep):
    rows = np.arange(len(spans), dtype=np.int32)
    first = np.array([start for start, _ in spans], np.int32)
    end = np.array([start + length for start, length in spans], np.int32)
    size = sum(max(length, keep) for _, length in spans)
    lefts, positions = np.empty(size, np.int32), np.empty(size, np.int32)
    assert band.fill_pairs(rows, first, end, 0, len(spans), keep, lefts, positions) == size
    wanted = [
        (row, position)
        for row, (start, length) in enumerate(spans)
        for position in (range(start, start + length) if length or not keep else [-1])
    ]
    assert list(zip(lefts.tolist(), positions.tolist(), strict=True)) == wanted


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=40))
def test_pairs_of_spans_of_one_position_are_those_of_any(spans):
    first = np.array([start for start, _ in spans], np.int32)
    end = np.array([start + has_one for start, has_one in spans], np.int32)
    lefts, positions = np.empty(len(spans), np.int32), np.empty(len(spans), np.int32)
    written = band.fill_single(first, end, lefts, positions)
    expected = [(row, start) for row, (start, has_one) in enumerate(spans) if has_one]
    assert list(zip(lefts[:written].tolist(), positions[:written].tolist(), strict=True)) == expected
