"""Passes over two sides in ascending order, against brute force."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from juncture.kernels import asof, merge
from juncture.kernels.hash_table import EMPTY

pytestmark = pytest.mark.usefixtures("each_way_to_run")

KEYS = 3
VALUES = st.integers(-4, 4)
ROWS = st.lists(st.tuples(VALUES, st.sampled_from([EMPTY, *range(KEYS)])), max_size=14).map(sorted)
LONG = [*range(9_000), 8_999, *range(10_000, 19_000), 18_999]


def arrays(rows):
    return np.array([key for _, key in rows], np.int32), np.array([value for value, _ in rows], np.int64)


@given(values=st.lists(VALUES, max_size=12), first=st.integers(0, 12), end=st.integers(0, 12))
@example(values=list(range(9_000)), first=0, end=9_000)
@example(values=[*range(9_000), 3], first=0, end=9_001)
@example(values=[*range(9_000), 8_999], first=0, end=9_001)
def test_the_order_of_values(values, first, end):
    end = min(end, len(values))
    pairs = [(values[i - 1], values[i]) for i in range(max(first, 1), end)]
    order = merge.order_of_values(np.array(values, np.int64), first, end)
    assert bool(order & merge.DISORDER) == any(one > other for one, other in pairs)
    if not order & merge.DISORDER:
        assert bool(order & merge.REPEAT) == any(one == other for one, other in pairs)


@given(left=ROWS, right=ROWS, forward=st.booleans(), strict=st.booleans(), cut=st.integers(0, 14), single=st.booleans())
def test_the_nearest_position_of_a_key(left, right, forward, strict, cut, single):
    if single:
        left, right = ([(value, min(key, 0)) for value, key in rows] for rows in (left, right))
    (keys, on), (right_keys, right_on) = arrays(left), arrays(right)
    positions, cut = np.full(len(on), 99, np.int64), min(cut, len(on))
    for first, end in ((0, cut), (cut, len(on))):
        key_count = 1 if single else KEYS
        merge.nearest_positions(keys, on, first, end, right_keys, right_on, forward, strict, key_count, positions)
    for (value, key), position in zip(left, positions.tolist(), strict=True):
        same = [i for i, (_, other) in enumerate(right) if other == key != EMPTY]
        behind = [i for i in same if right[i][0] < value or (not strict and right[i][0] == value)]
        ahead = [i for i in same if right[i][0] > value or (not strict and right[i][0] == value)]
        expected = ahead[:1] if forward else behind[-1:]
        assert key == EMPTY or [position] == (expected or [asof.NOWHERE])


@given(
    left=st.lists(VALUES, max_size=30).map(sorted),
    right=st.lists(VALUES, max_size=60).map(sorted),
    forward=st.booleans(),
    strict=st.booleans(),
    lists_ties=st.booleans(),
    cut=st.integers(0, 30),
)
@example(left=list(range(20_000)), right=LONG, forward=False, strict=True, lists_ties=True, cut=17_000)
@example(left=list(range(20_000)), right=LONG, forward=True, strict=False, lists_ties=True, cut=2)
def test_the_nearest_position_without_keys(left, right, forward, strict, lists_ties, cut):
    on, right_on = np.array(left, np.int64), np.array(right, np.int64)
    positions, cut, tied = np.full(len(on), 99, np.int64), min(cut, len(on)), []
    for first, end in ((0, cut), (cut, len(on))):
        candidates = np.empty((end - first + 1) * lists_ties, np.int64)
        count = merge.nearest_without_keys(on, first, end, right_on, forward, strict, positions, candidates)
        tied += candidates[:count].tolist()
    # Backward, right rows before this place match, and forward those from it on.
    places = np.searchsorted(right_on, on, "left" if forward != strict else "right")
    expected = np.where(places < len(right), places, asof.NOWHERE) if forward else places - 1
    assert positions.tolist() == expected.tolist()
    repeated = [value for value, other in pairwise(right) if value == other]
    ties = np.isin(right_on[positions[positions >= 0]], repeated)
    assert tied == (np.flatnonzero(positions >= 0)[ties].tolist() if lists_ties else [])


@given(rows=ROWS)
def test_links(rows):
    keys, _ = arrays(rows)
    before, after = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    merge.link(keys, KEYS, before, after)
    for position, (_, key) in enumerate(rows):
        same = [i for i, (_, other) in enumerate(rows) if other == key != EMPTY]
        assert before[position] == max([i for i in same if i < position], default=asof.NOWHERE)
        assert after[position] == min([i for i in same if i > position], default=asof.NOWHERE)


@given(
    left=ROWS,
    right=ROWS,
    direction=st.sampled_from(["backward", "forward", "nearest"]),
    limit=st.integers(0, 9),
    wanted=st.integers(1, 3),
    counts_ties=st.booleans(),
    later=st.booleans(),
    barred=st.booleans(),
)
def test_matches_are_the_nearest(left, right, direction, limit, wanted, counts_ties, later, barred):
    (keys, on), (right_keys, right_on) = arrays(left), arrays(right)
    rows = np.random.default_rng(0).permutation(len(on)).astype(np.int32)
    before, after = np.empty(len(right), np.int32), np.empty(len(right), np.int32)
    merge.link(right_keys, KEYS, before, after)
    sides = []
    for forward in (False, True):
        positions = np.full(len(on) * (direction in ("nearest", ("backward", "forward")[forward])), -1, np.int64)
        if len(positions):
            strict = forward and direction == "nearest"
            merge.nearest_positions(keys, on, 0, len(on), right_keys, right_on, forward, strict, KEYS, positions)
        sides.append(positions)
    pointers, counts = np.full((len(on), wanted), asof.NOWHERE, np.int64), np.zeros(asof.COUNTERS, np.int64)
    counts[asof.FIRST_TIED] = -1
    none, tolerance = np.zeros(0, np.int32), np.array([limit], np.uint64)
    merge.choose_positions(
        keys, on, rows, np.full(len(on), barred, np.uint8), 0, len(on), *sides, right_on, before, after, none, none,
        wanted, wanted + counts_ties, tolerance, False, later, pointers, counts,
    )  # fmt: skip
    tied = 0
    for place, (value, key) in enumerate(left):
        ordered = [] if barred else expected_order(value, key, right, direction, limit, later)
        chosen = [right[p] for p in pointers[rows[place]].tolist() if p >= 0]
        assert chosen == [right[i] for i in ordered[:wanted]]
        tied += counts_ties and len(ordered) > wanted and right[ordered[wanted]] == right[ordered[wanted - 1]]
    assert counts[asof.TIED] == tied
    assert counts[asof.MATCHED] == (pointers[:, 0] >= 0).sum()
    assert counts[: asof.TIED].sum() == (keys != EMPTY).sum()
    if direction == "nearest" or wanted > 1 or counts_ties or barred:
        return
    alone = np.full(len(on), asof.NOWHERE, np.int64)
    merge.choose_single(
        keys, on, rows, 0, len(on), sides[direction == "forward"], right_on, none, tolerance, False, alone
    )
    assert alone.tolist() == pointers[:, 0].tolist()


def expected_order(value, key, right, direction, limit, later):
    """Return the right rows that a left row may match, the best first."""
    found = []
    for i, (other, other_key) in enumerate(right):
        is_ahead = other > value or (direction == "forward" and other == value)
        fits = direction == "nearest" or is_ahead == (direction == "forward")
        if other_key == key != EMPTY and fits and abs(other - value) <= limit:
            # Of rows on one side, those farther along come later at the same distance.
            found.append((abs(other - value), is_ahead != later, i if is_ahead else -i, i))
    return [i for *_, i in sorted(found)]
