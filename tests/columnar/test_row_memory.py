"""Rows compared where they lie: those that are the same are, and those that are not the same are not."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.columnar.row_bytes import RowMemory

VALUES = {
    pa.int8(): [1, 2, None],
    pa.int64(): [7, -1, None, 2**62],
    pa.bool_(): [True, None, False],
    pa.float64(): [1.5, None, -2.0],
    pa.date32(): [datetime.date(2020, 1, 1), None, datetime.date(2021, 1, 1)],
    pa.decimal128(20, 2): [Decimal("1.25"), None, Decimal("-1.25"), Decimal("123456789012345678.25")],
    pa.binary(3): [b"abc", b"abd", None],
    pa.string(): ["", "a", None, "a long one of many words", "a long one of many wordS"],
    pa.large_string(): ["", "b", None, "another long one, of words"],
    pa.binary(): [b"x", None, b""],
    pa.null(): [None],
}


def column(data_type: pa.DataType, numbers: list[int], first: int) -> pa.Array:
    """Return values, which begin some rows behind the start of their memory."""
    values = VALUES[data_type]
    return pa.array([values[number % len(values)] for number in [5] * first + numbers], data_type).slice(first)


@given(
    types=st.lists(st.sampled_from(list(VALUES)), max_size=4),
    rows=st.lists(st.integers(0, 255), max_size=12),
    others=st.lists(st.integers(0, 255), max_size=12),
    first=st.integers(0, 11),
)
def test_rows_that_are_the_same(types, rows, others, first):
    batches = [
        pa.RecordBatch.from_arrays(
            [column(each, [number // 4**place for number in numbers], start) for place, each in enumerate(types)],
            names=[str(place) for place in range(len(types))],
        )
        for numbers, start in ((rows, first), (others, 3))
    ]
    if not types:
        return
    pairs = [(one, other) for one in range(len(rows)) for other in range(len(others))]
    ones, twos = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    found = RowMemory.of(batches[0]).surely_equal(ones, RowMemory.of(batches[1]), twos)
    one, other = (batch.to_pylist() for batch in batches)
    assert found.tolist() == [one[mine] == other[theirs] for mine, theirs in pairs]


@pytest.mark.parametrize("values", [[1.0, 2.0], ["a", "b"]])
def test_of_nested_values_nothing_is_said(values):
    memory = RowMemory.of(pa.record_batch({"a": [[each] for each in values]}))
    assert not memory.surely_equal(np.array([0]), memory, np.array([0])).any()
