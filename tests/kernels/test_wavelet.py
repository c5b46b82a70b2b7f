"""Places and counts within spans, against sorting each of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import wavelet

pytestmark = pytest.mark.usefixtures("each_way_to_run")

spans = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=12)


def levels_over(codes: list[int], least: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    levels = max(least, max(codes, default=0).bit_length())
    words = levels * (len(codes) // wavelet.WORD_BITS + 1)
    built = np.zeros(words, np.uint64), np.zeros(words, np.int32), np.zeros(levels, np.int64)
    wavelet.build_levels(np.array(codes, np.int32), np.empty(len(codes), np.int32), *built)
    return built


def bounded(found: list[tuple[int, int]], length: int) -> tuple[np.ndarray, np.ndarray]:
    ends = np.minimum(np.array(found, np.int32).reshape(-1, 2), length).astype(np.int32)
    return np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1])


@given(
    codes=st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 9), max_size=200), spans=spans, place=st.integers(-1, 99)
)
def test_the_code_at_a_place_of_a_sorted_span(codes, spans, place):
    first, end = bounded(spans, len(codes))
    found = np.empty(len(first), np.int32)
    wavelet.find_nth(first, end, np.full(len(first), place, np.int64), *levels_over(codes), found)
    for row, (start, stop) in enumerate(zip(first.tolist(), end.tolist(), strict=True)):
        ordered = sorted(codes[start:stop])
        assert found[row] == (ordered[place] if 0 <= place < len(ordered) else -1)


@given(codes=st.lists(st.integers(0, 300), max_size=200), spans=spans, limit=st.integers(0, 400))
def test_how_many_codes_of_a_span_are_below_a_limit(codes, spans, limit):
    first, end = bounded(spans, len(codes))
    # Counts go on from what is there.
    counts = np.full(len(first), 7, np.int64)
    limits = np.full(len(first), limit, np.int64)
    wavelet.count_below(first, end, limits, *levels_over(codes, limit.bit_length()), counts)
    for row, (start, stop) in enumerate(zip(first.tolist(), end.tolist(), strict=True)):
        assert counts[row] == 7 + sum(code < limit for code in codes[start:stop])
