"""Sums are exact, whatever comes and goes, however often, and in whatever order."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from juncture.errors import DataError
from juncture.incremental.operators.sums import ExactSums

GROUPS = 3
VALUES = {
    "float": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "decimal": (pa.decimal128(38, 2), st.decimals(-(10**35), 10**35, places=2)),
}
WEIGHTS = st.one_of(st.integers(-3, 3), st.integers(-(2**40), 2**40)).filter(bool)


def added(exact, rows):
    sums = exact.none(GROUPS)
    for group, value, weight in rows:
        exact.add(sums, np.array([group]), pa.array([value], exact._type), np.array([weight]))
    return sums


def nearest(exact):
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.copysign(math.inf, 1 if exact > 0 else -1)


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_sums(kind, data):
    of, values = VALUES[kind]
    rows = data.draw(st.lists(st.tuples(st.integers(0, GROUPS - 1), values, WEIGHTS), max_size=8))
    exact = ExactSums(of)
    sums = added(exact, rows)
    for group in range(GROUPS):
        wanted = sum((Fraction(value) * weight for own, value, weight in rows if own == group), Fraction(0))
        assert sums.exact()[group] * exact._scale(sums) == wanted
    if kind != "float":
        integers, fits = sums.integers()
        assert fits.tolist() == [-(2**63) <= total < 2**63 for total in sums.exact()]
        assert [int(total) for total in integers[fits]] == [
            total for total in sums.exact() if -(2**63) <= total < 2**63
        ]
    valid = np.ones(GROUPS, np.bool_)
    totals = [total * exact._scale(sums) for total in sums.exact()]
    assert exact._floats(sums, valid, None).to_pylist() == [nearest(total) for total in totals]
    back = [(group, value, -weight) for group, value, weight in reversed(rows)]
    for group, value, weight in back:
        exact.add(sums, np.array([group]), pa.array([value], of), np.array([weight]))
    assert not any(sums.exact())


def test_what_is_no_number():
    exact = ExactSums(pa.float64())
    sums = added(exact, [(0, math.inf, 1), (1, -math.inf, 2), (2, math.nan, 1), (0, 1.5, 1)])
    valid = np.ones(GROUPS, np.bool_)
    assert str(exact.values(sums, valid, pa.float64()).to_pylist()) == "[inf, -inf, nan]"
    exact.add(sums, np.array([0, 1]), pa.array([-math.inf, -math.inf]), np.array([1, -2]))
    assert str(exact.values(sums, valid, pa.float64()).to_pylist()) == "[nan, 0.0, nan]"


def test_what_does_not_fit():
    whole = ExactSums(pa.int64())
    with pytest.raises(DataError, match="does not fit 64 bits"):
        whole.values(added(whole, [(0, 2**62, 2)]), np.ones(GROUPS, np.bool_), pa.int64())
    money = ExactSums(pa.decimal128(4, 2))
    with pytest.raises(DataError, match="does not fit 38 digits"):
        money.values(added(money, [(0, 1, 10**37)]), np.ones(GROUPS, np.bool_), pa.decimal128(38, 2))


def test_a_negative_sum_among_others_that_take_more_digits():
    schema = pa.schema({"k": pa.int64(), "f": pa.float64()})
    view = jn.view(None, "SELECT k, count(*) AS n, sum(f) AS total FROM a GROUP BY k", sources={"a": schema})
    for row in ((1, -1.5), (2, 1e300), (1, None)):
        view.apply(a=pa.table({"k": [row[0]], "f": [row[1]]}, schema=schema))
    assert {tuple(row.values()) for row in view.result().to_pylist()} == {(1, 2, -1.5), (2, 1, 1e300)}
