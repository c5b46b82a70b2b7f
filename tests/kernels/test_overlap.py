"""Spans with a threshold against a scan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import band
from juncture.kernels.intrinsics import WINDOW

pytestmark = pytest.mark.usefixtures("each_way_to_run")

EXTREMES = [-(2**63), 2**63 - 1, -1, 0, 1, 2**62]


@given(
    leaves=st.lists(st.one_of(st.integers(0, 9), st.sampled_from(EXTREMES)), max_size=700),
    queries=st.lists(
        st.tuples(st.integers(0, 700), st.integers(0, 700), st.one_of(st.integers(0, 9), st.sampled_from(EXTREMES))),
        max_size=20,
    ),
    keep=st.booleans(),
)
def test_a_tree_finds_what_a_scan_finds(leaves, queries, keep):
    sizes = [max(1, -(-len(leaves) // WINDOW)) * WINDOW]
    while sizes[-1] > WINDOW:
        sizes.append(max(1, -(-(sizes[-1] // WINDOW) // WINDOW)) * WINDOW)
    levels = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    tree = np.full(levels[-1], band.LEAST, np.int64)
    tree[: len(leaves)] = leaves
    for level in range(1, len(sizes)):
        band.build_level(tree, int(levels[level - 1]), int(levels[level]), 0, sizes[level - 1] // WINDOW)
    first = np.array([min(start, len(leaves)) for start, _, _ in queries], np.int32)
    end = np.array([min(stop, len(leaves)) for _, stop, _ in queries], np.int32)
    thresholds = np.array([threshold for _, _, threshold in queries], np.int64)
    wanted = [
        [p for p in range(start, stop) if leaves[p] >= threshold]
        for start, stop, threshold in zip(first.tolist(), end.tolist(), thresholds.tolist(), strict=True)
    ]
    counts = np.empty(len(queries), np.int64)
    band.count_above(first, end, thresholds, tree, levels, True, counts)
    assert [count > 0 for count in counts.tolist()] == [bool(found) for found in wanted]
    band.count_above(first, end, thresholds, tree, levels, False, counts)
    assert counts.tolist() == [len(found) for found in wanted]
    size = sum(max(len(found), keep) for found in wanted)
    lefts, positions = np.empty(size, np.int32), np.empty(size, np.int32)
    rows = np.arange(len(queries), dtype=np.int32)
    written = band.fill_above(
        rows, first, end, thresholds, counts, tree, levels, 0, len(queries), keep, lefts, positions
    )
    assert written == size
    pairs = [(row, position) for row, found in enumerate(wanted) for position in found or [-1] * keep]
    assert list(zip(lefts.tolist(), positions.tolist(), strict=True)) == pairs
