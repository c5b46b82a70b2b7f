"""The reference gives the answers of the case files, which were worked out by hand."""

from __future__ import annotations

import math

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
