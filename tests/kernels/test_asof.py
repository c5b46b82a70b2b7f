"""Offering, spreading and choosing candidates against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import asof

pytestmark = pytest.mark.usefixtures("each_way_to_run")

small = st.integers(-6, 6)
NO_CODES = np.empty((0, 1), np.int64)


def offer_all(kernel, low, high, best, rows, *, codes=None, decided=False, first=False, forward=False, room=3):
    """Offer every row, draining ties as they fill up; return all ties and the rows out of range."""
    slots = np.array([r[0] for r in rows], np.int32)
    on = np.array([r[1] for r in rows], np.int64)
    numbers = np.arange(len(rows), dtype=np.int32)
    ties, drained = np.empty((room, 3), np.int64), []
    rest, state = np.empty(len(rows), np.int32), np.zeros(3, np.int64)
    while state[0] < len(rows):
        if kernel is asof.offer:
            kernel(slots, on, numbers, len(rows), low, high, 100, forward, room, best, ties, rest, state)
        else:
            kernel(
                slots, on, numbers, codes, len(rows), low, high, 100, forward, decided, first, best, ties, rest, state
            )
        drained += ties[: state[1]].tolist()
        state[1] = 0
    return drained, rest[: state[2]].tolist()


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), small), max_size=40),
    low=st.integers(0, 2),
    high=st.integers(2, 5),
    forward=st.booleans(),
)
def test_offer_keeps_the_best_and_writes_down_ties(rows, low, high, forward):
    best = np.full((5, 2), asof.NOWHERE, np.int64)
    ties, rest = offer_all(asof.offer, low, high, best, rows, forward=forward)
    assert rest == [i for i, (slot, _) in enumerate(rows) if not low <= slot < high]
    for slot in range(5):
        mine = [(~on if forward else on, 100 + i) for i, (s, on) in enumerate(rows) if s == slot and low <= s < high]
        if not mine:
            assert best[slot, 1] == asof.NOWHERE
            continue
        rank = max(mine)[0]
        assert best[slot, 0] == rank
        contenders = {best[slot, 1]} | {pointer for s, r, pointer in ties if s == slot and r == rank}
        assert contenders == {pointer for r, pointer in mine if r == rank}


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), small, small, small), max_size=40),
    places=st.integers(1, 4),
    coded=st.integers(0, 2),
    decided=st.booleans(),
    first=st.booleans(),
)
def test_offer_many_keeps_the_best_of_each_place(rows, places, coded, decided, first):
    best = np.full((3, places, coded + 2), asof.NOWHERE, np.int64)
    codes = np.array([r[2 : 2 + coded] for r in rows], np.int64).reshape(len(rows), coded)
    ties, rest = offer_all(asof.offer_many, 0, 3, best, rows, codes=codes, decided=decided, first=first)
    assert rest == []
    for slot in range(3):
        mine = [(r[1], *r[2 : 2 + coded], 100 + i) for i, r in enumerate(rows) if r[0] == slot]
        mine.sort(key=lambda row: (*row[:-1], -row[-1] if first else row[-1]), reverse=True)
        held = [tuple(place) for place in best[slot].tolist() if place[-1] != asof.NOWHERE]
        assert len(held) == min(places, len(mine))
        if decided:
            assert held == mine[:places]
            assert ties == []
            continue
        assert [h[:-1] for h in held] == [m[:-1] for m in mine[:places]]
        if held:
            last = held[-1][:-1]
            pointers = {h[-1] for h in held} | {p for s, rank, p in ties if s == slot and rank == last[0]}
            assert pointers >= {m[-1] for m in mine if m[:-1] == last}


@st.composite
def sides(draw):
    """Sorted left groups, and right values without ties for each."""
    groups = draw(st.integers(1, 4))
    left = [sorted(draw(st.lists(small, max_size=8))) for _ in range(groups)]
    right = [sorted(draw(st.sets(small, max_size=8))) for _ in range(groups)]
    return left, right


def near(left, right, backward, forward, exact, limit, places):
    """The distances and values of the best matches of one left value."""
    chosen = [
        (abs(left - value), value)
        for value in right
        if (value == left and exact) or (value < left and backward) or (value > left and forward)
    ]
    return [value for distance, value in sorted(chosen) if distance <= limit][:places]


@given(
    tables=sides(),
    direction=st.sampled_from(["backward", "forward", "nearest"]),
    exact=st.booleans(),
    limits=st.lists(st.integers(0, 12), min_size=1, max_size=40),
    places=st.integers(1, 3),
    cut=st.integers(0, 40),
    floating=st.booleans(),
    coded=st.booleans(),
)
def test_matches_are_the_nearest(tables, direction, exact, limits, places, cut, floating, coded):
    left, right = tables
    starts = np.cumsum([0] + [len(group) for group in left]).astype(np.int64)
    right_starts = np.cumsum([0] + [len(group) for group in right]).astype(np.int64)
    on = codes_of([v for group in left for v in group], floating)
    right_on = codes_of([v for group in right for v in group], floating)
    rows = np.random.default_rng(0).permutation(len(on)).astype(np.int32)
    per_row = len(limits) >= len(on) > 0
    limits = limits[: len(on)] if per_row else limits[:1]
    tolerance = np.array(limits, np.float64).view(np.uint64) if floating else np.array(limits, np.uint64)
    none = np.empty((0, places, 2), np.int64)
    behind = ahead = none
    if direction in ("backward", "nearest"):
        behind = by_offering(on, starts, right_on, right_starts, False, not exact, places, cut)
    if direction in ("forward", "nearest"):
        ahead = by_offering(on, starts, right_on, right_starts, True, not exact or direction == "nearest", places, cut)
    pointers, counts = np.full((len(on), places), asof.NOWHERE, np.int64), np.zeros(asof.COUNTERS, np.int64)
    codes = np.full((len(on) if coded else 0, places), 0, np.int64)
    cut = min(cut, len(on))
    for first, end in ((0, cut), (cut, len(on))):
        asof.choose(
            on,
            rows,
            first,
            end,
            behind,
            ahead,
            places,
            tolerance,
            int(per_row),
            floating,
            False,
            pointers,
            codes,
            counts,
        )
    flat = [v for group in right for v in group]
    for group, values in enumerate(left):
        for i, value in enumerate(values):
            row = rows[starts[group] + i]
            limit = limits[row] if per_row else limits[0]
            expected = near(value, right[group], direction != "forward", direction != "backward", exact, limit, places)
            assert [flat[p] for p in pointers[row] if p >= 0] == expected
            if coded:
                assert codes[row, : len(expected)].tolist() == codes_of(expected, floating).tolist()
    assert counts[: asof.TIED].sum() == len(on)
    assert counts[asof.MATCHED] == (pointers[:, 0] >= 0).sum()


def codes_of(values, floating):
    if not floating:
        return np.array(values, np.int64)
    bits = np.array(values, np.float64).view(np.int64)
    return bits ^ ((bits >> 63) & (2**63 - 1))


def by_offering(on, starts, right_on, right_starts, forward, strict, places, cut):
    best = np.full((len(on), places, 2), asof.NOWHERE, np.int64)
    rows = []
    for group in range(len(starts) - 1):
        values = on[starts[group] : starts[group + 1]]
        for pointer in range(right_starts[group], right_starts[group + 1]):
            value = right_on[pointer]
            if forward:
                slot = np.searchsorted(values, value, "left" if strict else "right") - 1
            else:
                slot = np.searchsorted(values, value, "right" if strict else "left")
            if 0 <= slot < len(values):
                rows.append((int(starts[group] + slot), int(value), pointer))
    slots = np.array([r[0] for r in rows], np.int32)
    state, ties, rest = np.zeros(3, np.int64), np.empty((1, 3), np.int64), np.empty(len(rows), np.int32)
    pointers = np.array([r[2] for r in rows], np.int32)
    codes = np.empty((len(right_on), 0), np.int64)
    asof.offer_many(
        slots,
        np.array([r[1] for r in rows], np.int64),
        pointers,
        codes,
        len(rows),
        0,
        len(on),
        0,
        -1 if forward else 0,
        False,
        False,
        best,
        ties,
        rest,
        state,
    )
    assert state.tolist() == [len(rows), 0, 0]
    middle = min(cut, len(starts) - 1)
    asof.spread(best, starts, 0, middle, forward)
    asof.spread(best, starts, middle, len(starts) - 1, forward)
    return best


def test_distances_beyond_a_signed_integer():
    on, rows = np.array([2**63 - 1], np.int64), np.zeros(1, np.int32)
    behind = np.array([[[-(2**63), 5]]], np.int64)
    for limit, expected in ((2**64 - 1, 5), (2**64 - 2, asof.NOWHERE)):
        pointers, counts = np.full((1, 1), asof.NOWHERE, np.int64), np.zeros(asof.COUNTERS, np.int64)
        tolerance = np.array([limit], np.uint64)
        asof.choose(
            on,
            rows,
            0,
            1,
            behind,
            np.empty((0, 1, 2), np.int64),
            1,
            tolerance,
            0,
            False,
            False,
            pointers,
            NO_CODES,
            counts,
        )
        assert pointers[0, 0] == expected
        assert counts[asof.MATCHED if expected == 5 else asof.BEYOND] == 1


def test_infinities_are_at_distance_zero_from_themselves():
    on = codes_of([float("inf")], True)
    behind = np.array([[[codes_of([float("inf")], True)[0], 3], [codes_of([1.0], True)[0], 4]]], np.int64)
    pointers, counts = np.full((1, 2), asof.NOWHERE, np.int64), np.zeros(asof.COUNTERS, np.int64)
    tolerance = np.array([1.0]).view(np.uint64)
    none = np.empty((0, 2, 2), np.int64)
    asof.choose(on, np.zeros(1, np.int32), 0, 1, behind, none, 2, tolerance, 0, True, False, pointers, NO_CODES, counts)
    assert pointers.tolist() == [[3, asof.NOWHERE]]


def test_a_tie_at_the_last_place_is_counted():
    on, rows = np.array([9, 9], np.int64), np.array([1, 0], np.int32)
    behind = np.array([[[5, 1], [5, 2]], [[5, 1], [4, 2]]], np.int64)
    pointers, counts = np.full((2, 1), asof.NOWHERE, np.int64), np.array([0, 0, 0, 0, -1], np.int64)
    tolerance = np.array([100], np.uint64)
    asof.choose(
        on, rows, 0, 2, behind, np.empty((0, 2, 2), np.int64), 1, tolerance, 0, False, False, pointers, NO_CODES, counts
    )
    assert (counts[asof.TIED], counts[asof.FIRST_TIED]) == (1, 1)


def test_a_left_row_without_a_limit_to_meet_has_candidates_and_no_match():
    on, rows = np.array([9, 9], np.int64), np.array([~1, 0], np.int32)
    behind = np.array([[[5, 1]], [[5, 1]]], np.int64)
    pointers, counts = np.full((2, 1), asof.NOWHERE, np.int64), np.zeros(asof.COUNTERS, np.int64)
    limits = np.array([100, 100], np.uint64)
    asof.choose(
        on, rows, 0, 2, behind, np.empty((0, 1, 2), np.int64), 1, limits, 1, False, False, pointers, NO_CODES, counts
    )
    assert pointers.tolist() == [[1], [asof.NOWHERE]]
    assert (counts[asof.MATCHED], counts[asof.BEYOND]) == (1, 1)


def test_the_one_ahead_comes_first_of_two_at_the_same_distance_where_it_is_preferred():
    on, rows = np.array([9], np.int64), np.zeros(1, np.int32)
    behind, ahead = np.array([[[5, 1]]], np.int64), np.array([[[~13, 2]]], np.int64)
    for later, expected in ((False, 1), (True, 2)):
        pointers, counts = np.full((1, 1), asof.NOWHERE, np.int64), np.zeros(asof.COUNTERS, np.int64)
        limit = np.array([100], np.uint64)
        asof.choose(on, rows, 0, 1, behind, ahead, 1, limit, 0, False, later, pointers, NO_CODES, counts)
        assert pointers[0, 0] == expected
