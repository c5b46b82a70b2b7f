"""Slots are in the order of key and value, whatever the number of threads and keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels.intrinsics import WINDOW
from juncture.runtime.context import join_context
from juncture.runtime.sort import order_of, sort_slots
from juncture.runtime.threads import Sizes


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("keys", [1, 7, 5_000])
@pytest.mark.parametrize("values", ["random", "extreme", "equal", "sorted", "bursts"])
def test_sorts_like_numpy(threads, keys, values):
    chance = np.random.default_rng(1)
    count = 4_000
    on = {
        "random": chance.integers(0, 10**9, count),
        "extreme": chance.choice([-(2**63), 2**63 - 1, 0, -1], count),
        "equal": np.full(count, 42),
        "sorted": np.arange(count) - 2_000,
        "bursts": chance.choice([0, 10**15], count) + chance.integers(0, 300, count),
    }[values].astype(np.int64)
    codes = chance.integers(0, keys, count).astype(np.int32)
    rows = np.flatnonzero(chance.random(count) < 0.9).astype(np.int32)
    with join_context(threads=threads, sizes=Sizes(task_rows=100)) as context:
        slots = sort_slots(codes, on, rows.copy(), keys, context)
        ranges, groups = slots.ranges(context), slots.group_ranges(context)
    expected = rows[np.lexsort((on[rows], codes[rows]))]
    assert slots.rows.tolist() == expected.tolist()
    assert slots.on[: len(slots)].tolist() == on[expected].tolist()
    assert len(slots.on) == len(slots) + WINDOW
    assert np.diff(slots.starts).tolist() == np.bincount(codes[rows], minlength=keys).tolist()
    assert [ranges[0][0], *(end for _, end, _ in ranges)] == [first for first, _, _ in ranges] + [len(slots)]
    for first, _, group in ranges:
        assert slots.starts[group] <= first < slots.starts[group + 1]
    assert [groups[0][0], *(end for _, end in groups)] == [first for first, _ in groups] + [keys]


def test_nothing_to_sort():
    with join_context(threads=2) as context:
        slots = sort_slots(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32), 3, context)
        assert (len(slots), slots.key_count, slots.ranges(context), slots.group_ranges(context)) == (0, 3, [], [(0, 3)])


@given(
    rows=st.integers(0, 40),
    spans=st.lists(st.sampled_from([0, 1, 300, 2**31, 2**63 - 1]), min_size=1, max_size=4),
    last_ascends=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_orders_by_several_numbers(rows, spans, last_ascends, seed):
    chance = np.random.default_rng(seed)
    keys = [chance.integers(-span, span, rows, endpoint=True) for span in spans]
    if last_ascends:
        keys[-1].sort()
    with join_context(threads=1) as context:
        assert order_of(keys, context).tolist() == np.lexsort(keys[::-1]).tolist()
