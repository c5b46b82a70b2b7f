"""Rows in order against held rows in order: held to loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import symmetric as kernels

pytestmark = pytest.mark.usefixtures("each_way_to_run")

LEAST, GREATEST = -(2**63), 2**63 - 1


@st.composite
def in_line(draw, rising: int, most: int = 30):
    """Return keys of rows, and two lines of codes of which one rises while the other falls."""
    small = st.integers(-6, 6) | st.sampled_from([LEAST, LEAST + 1, GREATEST - 1, GREATEST])
    values = draw(
        st.lists(st.tuples(small if draw(st.booleans()) else st.integers(-6, 30), st.integers(0, 2)), max_size=most)
    )
    up = sorted(value for value, _ in values)
    down = sorted((draw(st.integers(-6, 30)) for _ in values), reverse=True)
    codes = np.array([up, down] if rising == 0 else [down, up], np.int64).reshape(2, len(values))
    return np.array([key for _, key in values], np.int64), codes


def matches(keys, codes, held_keys, held):
    return [
        (row, place)
        for row in range(len(keys))
        for place in range(len(held_keys))
        if keys[row] == held_keys[place] and all(int(held[line, place]) >= ~int(codes[line, row]) for line in (0, 1))
    ]


@pytest.mark.parametrize("rising", [0, 1])
@given(data=st.data(), room=st.integers(1, 60))
def test_matches_are_those_of_all_pairs(rising, data, room):
    keys, codes = data.draw(in_line(data.draw(st.integers(0, 1))))
    if data.draw(st.booleans()):
        # Any order of rows will do.
        mixed = np.array(data.draw(st.permutations(range(len(keys)))), np.int64)
        keys, codes = keys[mixed], np.ascontiguousarray(codes[:, mixed])
    held_keys, held = data.draw(in_line(rising))
    resume, found = np.array([0, -1, 0], np.int64), []
    while resume[0] < len(keys):
        rows, positions = np.empty(room, np.int32), np.empty(room, np.int32)
        count = kernels.find_in_windows(keys, codes, rising, held_keys, held, resume, rows, positions)
        found += zip(rows[:count].tolist(), positions[:count].tolist(), strict=True)
    assert sorted(found) == matches(keys, codes, held_keys, held)


@pytest.mark.parametrize("rising", [0, 1])
@given(data=st.data(), copies=st.sampled_from([1, 30]))
def test_no_more_pairs_are_compared_than_told(rising, data, copies):
    _, codes = data.draw(in_line(data.draw(st.integers(0, 1))))
    codes = np.repeat(codes, copies, axis=1)
    held_keys, held = data.draw(in_line(rising))
    told = kernels.pairs_to_compare(codes, rising, held)
    alike, others = np.zeros(codes.shape[1], np.int64), np.zeros(len(held_keys), np.int64)
    assert len(matches(alike, codes, others, held)) <= told <= len(alike) * len(others)


@given(
    codes=st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), max_size=8),
    first=st.sampled_from(["rises", "falls", "any"]),
)
def test_the_rising_line(codes, first):
    table = np.array([[each[0] for each in codes], [each[1] for each in codes]], np.int64).reshape(2, len(codes))
    if first != "any":
        table.sort(axis=1)
        table[int(first == "rises")] = table[int(first == "rises")][::-1].copy()
    found = kernels.rising_line(table)
    steps = np.diff(table, axis=1)
    in_line = [(steps[line] >= 0).all() and (steps[1 - line] <= 0).all() for line in (0, 1)]
    assert found == (0 if in_line[0] else 1 if in_line[1] else kernels.NEITHER)
    assert first == "any" or found != kernels.NEITHER


@pytest.mark.parametrize("rising", [0, 1])
@given(data=st.data())
def test_what_lives_is_together(rising, data):
    _, codes = data.draw(in_line(rising))
    limits = np.array(data.draw(st.tuples(*[st.integers(-7, 31) | st.sampled_from([LEAST, GREATEST])] * 2)), np.int64)
    span = np.empty(2, np.int64)
    kernels.living_span(codes, rising, limits, span)
    lives = [place for place in range(codes.shape[1]) if (codes[:, place] >= limits).all()]
    assert list(range(span[0], max(span[0], span[1]))) == lives
