"""Folds of spans and of pairs against Python's exact integers, fractions and decimals."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import band, fold
from juncture.kernels.intrinsics import WINDOW

pytestmark = pytest.mark.usefixtures("each_way_to_run")

ints = st.one_of(st.integers(-9, 9), st.sampled_from([-(2**63), 2**63 - 1]), st.integers(-(2**63), 2**63 - 1))
spans = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=12)
floats = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 1e16, -1e16, 1.0, 3.0]),
    st.floats(-1e9, 1e9, width=32),
    st.floats(-1e100, 1e100, allow_subnormal=False),
)


def bounded(spans: list[tuple[int, int]], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return spans of positions, some of them empty or turned round."""
    ends = np.array(spans, np.int32).reshape(-1, 2)
    return tuple(np.ascontiguousarray(np.minimum(ends[:, i], length)) for i in range(2))


def pairs_of(first: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs that spans stand for."""
    found = [(row, place) for row in range(len(first)) for place in range(first[row], end[row])]
    rows, places = np.array(found, np.int32).reshape(-1, 2).T
    return np.ascontiguousarray(rows), np.ascontiguousarray(places)


def levels_over(length: int) -> tuple[list[int], np.ndarray]:
    sizes = [max(1, -(-length // WINDOW)) * WINDOW]
    while sizes[-1] > WINDOW:
        sizes.append(max(1, -(-(sizes[-1] // WINDOW) // WINDOW)) * WINDOW)
    return sizes, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def wide_sums(high: np.ndarray, low: np.ndarray) -> list[int]:
    return [(one << 64) + (other % 2**64) for one, other in zip(high.tolist(), low.tolist(), strict=True)]


@given(values=st.lists(ints, max_size=300), spans=spans)
def test_sums_of_integers_are_exact(values, spans):
    array = np.array(values, np.int64)
    first, end = bounded(spans, len(values))
    wanted = [sum(values[start:stop]) for start, stop in zip(first.tolist(), end.tolist(), strict=True)]
    running = np.empty(len(values) + 1, np.int64), np.empty(len(values) + 1, np.int64)
    fold.running_sums(array, *running)
    assert wide_sums(*running) == [sum(values[:stop]) for stop in range(len(values) + 1)]
    # Sums go on from what is there.
    for times in (1, 2):
        by_span, by_pair = ((np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)) for _ in range(2))
        for _ in range(times):
            fold.add_span_sums(first, end, *running, *by_span)
            fold.add_pair_sums(*pairs_of(first, end), array, *by_pair)
        assert wide_sums(*by_span) == wide_sums(*by_pair) == [times * total for total in wanted]
    if sum(map(abs, values)) < 2**62:
        narrow = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
        fold.add_span_sums(first, end, running[0][:0], running[1], *narrow)
        assert wide_sums(*narrow) == wanted


def tree_of(leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a tree over the totals of single values, and where its levels start."""
    sizes, levels = levels_over(len(leaves))
    tree = np.zeros((int(levels[-1]), leaves.shape[1]))
    tree[: len(leaves)] = leaves
    for level in range(1, len(sizes)):
        fold.build_totals(tree, int(levels[level - 1]), int(levels[level]), 0, sizes[level - 1] // WINDOW)
    return tree, levels


def totals(leaves: np.ndarray, first: np.ndarray, end: np.ndarray, words: int) -> list[np.ndarray]:
    """Return the totals of spans, by the tree and pair by pair."""
    tree, levels = tree_of(leaves)
    by_span, by_pair = (np.zeros((len(first), words)) for _ in range(2))
    fold.add_span_totals(first, end, tree, levels, by_span)
    fold.add_pair_totals(*pairs_of(first, end), leaves, by_pair)
    return [by_span, by_pair]


@given(values=st.lists(floats, max_size=300), spans=spans)
def test_sums_of_floats_are_rounded_once(values, spans):
    leaves = np.zeros((len(values), fold.SUM_WORDS))
    leaves[:, 0] = values
    first, end = bounded(spans, len(values))
    for result in totals(leaves, first, end, fold.SUM_WORDS):
        for row, (start, stop) in enumerate(zip(first.tolist(), end.tolist(), strict=True)):
            part = values[start:stop]
            # Double-double arithmetic has twice the digits: what it leaves out is a share of the largest value.
            left_out = max(map(abs, part), default=0.0) * len(part) * 2.0**-100
            assert result[row, 0] == math.fsum(part) or abs(result[row, 0] - math.fsum(part)) <= left_out


@given(values=st.lists(st.sampled_from([1.0, math.inf, -math.inf, math.nan]), max_size=40), spans=spans)
def test_sums_of_what_is_not_finite(values, spans):
    leaves = np.zeros((len(values), fold.SUM_WORDS))
    leaves[:, 0] = values
    first, end = bounded(spans, len(values))
    for result in totals(leaves, first, end, fold.SUM_WORDS):
        with np.errstate(invalid="ignore"):
            wanted = [float(np.sum(values[start:stop])) for start, stop in zip(first, end, strict=True)]
        np.testing.assert_array_equal(result[:, 0], wanted)


def deviation(values: list[float]) -> float:
    """Return the square root of the sum of squared distances from the mean, rounded once."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / max(len(exact), 1)
    total = sum(((value - mean) ** 2 for value in exact), Fraction(0))
    with localcontext(prec=60):
        return float((Decimal(total.numerator) / Decimal(total.denominator)).sqrt())


SPREADS = {
    fold.SPREAD_WORDS: floats,
    fold.WIDE_SPREAD_WORDS: st.one_of(floats, st.sampled_from([1e280, -1e280, 1e-300, 3e-300, 1e-160, 0.0])),
}


@pytest.mark.parametrize("words", SPREADS)
@given(data=st.data(), spans=spans)
def test_spreads(words, data, spans):
    values = data.draw(st.lists(SPREADS[words], max_size=100))
    leaves = np.zeros((len(values), words))
    leaves[:, 0], leaves[:, 1] = 1, values
    first, end = bounded(spans, len(values))
    for result in totals(leaves, first, end, words):
        exponents = result[:, 5].astype(np.int64) if words == fold.WIDE_SPREAD_WORDS else 0
        roots = np.ldexp(np.sqrt(result[:, 3] + result[:, 4]), exponents)
        for row, (start, stop) in enumerate(zip(first.tolist(), end.tolist(), strict=True)):
            part = values[start:stop]
            assert result[row, 0] == len(part)
            assert math.isclose(roots[row], deviation(part), rel_tol=1e-14), part


@pytest.mark.parametrize("words", SPREADS)
def test_equal_values_have_no_spread(words):
    for value in (0.1, 1e9 + 0.1, -1 / 3):
        leaves = np.zeros((1_000, words))
        leaves[:, 0], leaves[:, 1] = 1, value
        for result in totals(leaves, np.array([0, 7], np.int32), np.array([1_000, 300], np.int32), words):
            assert (result[:, 3:5] == 0).all()


@given(codes=st.lists(st.one_of(st.integers(0, 9), ints), max_size=400), spans=spans)
def test_greatest_values(codes, spans):
    array = np.array(codes, np.int64)
    first, end = bounded(spans, len(codes))
    sizes, levels = levels_over(len(codes))
    tree = np.full(levels[-1], band.LEAST, np.int64)
    tree[: len(codes)] = codes
    for level in range(1, len(sizes)):
        band.build_level(tree, int(levels[level - 1]), int(levels[level]), 0, sizes[level - 1] // WINDOW)
    answers = []
    for add, *arguments in (
        (fold.add_greatest_of_spans, first, end, tree, levels),
        (fold.add_greatest_of_pairs, *pairs_of(first, end), array),
    ):
        greatest, positions = np.zeros(len(first), np.int64), np.full(len(first), -1, np.int32)
        add(*arguments, greatest, positions)
        answers.append((greatest.tolist(), positions.tolist()))
    for greatest, positions in answers:
        for row, (start, stop) in enumerate(zip(first.tolist(), end.tolist(), strict=True)):
            if start >= stop:
                assert positions[row] == -1
            else:
                assert start <= positions[row] < stop
                assert codes[positions[row]] == greatest[row] == max(codes[start:stop])
    # Spans that follow each other are one.
    middle = np.where(first < end, (first + np.maximum(first, end)) // 2, first).astype(np.int32)
    state = np.zeros(len(first), np.int64), np.full(len(first), -1, np.int32)
    fold.add_greatest_of_spans(first, middle, tree, levels, *state)
    fold.add_greatest_of_spans(middle, end, tree, levels, *state)
    assert state[0].tolist() == answers[0][0]
