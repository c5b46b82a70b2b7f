"""Rows of batches at some places, plain columns or not, and which values are there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from juncture.columnar.arrays import (
    days,
    float_codes,
    innermost,
    joined_pieces,
    plain,
    rows_at,
    validity,
    with_fields,
)

COLUMNS = {
    "plain": [
        pa.array(range(2_000)),
        pa.array(range(2_000), pa.timestamp("us")),
        pa.array([0.5] * 2_000, pa.float32()),
    ],
    "null": [pa.array(range(2_000)), pa.array([None, 1] * 1_000)],
    "bool": [pa.array([True, False] * 1_000)],
    "string": [pa.array(["a", "bc"] * 1_000), pa.array([1, 2] * 1_000, pa.int8())],
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("count", [0, 3, 1_500])
@pytest.mark.parametrize("item", [np.int32, np.int64])
def test_rows_are_those_at_the_places(kind, count, item):
    batch = pa.record_batch(COLUMNS[kind], names=[str(number) for number in range(len(COLUMNS[kind]))]).slice(
        100, 1_700
    )
    places = np.random.default_rng(1).integers(0, batch.num_rows, count).astype(item)
    found = rows_at(batch, places)
    found.validate(full=True)
    assert found.equals(batch.take(pa.array(places)))


@pytest.mark.parametrize("kind", [pa.int64(), pa.bool_(), pa.string(), pa.list_(pa.int8()), pa.null()])
@pytest.mark.parametrize("first", [0, 3, 8, 13])
@pytest.mark.parametrize("count", [0, 1, 5, 21])
def test_which_values_are_there(kind, first, count):
    value = {pa.bool_(): True, pa.string(): "a", pa.list_(pa.int8()): [1], pa.null(): None}.get(kind, 7)
    column = pa.array([None if place % 3 else value for place in range(40)], kind).slice(first, count)
    found = validity(column)
    wanted = column.is_valid().to_pylist()
    assert all(wanted) if found is None else found.tolist() == wanted


def test_values_of_runs_of_any_type():
    words = pa.array(["a", None, "b"])
    nested = pa.StructArray.from_arrays([words.dictionary_encode()], ["word"])
    for values in (words, words.dictionary_encode(), words.cast(pa.string_view()), nested):
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 6], pa.int16()), values)
        expected = [values.to_pylist()[place] for place in (1, 2, 2)]
        assert plain(runs.slice(2, 3)).to_pylist() == expected
        assert plain(runs.slice(2, 0)).to_pylist() == []


def test_float_codes_have_the_order_of_floats():
    codes = float_codes(np.array([-np.inf, -1.5, -0.0, 0.0, 5e-324, 2.0, np.inf, np.nan]))
    assert np.argsort(codes, kind="stable").tolist() == list(range(8))
    assert np.flatnonzero(np.diff(codes) == 0).tolist() == [2]


def test_dates_with_a_time_of_day_are_the_day_that_contains_it():
    stored = [-1, -86_400_000, 86_399_999, 2**63 - 2**63 % 86_400_000 - 86_400_000]
    assert days(pa.array(stored, pa.date64())).tolist() == [-1, -1, 0, 106751991166]


def test_values_within_nested_arrays():
    nested = pa.array([[{"a": 1, "b": "x"}], [], [{"a": 2, "b": "y"}]])
    assert [each.to_pylist() for each in innermost(nested)] == [[1, 2], ["x", "y"]]
    assert with_fields(pa.list_view(pa.int8()), lambda field: field.with_type(pa.int64())) == pa.list_(pa.int64())


def test_small_batches_become_one():
    pieces = [pa.record_batch({"a": [1]}), pa.record_batch({"a": [2, 3]})]
    assert joined_pieces(pieces).to_pydict() == {"a": [1, 2, 3]}
