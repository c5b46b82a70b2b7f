"""Bucket index, partition and lockstep search against plain binary search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import search
from juncture.kernels.intrinsics import WINDOW

pytestmark = pytest.mark.usefixtures("each_way_to_run")

EXTREMES = [-(2**63), 2**63 - 1, -1, 0, 1, 2**62]
values = st.one_of(
    st.integers(-20, 20),
    st.integers(0, 10**6),
    st.integers(10**12, 10**12 + 50),
    st.sampled_from(EXTREMES),
    st.integers(-(2**63), 2**63 - 1),
)
groups = st.lists(st.lists(values, max_size=60), min_size=1, max_size=6)


def build(lists, rows_per_bucket, cut):
    """Return the sorted groups with their index, filled in two ranges."""
    starts = np.cumsum([0] + [len(group) for group in lists]).astype(np.int64)
    on = np.array([v for group in lists for v in sorted(group)] + [0] * WINDOW, np.int64)
    plan = np.zeros((len(lists), search.GROUP_COLUMNS), np.int64)
    index = np.full(search.plan_index(on, starts, rows_per_bucket, plan), -7, np.int32)
    slots = int(starts[-1])
    cut = min(cut, slots)
    for first, end in ((0, cut), (cut, slots)):
        group = int(np.searchsorted(starts, first, "right")) - 1
        search.fill_index(on, starts, plan, first, end, group, index)
    return on, starts, plan, index


@given(
    lists=groups,
    queries=st.lists(st.tuples(st.integers(-1, 5), values), max_size=150),
    own=st.lists(st.integers(0, 1000), max_size=30),
    rows_per_bucket=st.integers(1, 8),
    cut=st.integers(0, 100),
    shift=st.integers(0, 4),
    forward=st.booleans(),
    strict=st.booleans(),
)
def test_finds_what_binary_search_finds(lists, queries, own, rows_per_bucket, cut, shift, forward, strict):
    on, starts, plan, index = build(lists, rows_per_bucket, cut)
    present = [(g, v) for g, group in enumerate(lists) for v in group]
    queries = [q for q in queries if q[0] < len(lists)] + [present[i % len(present)] for i in own if present]
    keys = np.array([q[0] for q in queries], np.int32)
    codes = np.array([q[1] for q in queries], np.int64)

    buckets = np.empty(len(keys), np.int32)
    counts = np.zeros((len(index) >> shift) + 1, np.int64)
    kept = search.partition_count(keys, codes, plan, forward, strict, shift, buckets, counts)
    assert kept == counts.sum() == (buckets >= 0).sum()
    offsets = np.cumsum(counts) - counts
    found_on, found_buckets, rows = np.empty(kept, np.int64), np.empty(kept, np.int32), np.empty(kept, np.int32)
    search.partition_scatter(codes, buckets, shift, offsets, found_on, found_buckets, rows)
    assert (np.diff(found_buckets >> shift) >= 0).all()
    slots = np.empty(kept, np.int32)
    search.locate(found_on, found_buckets, kept, on, index, forward, strict, slots)

    expected = {}
    for row, (key, value) in enumerate(queries):
        if key < 0:
            continue
        group = on[starts[key] : starts[key + 1]]
        if forward:
            slot = int(np.searchsorted(group, value, "left" if strict else "right")) - 1
            serves = slot >= 0
        else:
            slot = int(np.searchsorted(group, value, "right" if strict else "left"))
            serves = slot < len(group)
        if serves:
            expected[row] = int(starts[key]) + slot
    assert dict(zip(rows.tolist(), slots.tolist(), strict=True)) == expected


def test_one_bucket_with_many_rows_is_searched_in_logarithmic_steps():
    # One outlier puts all the others into a single bucket.
    on, starts, plan, index = build([[*range(5_000), 2**60]], 4, 10)
    queries = np.arange(-3, 5_003, dtype=np.int64)
    keys = np.zeros(len(queries), np.int32)
    buckets = np.empty(len(queries), np.int32)
    counts = np.zeros(len(index), np.int64)
    kept = search.partition_count(keys, queries, plan, False, False, 0, buckets, counts)
    assert kept == len(queries)
    slots = np.empty(kept, np.int32)
    search.locate(queries, buckets, kept, on, index, False, False, slots)
    assert slots.tolist() == [min(max(q, 0), 5_000) for q in queries.tolist()]
    assert starts[-1] == 5_001
