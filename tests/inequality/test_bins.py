"""The choice of bins, by samples alone."""

from __future__ import annotations

import numpy as np
import pytest

from juncture.planner.statistics import Resources
from juncture.spark.inequality.bins import SampledSide, choose_bins, equal_key_pairs, estimated_pairs

ROWS = 1_000_000


def side(first, width, rows: float = ROWS, key=None) -> SampledSide:
    first = np.asarray(first, np.float64)
    last = first + width
    keys = np.zeros(len(first), np.int64) if key is None else np.asarray(key, np.int64)
    return SampledSide(keys, first, last, rows, float((last - first).max(initial=0.0)))


def resources(cores: int) -> Resources:
    return Resources(cores=cores, memory_bytes=10**9)


def spread(count: int = 10_000, seed: int = 0, extent: float = 1e7) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, extent, count)


def test_windows_of_one_length_have_one_level():
    left, right = side(spread(), 3_600.0), side(spread(seed=1), 0.0)
    bins = choose_bins(left, right, is_real=False, are_points=True, resources=resources(2))
    assert len(bins.left) == 1
    assert bins.extra_bins * 2 ** bins.left[0] >= 3_600
    assert bins.right_copies == bins.extra_bins + 1
    assert not bins.above
    assert not bins.hot
    # Each row has about 360 matches, and is compared with not many more.
    assert 300 * ROWS < estimated_pairs(left, right) < 420 * ROWS
    assert 360 <= bins.candidates < 1_500


def test_more_matches_take_narrower_bins():
    few = choose_bins(
        side(spread(), 10.0), side(spread(seed=1), 0.0), is_real=False, are_points=True, resources=resources(2)
    )
    many = choose_bins(
        side(spread(), 1e5), side(spread(seed=1), 0.0), is_real=False, are_points=True, resources=resources(2)
    )
    assert few.extra_bins < many.extra_bins


def test_long_windows_lie_on_levels_of_their_own():
    widths = np.where(np.arange(10_000) % 1_000 == 0, 1e7, 100.0)
    left = side(spread(), widths)
    bins = choose_bins(left, side(spread(seed=1), 0.0), is_real=False, are_points=True, resources=resources(2))
    assert 2 <= len(bins.left) <= 4
    assert 2.0 ** bins.left[0] < 1_000
    assert bins.extra_bins * 2.0 ** bins.left[-1] >= 1e7
    assert bins.right_copies <= 10


def test_long_intervals_on_both_sides():
    widths = np.where(np.arange(10_000) % 1_000 == 0, 1e7, 100.0)
    bins = choose_bins(
        side(spread(), widths), side(spread(seed=1), widths), is_real=False, are_points=False, resources=resources(2)
    )
    assert bins.above
    assert bins.left_copies + bins.right_copies <= 20


def test_intervals_of_about_one_length_need_no_copies_of_the_left():
    bins = choose_bins(
        side(spread(), 100.0), side(spread(seed=1), 300.0), is_real=False, are_points=False, resources=resources(2)
    )
    assert not bins.above
    assert bins.left_copies == 1.0


def test_hot_bins_are_divided():
    first = spread()
    first[:5_000] = 5e6 + first[:5_000] % 10
    bins = choose_bins(
        side(first, 100.0), side(spread(seed=1), 0.0), is_real=False, are_points=True, resources=resources(4)
    )
    assert len(bins.hot) >= 1
    assert all(5e6 - 2**hot.level <= hot.number * 2**hot.level <= 5e6 + 10 for hot in bins.hot)
    assert all(hot.parts > 1 for hot in bins.hot)


def test_fractions_have_bins_below_one():
    left, right = side(spread(extent=1.0), 0.001), side(spread(seed=1, extent=1.0), 0.0)
    bins = choose_bins(left, right, is_real=True, are_points=True, resources=resources(2))
    assert bins.unit <= bins.left[0] < 0


def test_nothing_to_look_at():
    nothing = side([], 0.0, rows=0)
    bins = choose_bins(nothing, nothing, is_real=True, are_points=True, resources=resources(2))
    assert len(bins.left) >= 1
    assert estimated_pairs(nothing, nothing) == 0
    infinite = SampledSide(np.zeros(1, np.int64), np.array([-np.inf]), np.array([np.inf]), 1.0, np.inf)
    bins = choose_bins(infinite, infinite, is_real=True, are_points=False, resources=resources(2))
    assert bins.left[-1] - bins.unit == 63


@pytest.mark.filterwarnings("error")
def test_values_may_be_farther_apart_than_the_greatest_float():
    most, keys = np.finfo(np.float64).max, np.zeros(2, np.int64)
    points = np.array([-most, most])
    left = SampledSide(keys, np.array([-most, 0.0]), points, 2.0, most)
    right = SampledSide(keys, points, points, 2.0, 0.0)
    assert estimated_pairs(left, right) == 2


def test_what_lies_at_an_infinity_is_not_long():
    first = np.array([np.inf, -np.inf, 0.0, 1.0])
    rows = SampledSide(np.zeros(4, np.int64), first, first + np.array([0, 0, 1, 1]), 4.0, 1.0)
    assert rows.lengths.tolist() == [0, 0, 1, 1]
    with np.errstate(invalid="raise"):
        bins = choose_bins(rows, rows, is_real=True, are_points=False, resources=resources(2))
    assert bins.extra_bins * 2.0 ** bins.left[-1] >= 1


def test_equal_keys_are_counted_by_what_picked_rows_stand_for():
    left, right = side(np.zeros(4), 0.0, rows=40, key=[1, 1, 2, 3]), side(np.zeros(3), 0.0, rows=30, key=[1, 3, 4])
    assert equal_key_pairs(left, right) == (2 * 1 + 1 * 1) * 10 * 10
    assert equal_key_pairs(left, side(np.zeros(0), 0.0, rows=0)) == 0
