"""The reference gives the answers of the case files, which were worked out by hand."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

import juncture as jn
from support.cases import Case, check_case, read_cases
from support.kinds import SPECS, defined_rows


@pytest.mark.parametrize("case", [case for kind in SPECS for case in read_cases(kind)], ids=str)
def test_case(case: Case):
    check_case(case, defined_rows)


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_beyond_all_floats(sign):
    left, right = pa.table({"t": [1.0]}), pa.table({"t": [1.0, 1.0], "v": [sign * 1e308, sign * 1e308]})
    answer = defined_rows(jn.Range(on="t", lower=0, upper=0, agg={"v": ["sum", "mean"]}), left, right)
    assert answer["v_sum"].to_pylist() == [sign * math.inf]
    assert answer["v_mean"].to_pylist() == [sign * 1e308]


def test_sums_of_as_many_digits_as_decimals_have():
    tens = pa.decimal128(38, -1)
    right = pa.table({"t": [1.0] * 7, "v": pa.array([Decimal(f"{'9' * 36}8E+1")] * 7, tens)})
    answer = defined_rows(jn.Range(on="t", lower=0, upper=0, agg={"v": "sum"}), pa.table({"t": [1.0]}), right)
    assert answer["v_sum"].to_pylist() == [Decimal(f"6{'9' * 35}86E+1")]


def test_a_filled_key_of_structs_of_which_a_field_is_always_null():
    own = pa.struct([("a", pa.null()), ("b", pa.int64())])
    rows = [{"a": None, "b": 1}, {"a": None, "b": 2}]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1]), pa.array([{"a": None, "b": 7}], own))
    right = pa.table({"k": pa.array(rows, own)})
    answer = defined_rows(jn.Equi(on="k", how="right"), pa.table({"k": runs}), right)
    assert answer["k"].to_pylist() == rows


def test_lists_of_nested_values_in_dictionaries():
    nested = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array([[True], [False, None]]))
    left, right = pa.table({"k": [1, 2]}), pa.table({"k": [1, 1], "v": nested})
    spec = jn.Equi(on="k", agg={"v": ["list"]}, how="left")
    expected = [[[False, None], [True]], []]
    assert defined_rows(spec, left, right)["v_list"].to_pylist() == expected
    assert jn.plan(left, right, spec).execute()["v_list"].to_pylist() == expected


def test_filled_runs_of_lists_of_nulls():
    nulls = pa.array([[None], [None, None]], pa.list_(pa.null()))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1]), nulls.slice(0, 1))
    answer = defined_rows(jn.Equi(on="k", how="full"), pa.table({"k": runs}), pa.table({"k": nulls}))
    assert answer["k"].to_pylist() == [[None], [None, None]]
