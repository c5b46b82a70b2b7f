"""Rows that are kept in order: held to sorting all of them, and to leaving some out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels.row_order import keep_rows, merge_rows

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


@given(data=st.data(), rows=ROWS)
def test_rows_that_are_not_wanted_are_taken_out(data, rows):
    wanted = [data.draw(st.booleans()) for _ in rows]
    held, gone = columns(rows, 0), np.empty(len(rows), np.int64)
    count = keep_rows(np.array(wanted, np.uint8), *held, gone)
    kept = [(*row, slot) for slot, row in enumerate(rows) if wanted[slot]]
    assert list(zip(*(column[:count].tolist() for column in held), strict=True)) == kept
    assert gone[: len(rows) - count].tolist() == [slot for slot in range(len(rows)) if not wanted[slot]]
