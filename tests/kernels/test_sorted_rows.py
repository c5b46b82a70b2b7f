"""Rows that are kept in order: held to sorting all of them, and to leaving some out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels.equal_rows import order_ties
from juncture.kernels.row_order import keep_rows, merge_rows, merge_runs

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3)), max_size=12).map(sorted)


def columns(rows: list[tuple[int, int]], first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    keys, codes = np.array([key for key, _ in rows], np.int32), np.array([code for _, code in rows], np.int64)
    return keys, codes, np.arange(first, first + len(rows))


@given(held=ROWS, more=ROWS)
def test_rows_that_come_are_put_behind_those_of_their_key_and_code(held, more):
    count = len(held) + len(more)
    merged = np.empty(count, np.int32), np.empty(count, np.int64), np.empty(count, np.int64)
    merge_rows(*columns(held, 0), *columns(more, len(held)), *merged)
    wanted = sorted((*row, slot) for slot, row in enumerate([*held, *more]))
    assert list(zip(*(column.tolist() for column in merged), strict=True)) == wanted


HASHED_ROWS = st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 1), st.integers(-2, 2)), max_size=9).map(sorted)


@given(runs=st.lists(HASHED_ROWS, min_size=1, max_size=5), data=st.data())
def test_runs_are_merged_by_key_and_code_and_hash(runs, data):
    rows = [row for run in runs for row in run]
    weights = [data.draw(st.integers(0, 2)) for _ in rows]
    keys, codes, hashes = (np.array([row[line] for row in rows], kind) for line, kind in enumerate(["i4", "i8", "i8"]))
    starts = np.cumsum([0, *(len(run) for run in runs)])
    order = np.empty(len(rows), np.int32)
    count = merge_runs(keys, codes, hashes, np.array(weights, np.int64), starts, order)
    wanted = sorted((*row, place) for place, row in enumerate(rows) if weights[place])
    assert order[:count].tolist() == [place for *_, place in wanted]


@given(
    sizes=st.lists(st.integers(1, 80), max_size=4),
    hashes=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), min_size=320, max_size=320),
)
def test_rows_of_one_key_and_code_are_sorted_by_hash(sizes, hashes):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    own = np.array(hashes[: len(groups)], np.int64)
    found, order = own.copy(), np.arange(len(groups), dtype=np.int32)
    order_ties(groups.astype(np.int32), np.zeros(len(groups), np.int64), found, order)
    assert (own[order] == found).all()
    assert found.tolist() == own[np.lexsort((own, groups))].tolist()


@given(data=st.data(), rows=ROWS)
def test_rows_that_are_not_wanted_are_taken_out(data, rows):
    wanted = [data.draw(st.booleans()) for _ in rows]
    held, gone = columns(rows, 0), np.empty(len(rows), np.int64)
    count = keep_rows(np.array(wanted, np.uint8), *held, gone)
    kept = [(*row, slot) for slot, row in enumerate(rows) if wanted[slot]]
    assert list(zip(*(column[:count].tolist() for column in held), strict=True)) == kept
    assert gone[: len(rows) - count].tolist() == [slot for slot in range(len(rows)) if not wanted[slot]]
