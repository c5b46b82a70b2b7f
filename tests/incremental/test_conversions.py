"""Conversions of values that maintained queries store, read and write."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest

from juncture.incremental.changes.change_batch import rows_within
from juncture.incremental.expressions.functions import decimal_array, units_of
from juncture.incremental.operators.order import most_steps, order_codes
from juncture.incremental.postgres.connection import lsn_number, lsn_text
from juncture.incremental.postgres.values import from_text, read_array, sql_type
from juncture.incremental.sql.bound import decimal_text

TEXTS = {
    "flags": (["t", None, "f"], pa.bool_(), [True, None, False]),
    "lists": (["{1,NULL}"], pa.list_(pa.int64()), [[1, None]]),
}
SQL_TYPES = {
    "numeric(10, 2)": pa.decimal128(10, 2),
    "smallint[]": pa.list_(pa.int16()),
    "timestamptz": pa.timestamp("ms", "UTC"),
}
STEPS = {
    "decimals between steps": (15, 1, pa.int64(), 2),
    "a day, and a second for its rounding": ({"days": 1}, 0, pa.timestamp("s"), 86401),
    "floats have no steps": (1, 0, pa.float64(), None),
}


def test_columns_that_mark_changes():
    rows, marks = rows_within(pa.schema({"k": pa.int8(), "_weight": pa.int64()}), "left")
    assert rows == pa.schema({"k": pa.int8()})
    assert marks == ("_weight",)


def test_decimals_as_integers():
    decimals = decimal_array([-1250], pa.decimal128(6, 2))
    assert decimals.to_pylist() == [Decimal("-12.50")]
    assert list(units_of(decimals)) == [-1250]
    assert decimal_text(-5, 2) == "-0.05"


@pytest.mark.parametrize(("offset", "scale", "data_type", "steps"), STEPS.values(), ids=STEPS)
def test_steps_of_an_offset(offset, scale, data_type, steps):
    assert most_steps(offset, scale, data_type) == steps


def test_codes_of_texts_are_those_of_their_first_bytes():
    codes = order_codes(pa.array(["", "a", "ab", "abcdefgh", "abcdefghi", "b"]))
    assert [bool(one < other) for one, other in pairwise(codes)] == [True, True, True, False, True]


def test_positions_in_the_log():
    assert lsn_number("1/A") == 4294967306
    assert lsn_text(4294967306) == "1/A"


@pytest.mark.parametrize(("text", "data_type"), SQL_TYPES.items(), ids=SQL_TYPES)
def test_types_of_postgresql(text, data_type):
    assert sql_type(data_type) == text


@pytest.mark.parametrize(("texts", "data_type", "values"), TEXTS.values(), ids=TEXTS)
def test_texts_of_postgresql(texts, data_type, values):
    assert from_text(pa.array(texts), data_type).to_pylist() == values


def test_dates_of_postgresql_beyond_python():
    days = from_text(pa.array(["1970-01-02", "10000-01-01"]), pa.date32()).cast(pa.int32())
    assert days.to_pylist() == [1, 2932897]


def test_elements_of_an_array():
    assert read_array('{a,"b,\\"",NULL,"NULL"}') == ["a", 'b,"', None, "NULL"]
