"""Codes of ordered values and their order, and the reach of distances: wider than exact at times, never narrower."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.ordered.domain import Domain, Tolerance
from juncture.ordered.kinds import domain_of
from juncture.ordered.numbers import Decimals, Floats, Integers
from juncture.ordered.times import Dates, Timestamps

INTEGERS = st.integers(MIN_CODE, MAX_CODE) | st.sampled_from([MIN_CODE, MIN_CODE + 1, -1, 0, 1, MAX_CODE - 1, MAX_CODE])
FLOATS = st.floats(allow_nan=False) | st.sampled_from([0.0, -1e-20, 1e-20, 1.0, -1.0, 5e-324, math.inf, -math.inf])


def code(domain: Domain, value) -> int:
    return domain.code_of(value)


def distance(one, other):
    return 0 if one == other else abs(one - other)


def check_around(domain: Domain, value, other, tolerance) -> None:
    codes = np.array([code(domain, value)], np.int64)
    low, high = domain.around(codes, domain.limit(Tolerance(constant=tolerance)))
    if distance(value, other) <= tolerance:
        assert low[0] <= code(domain, other) <= high[0]


def check_mirrored(domain: Domain, value, best, other, later) -> None:
    """Check that a value on the opposite side which is nearer than the best one is within reach."""
    codes, bests = (np.array([code(domain, each)], np.int64) for each in (value, best))
    reach = int(domain.mirrored(codes, bests, later=later)[0])
    apart, best_apart = distance(value, other), distance(value, best)
    if best > value >= other and (apart < best_apart or (apart == best_apart and not later)):
        assert reach <= code(domain, other)
    if best <= value < other and (apart < best_apart or (apart == best_apart and later)):
        assert reach >= code(domain, other)


@given(value=INTEGERS, other=INTEGERS, best=INTEGERS, tolerance=st.integers(0, 2**65), later=st.booleans())
def test_the_reach_of_integers(value, other, best, tolerance, later):
    check_around(Integers(), value, other, tolerance)
    check_mirrored(Integers(), value, best, other, later)


@given(value=FLOATS, other=FLOATS, best=FLOATS, tolerance=FLOATS.map(abs), later=st.booleans())
def test_the_reach_of_floats(value, other, best, tolerance, later):
    check_around(Floats(), value, other, tolerance)
    check_mirrored(Floats(), value, best, other, later)


@given(value=st.integers(0, 2**64 - 1))
def test_codes_of_unsigned_integers_are_shifted(value):
    domain = domain_of(pa.uint64(), pa.uint8())
    codes, valid = domain.encode(pa.array([value], pa.uint64()))
    assert valid is None
    assert codes.tolist() == [domain.code_of(value)] == [value - 2**63]
    assert domain.step_of(int(codes[0])) == value
    assert domain.restore(codes, None, pa.uint64()).to_pylist() == [value]


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (pa.uint8(), pa.uint64(), Integers(unsigned=True)),
        (pa.uint8(), pa.int8(), Integers()),
        (pa.int64(), pa.float32(), Floats(has_integers=True)),
        (pa.float64(), pa.int64(), Floats(has_integers=True)),
        (pa.date32(), pa.date64(), Dates()),
        (pa.timestamp("ms"), pa.timestamp("ns"), Timestamps("ns")),
        (pa.date32(), pa.timestamp("s"), None),
        (pa.duration("s"), pa.time32("s"), None),
        (pa.string(), pa.binary(), None),
        (pa.int64(), pa.decimal128(5, 2), None),
        (pa.bool_(), pa.bool_(), None),
    ],
)
def test_the_domain_of_two_types(one, other, common):
    assert domain_of(one, other) == common


def test_rough_codes_of_decimals_with_more_digits_than_fit_are_in_their_order() -> None:
    wide, fine = pa.decimal256(76, 0), pa.decimal128(38, 9)
    domain = Decimals(9)
    rough = domain.rough([wide, fine])
    texts = ["-" + 76 * "9", "-1e70", "-1.000000001", "-1", "0", "0.999999999", "1", "1e70", 76 * "9"]
    values = [Decimal(text) for text in texts]
    codes = []
    for value in values:
        data_type = fine if abs(value) < 10 else wide
        codes += rough.codes(pa.array([value], data_type))[0].tolist()
    assert codes == sorted(codes)
    with localcontext(prec=100):
        floors = [math.floor(Fraction(value) / domain.step / rough.steps) for value in values]
    assert codes == floors
