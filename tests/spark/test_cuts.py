"""Cuts: where each row goes, and that the partitions weigh the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.spark.tasks.cuts import BEFORE_ALL, Cuts, Sample, balanced_cuts, even_cuts

ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(-3, 3)), max_size=30)


def cuts_of(rows) -> Cuts:
    hashes, codes = zip(*sorted(set(rows)), strict=True) if rows else ((), ())
    return Cuts(np.array(hashes, np.uint64), np.array(codes, np.int64))


def sample_of(rows, weights=None) -> Sample:
    hashes, codes = (np.array([row[i] for row in rows], kind) for i, kind in enumerate((np.uint64, np.int64)))
    return Sample(hashes, codes, np.ones(len(rows)) if weights is None else np.array(weights))


@given(cuts=ROWS, rows=ROWS)
def test_a_row_lies_after_the_last_cut_that_is_not_above_it(cuts, rows):
    cuts, sample = cuts_of(cuts), sample_of(rows)
    bounds = list(zip(cuts.hashes.tolist(), cuts.codes.tolist(), strict=True))
    wanted = [sum(bound <= row for bound in bounds) for row in rows]
    assert cuts.partition_of(sample.hashes, sample.codes).tolist() == wanted


def test_many_cuts():
    cuts = cuts_of([(number // 3, number % 3) for number in range(300)])
    sample = sample_of([(number // 3, number % 3) for number in range(300)])
    assert cuts.partition_of(sample.hashes, sample.codes).tolist() == list(range(1, 301))


@given(cuts=ROWS)
def test_the_span_of_a_hash_is_where_its_rows_lie(cuts):
    cuts = cuts_of([*cuts, (3, BEFORE_ALL)])
    codes = np.arange(-5, 6)
    for hashed in range(8):
        found = cuts.partition_of(np.full(len(codes), hashed, np.uint64), codes)
        first, last = cuts.span(hashed)
        assert (first, last) == (found[0], found[-1])
        assert (hashed in cuts.split_hashes.tolist()) == (first < last)


@given(rows=ROWS, partitions=st.integers(1, 9))
def test_balanced_cuts_ascend(rows, partitions):
    cuts = balanced_cuts(sample_of(rows), partitions)
    bounds = list(zip(cuts.hashes.tolist(), cuts.codes.tolist(), strict=True))
    assert bounds == sorted(set(bounds))
    assert cuts.partitions <= partitions


@pytest.mark.parametrize("keys", [1, 3, 10_000])
def test_balanced_cuts_balance(keys):
    chance = np.random.default_rng(0)
    hashes = (chance.zipf(1.3, 50_000) % keys).astype(np.uint64) * np.uint64(2**40)
    sample = Sample(hashes, chance.integers(0, 10**9, 50_000), np.ones(50_000))
    cuts = balanced_cuts(sample, 16)
    counts = np.bincount(cuts.partition_of(sample.hashes, sample.codes), minlength=16)
    assert counts.max() < 1.6 * 50_000 / 16


@given(rows=ROWS, weights=st.lists(st.integers(1, 9), min_size=30, max_size=30), partitions=st.integers(2, 9))
def test_no_partition_is_much_heavier_than_the_average(rows, weights, partitions):
    sample = sample_of(rows, weights[: len(rows)])
    cuts = balanced_cuts(sample, partitions)
    found = np.bincount(cuts.partition_of(sample.hashes, sample.codes), sample.weights, minlength=1)
    places: dict[tuple[int, int], float] = {}
    for row, weight in zip(rows, weights, strict=False):
        places[row] = places.get(row, 0) + weight
    # Rows that share key and order cannot be divided, before the cut and behind it.
    indivisible = 2 * max(places.values(), default=0)
    assert found.max() <= 1.1 * sum(sample.weights) / partitions + indivisible + 1e-9


@given(rows=ROWS, partitions=st.integers(1, 9))
def test_keys_stay_whole_where_they_may_not_be_split(rows, partitions):
    cuts = balanced_cuts(sample_of(rows), partitions, split_keys=False)
    assert not len(cuts.split_hashes)
    assert cuts.hashes.tolist() == sorted(set(cuts.hashes.tolist()))


def test_weights_count():
    rows = [(0, code) for code in range(100)] + [(1, code) for code in range(100)]
    cuts = balanced_cuts(sample_of(rows, [9.0] * 100 + [1.0] * 100), 10)
    assert np.count_nonzero(cuts.hashes == 0) == 8


def test_a_cut_moves_between_keys_if_one_is_near():
    rows = [(0, code) for code in range(11)] + [(1, code) for code in range(9)]
    cuts = balanced_cuts(sample_of(rows), 2)
    assert (cuts.hashes.tolist(), cuts.codes.tolist()) == ([1], [BEFORE_ALL])
    assert not len(cuts.split_hashes)


def test_even_cuts_split_no_key():
    cuts = even_cuts(7)
    assert cuts.partitions == 7
    assert not len(cuts.split_hashes)
    hashes = np.random.default_rng(0).integers(0, 2**64, 70_000, dtype=np.uint64)
    counts = np.bincount(cuts.partition_of(hashes, np.zeros(70_000, np.int64)))
    assert counts.min() > 9_000


def test_one_partition():
    assert even_cuts(1).partition_of(np.array([5], np.uint64), np.array([1])).tolist() == [0]
    assert balanced_cuts(sample_of([]), 4).partitions == 4
