"""Rows against held rows, sorted rows and rows that are wanted: held to loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import symmetric as kernels
from juncture.kernels.next_row import find_next, mark_wanted
from juncture.kernels.row_order import arrange_rows, sort_rows

pytestmark = pytest.mark.usefixtures("each_way_to_run")

LEAST, GREATEST = -(2**63), 2**63 - 1
EXTREMES = [LEAST, LEAST + 1, GREATEST - 1, GREATEST]


@st.composite
def sides(draw, relations: int):
    """Return keys and codes of some rows, sorted by key and first code."""
    count = draw(st.integers(0, 12))
    small = st.integers(-4, 4) | st.sampled_from(EXTREMES) if draw(st.booleans()) else st.integers(-4, 4)
    keys = np.array(sorted(draw(st.integers(0, 3)) for _ in range(count)), np.int32)
    codes = np.array([[draw(small) for _ in range(count)] for _ in range(relations)], np.int64).reshape(
        relations, count
    )
    order = np.empty(count, np.int32)
    first = np.ascontiguousarray(codes[0]) if relations else np.zeros(count, np.int64)
    sort_rows(keys, first, order)
    return keys[order], np.take(codes, order, axis=1)


@pytest.mark.parametrize("relations", [0, 1, 2, 3])
@given(data=st.data(), room=st.integers(1, 40))
def test_matches_are_those_of_all_pairs(relations, data, room):
    keys, codes = data.draw(sides(relations))
    if data.draw(st.booleans()):
        # Keys ascend, and codes need not.
        codes = np.ascontiguousarray(codes[:, ::-1])
    held_keys, held = data.draw(sides(relations))
    edges = np.flatnonzero(np.diff(held_keys)) + 1
    starts = np.concatenate([[0], edges, [len(held_keys)]]).astype(np.int64)
    groups = held_keys[starts[:-1]] if len(held_keys) else np.zeros(0, np.int32)
    starts = starts if len(held_keys) else np.zeros(1, np.int64)
    reach = kernels.excess_of(held) if relations > 1 else kernels.UNLIMITED
    resume, found = np.array([0, -1], np.int64), []
    while resume[0] < len(keys):
        rows, positions = np.empty(room, np.int32), np.empty(room, np.int32)
        count = kernels.find_matches(keys, codes, relations, groups, starts, held, reach, resume, rows, positions)
        found += zip(rows[:count].tolist(), positions[:count].tolist(), strict=True)
    wanted = [
        (row, place)
        for row in range(len(keys))
        for place in range(len(held_keys))
        if keys[row] == held_keys[place]
        and all(int(held[line, place]) >= ~int(codes[line, row]) for line in range(relations))
    ]
    assert sorted(found) == wanted


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(LEAST, GREATEST) | st.sampled_from(EXTREMES)), max_size=40))
def test_rows_are_sorted_stably(rows):
    keys, codes = np.array([row[0] for row in rows], np.int32), np.array([row[1] for row in rows], np.int64)
    order = np.empty(len(rows), np.int32)
    sort_rows(keys, codes, order)
    assert order.tolist() == sorted(range(len(rows)), key=lambda row: rows[row])


@given(
    codes=st.lists(st.integers(-3, 3) | st.sampled_from(EXTREMES), max_size=20),
    falls=st.booleans(),
    keys=st.lists(st.integers(0, 3), min_size=20, max_size=20),
)
def test_rows_whose_codes_rise_or_fall_are_sorted_stably(codes, falls, keys):
    codes.sort(reverse=falls)
    order = np.empty(len(codes), np.int32)
    sort_rows(np.array(keys[: len(codes)], np.int32), np.array(codes, np.int64), order)
    assert order.tolist() == sorted(range(len(codes)), key=lambda row: (keys[row], codes[row]))


@given(
    lines=st.integers(0, 2),
    codes=st.lists(st.integers(-3, 3) | st.sampled_from(EXTREMES), max_size=20),
    order=st.sampled_from(["rising", "falling", "any"]),
    keys=st.lists(st.integers(-1, 3), min_size=20, max_size=20),
    distinct=st.sampled_from([4, 5, 100]),
)
def test_rows_with_a_key_are_arranged_where_codes_rise_or_fall(lines, codes, order, keys, distinct):
    if order != "any":
        codes.sort(reverse=order == "falling")
    keys = np.array(keys[: len(codes)], np.int32)
    table = np.array([codes, range(len(codes))], np.int64)[:lines]
    rows, sorted_keys, sorted_codes = np.empty_like(keys), np.empty_like(keys), np.empty_like(table)
    count = arrange_rows(keys, table, distinct, rows, sorted_keys, sorted_codes)
    if lines and codes not in (sorted(codes), sorted(codes, reverse=True)):
        assert count == -1
        return
    with_key = [row for row in range(len(codes)) if keys[row] >= 0]
    wanted = sorted(with_key, key=lambda row: (keys[row], codes[row] if lines else 0))
    assert rows[:count].tolist() == wanted
    assert sorted_keys[:count].tolist() == keys[wanted].tolist()
    assert sorted_codes[:, :count].tolist() == table[:, wanted].tolist()


def test_rows_of_too_many_keys_are_not_arranged_by_counting():
    keys, codes = np.array([0, 9_999], np.int32), np.array([[1, 2]], np.int64)
    assert arrange_rows(keys, codes, 10_000, np.empty_like(keys), np.empty_like(keys), np.empty_like(codes)) == -1


@given(
    pieces=st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=9), max_size=4),
    follow=st.booleans(),
)
def test_sorted_pieces_are_sorted_stably(pieces, follow):
    rows = [(key, code + 10 * number * follow) for number, piece in enumerate(pieces) for key, code in sorted(piece)]
    keys, codes = np.array([row[0] for row in rows], np.int32), np.array([row[1] for row in rows], np.int64)
    order = np.empty(len(rows), np.int32)
    sort_rows(keys, codes, order)
    assert order.tolist() == sorted(range(len(rows)), key=lambda row: rows[row])


@given(
    codes=st.lists(st.integers(-9, 9) | st.sampled_from(EXTREMES), max_size=20),
    greatest=st.sampled_from([LEAST, LEAST + 1, -3, 0, GREATEST]),
    known=st.sampled_from([LEAST, -4, 2]),
    delay=st.sampled_from([0, 1, 5, GREATEST]),
)
def test_rows_are_late_by_those_before_them(codes, greatest, known, delay):
    late = np.empty(len(codes), np.uint8)
    reached = np.empty(1, np.int64)
    count = kernels.mark_late(np.array(codes, np.int64), greatest, known, delay, late, reached)
    assert reached[0] == max([greatest, *codes])
    wanted = [code < max(known, max([greatest, *codes[:row]]) - delay) for row, code in enumerate(codes)]
    assert late.astype(bool).tolist() == wanted
    assert count == sum(wanted)


@pytest.mark.parametrize("relations", [0, 1, 3])
@given(data=st.data())
def test_rows_below_a_limit_are_let_go(relations, data):
    keys, codes = data.draw(sides(relations))
    count = len(keys)
    limits = np.array([data.draw(st.integers(-5, 5) | st.just(LEAST)) for _ in range(relations)], np.int64)
    alive = np.array([data.draw(st.integers(0, 1)) for _ in range(count)], np.uint8)
    before = alive.copy()
    starts, groups, least = np.empty(count + 1, np.int64), np.empty(count, np.int32), np.empty(relations, np.int64)
    distinct = kernels.index_rows(keys, codes, starts, groups, least)
    assert groups[:distinct].tolist() == sorted(set(keys.tolist()))
    assert starts[: distinct + 1].tolist() == [*(keys.tolist().index(key) for key in groups[:distinct]), count]
    assert least.tolist() == codes.min(axis=1, initial=GREATEST).tolist()
    living = np.empty(count, np.int32)
    lives = kernels.living_rows(codes, limits, living)
    assert living[:lives].tolist() == np.flatnonzero((codes >= limits[:, None]).all(axis=0)).tolist()
    gone = np.empty(count, np.int32)
    found = kernels.expire_rows(codes, limits, alive, gone, least)
    dead = (codes < limits[:, None]).any(axis=0)
    assert gone[:found].tolist() == np.flatnonzero(dead & (before == 1)).tolist()
    assert alive.tolist() == np.where(dead, 0, before).tolist()
    assert least.tolist() == codes.min(axis=1, initial=GREATEST, where=alive == 1).tolist()


def test_a_reach_beyond_62_bits_is_none():
    assert kernels.excess_of(np.array([[GREATEST], [GREATEST]], np.int64)) == kernels.UNLIMITED
    assert kernels.excess_of(np.array([[5, 3], [~2, ~9]], np.int64)) == 3


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(-6, 6)), max_size=12),
    queries=st.lists(st.tuples(st.integers(0, 2), st.integers(-7, 7)), max_size=6),
    ends=st.tuples(st.integers(-8, 8), st.integers(-8, 8)),
    matches=st.integers(1, 3),
    strict=st.booleans(),
    far=st.sampled_from([0, 2, 100]),
)
def test_wanted_rows_are_the_last_before_a_query(rows, queries, ends, matches, strict, far):
    rows, queries = sorted(rows), sorted(queries)
    wanted = np.zeros(len(rows), np.uint8)
    mark_wanted(
        np.array([row[0] for row in rows], np.int32), np.array([row[1] for row in rows], np.int64),
        np.array([row[1] + far for row in rows], np.int64),
        np.array([each[0] for each in queries], np.int32), np.array([each[1] for each in queries], np.int64),
        *ends, matches, strict, wanted,
    )  # fmt: skip
    asked = [*queries, *((key, code) for key in range(3) for code in range(ends[0], ends[1] + 1))]
    for place, (key, code) in enumerate(rows):
        serves = False
        for other, query in asked:
            if other != key or query < code + strict or query > code + far:
                continue
            nearer = sum(row[0] == key and code < row[1] <= query - strict for row in rows)
            serves = serves or nearer < matches
        assert bool(wanted[place]) == serves


@given(data=st.data(), forward=st.booleans())
def test_the_next_row_is_the_nearest_on_its_side(data, forward):
    keys, codes = data.draw(sides(1))
    held_keys, held = data.draw(sides(1))
    edges = np.flatnonzero(np.diff(held_keys)) + 1
    starts = np.concatenate([[0], edges, [len(held_keys)]]).astype(np.int64)
    groups = held_keys[starts[:-1]] if len(held_keys) else np.zeros(0, np.int32)
    positions, tied = np.empty(len(keys), np.int64), np.empty(len(keys), np.uint8)
    find_next(keys, codes[0], groups, starts, held[0], forward, positions, tied)
    for row in range(len(keys)):
        near = [
            int(code)
            for key, code in zip(held_keys, held[0], strict=True)
            if key == keys[row] and (code >= codes[0, row] if forward else code <= codes[0, row])
        ]
        if not near:
            assert positions[row] == -1
            continue
        best = min(near) if forward else max(near)
        assert (held_keys[positions[row]], held[0, positions[row]]) == (keys[row], best)
        assert bool(tied[row]) == (near.count(best) > 1)


@given(
    values=st.lists(st.integers(-20, 20) | st.sampled_from(EXTREMES), max_size=8),
    order=st.sampled_from(["rising", "falling", "any"]),
    lines=st.lists(st.tuples(st.integers(-5, 5), st.sampled_from([0, -1])), max_size=3),
)
def test_codes_of_values_that_are_not_far(values, order, lines):
    if order != "any":
        values.sort(reverse=order == "falling")
    added, flipped = (np.array([line[place] for line in lines], np.int64) for place in (0, 1))
    codes = np.empty((len(lines), len(values)), np.int64)
    told = kernels.write_codes(np.array(values, np.int64), 15, added, flipped, codes)
    if not all(-15 < value < 15 for value in values):
        assert told == kernels.FAR
        return
    rises, falls = values == sorted(values), values == sorted(values, reverse=True)
    assert told == kernels.RISES * rises + kernels.FALLS * falls
    assert codes.tolist() == [[(value + more) ^ bits for value in values] for more, bits in lines]
