"""Pointers ordered by the part that holds their row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import gather
from juncture.kernels.hash import order_by_code

pytestmark = pytest.mark.usefixtures("each_way_to_run")


@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    seed=st.lists(st.integers(-1, 100), max_size=40),
    shift=st.integers(0, 4),
)
def test_positions_and_values_come_part_by_part(sizes, seed, shift):
    bounds = np.cumsum([0, *sizes]).astype(np.int64)
    rows = int(bounds[-1])
    pointers = np.array([s % rows if s >= 0 and rows else -1 for s in seed], np.int64)
    parts, counts = np.empty(len(pointers), np.int32), np.zeros(len(sizes), np.int64)
    cells = np.arange((rows >> shift) + 2) << shift
    firsts = np.searchsorted(bounds[:-1], cells, "right").astype(np.int32) - 1
    gather.count_parts(pointers, bounds, firsts, shift, parts, counts)
    owner = [part for part, size in enumerate(sizes) for _ in range(size)]
    assert parts.tolist() == [owner[p] if p >= 0 else -1 for p in pointers]
    assert counts.tolist() == [parts.tolist().count(part) for part in range(len(sizes))]
    positions = np.empty(int(counts.sum()), np.int32)
    order_by_code(parts, 0, (np.cumsum(counts) - counts).astype(np.int32), positions)
    assert positions.tolist() == [i for part in range(len(sizes)) for i, p in enumerate(parts) if p == part]
    values, targets = np.arange(100, 100 + rows).astype(np.uint64), np.zeros(len(pointers), np.uint64)
    for part, first in enumerate(bounds[:-1].tolist()):
        places = np.flatnonzero(parts == part).astype(np.int32)
        gather.scatter_pointed(values[first : first + sizes[part]], pointers, first, places, targets)
    assert targets.tolist() == [100 + p if p >= 0 else 0 for p in pointers.tolist()]
