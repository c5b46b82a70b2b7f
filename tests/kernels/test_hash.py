"""Hashes, rows brought together by code, and spans of equal values, beside NumPy's answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import hash as kernels
from juncture.kernels.hash_table import EMPTY

pytestmark = pytest.mark.usefixtures("each_way_to_run")

CODES = st.lists(st.integers(EMPTY, 6), max_size=40).map(lambda codes: np.array(codes, np.int32))
VALUES = st.lists(st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=30)


def hashed(values):
    hashes = np.empty(len(values), np.uint64)
    kernels.hash_integers(np.array(values, np.int64), hashes)
    return hashes


def test_no_two_integers_have_the_same_hash():
    assert len(np.unique(hashed(range(-50_000, 50_000)))) == 100_000


def test_the_order_of_the_parts_of_a_key_counts():
    one, other = hashed([1, 2, 5]), hashed([2, 1, 5])
    crossed = one.copy(), other.copy()
    kernels.combine_hashes(crossed[0], other)
    kernels.combine_hashes(crossed[1], one)
    assert (crossed[0] == crossed[1]).tolist() == [False, False, True]


@pytest.mark.parametrize("bits", [0, 32, 57])
def test_hashes_spread_over_all_bits(bits):
    counts = np.bincount((hashed(range(128_000)) >> np.uint64(bits)).astype(np.int64) & 127, minlength=128)
    assert counts.min() > 800
    assert counts.max() < 1_200


@given(codes=CODES, cut=st.integers(0, 7))
def test_rows_by_code(codes, cut):
    counts = np.zeros(7, np.int32)
    kernels.count_codes(codes, counts)
    kept = codes[codes != EMPTY]
    assert counts.tolist() == np.bincount(kept, minlength=7).tolist()
    starts = np.concatenate([[0], np.cumsum(counts)])
    places, rows = starts[:-1].astype(np.int32), np.full(len(kept), -9, np.int32)
    for first, piece in ((0, codes[:cut]), (cut, codes[cut:])):
        kernels.order_by_code(piece, first, places, rows)
    assert rows.tolist() == [row for code in range(7) for row in np.flatnonzero(codes == code)]
    placed, places = kept.copy(), starts[:-1].astype(np.int32)
    for piece in (placed[:cut], placed[cut:]):
        kernels.place_by_code(piece, places)
    assert np.flatnonzero(codes != EMPTY)[np.argsort(placed)].tolist() == rows.tolist()
    first, end = np.empty(len(codes), np.int32), np.empty(len(codes), np.int32)
    kernels.spans_of_codes(codes, starts, first, end)
    for code, low, high in zip(codes, first, end, strict=True):
        assert rows[low:high].tolist() == ([] if code == EMPTY else np.flatnonzero(codes == code).tolist())


@given(values=VALUES, others=VALUES, repeats=st.sampled_from([1, 50]))
def test_spans_of_equal_values(values, others, repeats):
    values = np.array(values, np.int64)
    others = np.sort(np.repeat(np.array(others, np.int64), repeats))
    order = np.argsort(values, kind="stable").astype(np.int32)
    first, end = np.zeros(len(values), np.int32), np.zeros(len(values), np.int32)
    kernels.merge_spans(values[order], order, others, first, end)
    assert first.tolist() == np.searchsorted(others, values, "left").tolist()
    assert end.tolist() == np.searchsorted(others, values, "right").tolist()
