from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.predicate.intervals import arithmetic as calculate
from juncture.predicate.intervals import relate as logic
from juncture.predicate.intervals.interval import (
    Interval,
    contains,
    everything,
    intersect,
    interval,
    nothing,
    null,
    point,
    truth,
    union,
)
from juncture.predicate.intervals.relate import among
from juncture.predicate.language.nodes import Options
from juncture.predicate.language.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, Type
from predicate.strategies import values

INT = Type("integer", bits=32)
FLOAT = Type("float", bits=32)
GREATEST = 3.4028234663852886e38
CENTS = Type("decimal", precision=5, scale=2)
SQUARE_CENTS = Type("decimal", precision=11, scale=4)
DAYS = DATE
SECONDS = Type("timestamp", unit="s")
MILLIS = Type("timestamp", unit="ms")
LENGTH = Type("duration", unit="ms")


@pytest.mark.parametrize(
    ("one", "shown"),
    [
        (interval(BIGINT, 1, 5), "[1, 5]"),
        (interval(BIGINT, 1, 5, lower_open=True, upper_open=True), "[2, 4]"),
        (interval(BIGINT, Fraction(1, 2), 4.5), "[1, 4]"),
        (interval(BIGINT, 2, 1), "nothing"),
        (interval(BIGINT, 1, 2, lower_open=True, upper_open=True), "nothing"),
        (interval(INT, -(2**40), 7), "(-∞, 7]"),
        (interval(DOUBLE, 1.0, 2.0, upper_open=True, nan=True), "[1.0, 2.0) or NaN"),
        (interval(DOUBLE, 1.0, 1.0, upper_open=True), "nothing"),
        (interval(DOUBLE, -math.inf, math.inf), "(-∞, ∞)"),
        (interval(CENTS, Fraction(1, 3), 2, null=True), "[0.34, 2.00] or null"),
        (interval(DAYS, 0, 31), "[1970-01-01, 1970-02-01]"),
        (interval(SECONDS, 0), "[1970-01-01 00:00:00, ∞)"),
        (interval(LENGTH, 1_500, None), "[1.5 seconds, ∞)"),
        (interval(STRING, "a", "b", upper_open=True), "['a', 'b')"),
        (interval(STRING, "b", "a"), "nothing"),
        (everything(DOUBLE), "(-∞, ∞) or NaN or null"),
        (truth(true=True, false=True, null=True), "{false, true} or null"),
        (null(INT), "null"),
        (nothing(DOUBLE, nan=True), "NaN"),
        (point(DOUBLE, math.nan), "NaN"),
        (point(INT, None), "null"),
    ],
)
def test_one_form_and_how_it_reads(one, shown):
    assert str(one) == shown


def test_set_operations():
    assert intersect(interval(BIGINT, 1, 5), interval(BIGINT, 3)) == interval(BIGINT, 3, 5)
    assert intersect(interval(BIGINT, 1, 2), interval(BIGINT, 3)).empty
    assert union(interval(BIGINT, 1, 2), interval(BIGINT, 5, 6, null=True)) == interval(BIGINT, 1, 6, null=True)
    assert union(nothing(BIGINT), interval(BIGINT, 5)) == interval(BIGINT, 5)
    open_end = interval(DOUBLE, 1.0, 2.0, upper_open=True)
    assert intersect(open_end, interval(DOUBLE, 0.0, 2.0)) == open_end
    assert union(open_end, interval(DOUBLE, 1.0, 2.0)) == interval(DOUBLE, 1.0, 2.0)
    assert intersect(everything(STRING), interval(STRING, "b")).lower == "b"
    assert not contains(open_end, 2.0)
    assert contains(open_end, 1.5)
    assert not contains(open_end, math.nan)
    assert contains(null(INT), None)


@given(st.data())
def test_intersection_and_union_hold_what_they_should(data):
    data_type = data.draw(st.sampled_from([INT, BIGINT, DOUBLE, CENTS, DAYS, MILLIS, LENGTH, BOOLEAN, STRING]))
    member = values(data_type) | st.none()
    a, b, c, d, probe = (data.draw(member) for _ in range(5))
    one, other = union(point(data_type, a), point(data_type, b)), union(point(data_type, c), point(data_type, d))
    inside = contains(one, probe), contains(other, probe)
    assert contains(intersect(one, other), probe) == all(inside)
    assert contains(union(one, other), probe) or not any(inside)
    assert contains(one, a)
    assert contains(one, b)


@pytest.mark.parametrize(
    ("operator", "left", "right", "target", "shown"),
    [
        ("+", interval(BIGINT, 1, 2), interval(BIGINT, 3, 4), BIGINT, "[4, 6]"),
        ("-", interval(BIGINT, 1, 2), interval(BIGINT, 3, 4), BIGINT, "[-3, -1]"),
        ("*", interval(BIGINT, -1, 2), interval(BIGINT, -3, 4), BIGINT, "[-6, 8]"),
        ("*", interval(BIGINT, 0, 2), interval(BIGINT, 5), BIGINT, "[0, ∞) or null"),
        ("+", interval(BIGINT, 2**63 - 2), interval(BIGINT, 5, 6), BIGINT, "nothing or null"),
        # No limit is known, but no sum leaves 64 bits.
        ("+", interval(INT), interval(INT), BIGINT, "(-∞, ∞)"),
        ("+", interval(BIGINT), interval(INT), BIGINT, "(-∞, ∞) or null"),
        ("+", interval(INT, 1 - 2**31, 0), interval(INT, 0, 2**31 - 2), BIGINT, "[-2147483647, 2147483646]"),
        ("+", interval(BIGINT, 2**62), interval(BIGINT, 2**60, 2**61), BIGINT, f"[{2**62 + 2**60}, ∞) or null"),
        ("/", interval(DOUBLE, 1.0, 2.0), interval(DOUBLE, 4.0, 8.0), DOUBLE, "[0.125, 0.5]"),
        ("/", interval(DOUBLE, 1.0, 2.0), interval(DOUBLE, 0.0, 4.0), DOUBLE, "[0.25, ∞) or null"),
        ("/", interval(DOUBLE, 1.0, 2.0), interval(DOUBLE, -1.0, 4.0), DOUBLE, "(-∞, ∞) or null"),
        ("/", interval(DOUBLE, 1.0, 2.0), interval(DOUBLE, 0.0, 0.0), DOUBLE, "null"),
        ("/", interval(DOUBLE, 1.0), interval(DOUBLE, 1.0), DOUBLE, "[0.0, ∞) or NaN"),
        ("-", interval(DOUBLE, 1.0), interval(DOUBLE, 1.0), DOUBLE, "(-∞, ∞) or NaN"),
        ("+", interval(DOUBLE, 0.1, 0.1), interval(DOUBLE, 0.2, 0.2), DOUBLE, "[0.3, 0.30000000000000004]"),
        (
            "+",
            interval(DOUBLE, 0.0, 1.0, lower_open=True, upper_open=True),
            point(DOUBLE, math.inf),
            DOUBLE,
            "[inf, ∞)",
        ),
        ("*", interval(DOUBLE, 1.0, 2.0, lower_open=True), point(DOUBLE, -math.inf), DOUBLE, "(-∞, -inf]"),
        # Between the greatest float and infinity.
        ("-", point(FLOAT, 1.0), point(FLOAT, -GREATEST), FLOAT, f"[{GREATEST}, ∞)"),
        ("-", point(FLOAT, -GREATEST), point(FLOAT, 1.0), FLOAT, f"(-∞, -{GREATEST}]"),
        ("-", interval(MILLIS, 5_000), interval(SECONDS, 1, 1), LENGTH, "[4 seconds, ∞)"),
        (
            "+",
            interval(SECONDS, 1, 1),
            interval(LENGTH, 500, 500),
            MILLIS,
            "[1970-01-01 00:00:01.5, 1970-01-01 00:00:01.5]",
        ),
        ("-", interval(DAYS, 3, 4), interval(DAYS, 1, 1), Type("duration", unit="s"), "[2 days, 3 days]"),
        (
            "*",
            interval(CENTS, Fraction(1, 2), 1),
            interval(CENTS, 3, 3),
            Type("decimal", precision=11, scale=4),
            "[1.5000, 3.0000]",
        ),
    ],
)
def test_arithmetic(operator, left, right, target, shown):
    result = str(calculate.arithmetic(operator, left, right, target))
    assert result == shown.replace("nothing or null", "null")


def test_unary_extremes_and_squares():
    assert calculate.unary("-", interval(BIGINT, -3, 5), BIGINT) == interval(BIGINT, -5, 3)
    assert calculate.unary("abs", interval(BIGINT, -3, 5), BIGINT) == interval(BIGINT, 0, 5)
    assert calculate.unary("-", interval(BIGINT), BIGINT).may_be_null
    pair = [interval(BIGINT, 1, 9), interval(BIGINT, 3, 5)]
    assert calculate.extreme("least", pair, BIGINT) == interval(BIGINT, 1, 5)
    assert calculate.extreme("greatest", pair, BIGINT) == interval(BIGINT, 3, 9)
    nulls = [interval(BIGINT, 1, 9, null=True), interval(BIGINT, 3, 5)]
    assert calculate.extreme("greatest", nulls, BIGINT) == interval(BIGINT, 3, 9)
    with_nan = [interval(DOUBLE, 1.0, 9.0, nan=True), interval(DOUBLE, 3.0, 12.0)]
    assert str(calculate.extreme("least", with_nan, DOUBLE)) == "[1.0, 12.0]"
    assert calculate.extreme("greatest", with_nan, DOUBLE).may_be_nan
    assert calculate.square(interval(BIGINT, -3, 2), BIGINT) == interval(BIGINT, 0, 9)


@pytest.mark.parametrize(
    ("one", "target", "shown"),
    [
        (interval(DOUBLE, -1.5, 2.5), BIGINT, "[-1, 2]"),
        (interval(DOUBLE, 0.5, 300.0), Type("integer", bits=8), "[0, ∞) or null"),
        (interval(DOUBLE), BIGINT, "(-∞, ∞) or null"),
        (interval(BIGINT, 0, 5), BOOLEAN, "{false, true}"),
        (interval(BIGINT, 1, 5), BOOLEAN, "{true}"),
        (interval(BOOLEAN), INT, "[0, 1]"),
        (interval(DAYS, 1, 2), MILLIS, "[1970-01-02 00:00:00, 1970-01-03 00:00:00]"),
        (interval(MILLIS, -1, 86_400_000), DAYS, "[1969-12-31, 1970-01-02]"),
        (interval(Type("decimal", precision=6, scale=3), Fraction(5, 1000), 1), CENTS, "[0.01, 1.00]"),
        (interval(BIGINT, 2**53 + 1, 2**53 + 1), DOUBLE, "[9007199254740992.0, 9007199254740994.0]"),
        (interval(DOUBLE, 1.0, 2.0, upper_open=True, nan=True), FLOAT, "[1.0, 2.0] or NaN"),
    ],
)
def test_casts(one, target, shown):
    assert str(calculate.convert(one, target)) == shown


@pytest.mark.parametrize(
    ("operator", "left", "right", "shown"),
    [
        ("<", interval(INT, 1, 2), interval(INT, 3, 4), "{true}"),
        ("<", interval(INT, 1, 3), interval(INT, 3, 4), "{false, true}"),
        ("<", interval(INT, 4, 5), interval(INT, 3, 4, null=True), "{false} or null"),
        ("=", interval(INT, 3, 3), interval(INT, 3, 3), "{true}"),
        ("=", interval(INT, 3, 3), interval(CENTS, Fraction(7, 2)), "{false}"),
        ("<", interval(DOUBLE, 1.0, 2.0, upper_open=True), interval(DOUBLE, 2.0, 2.0), "{true}"),
        ("<", interval(DOUBLE, 1.0, 2.0), nothing(DOUBLE, nan=True), "{true}"),
        ("=", point(DOUBLE, math.nan), point(DOUBLE, math.nan), "{true}"),
        (">", interval(DOUBLE, 1.0, 2.0), interval(DOUBLE, 3.0, 4.0, nan=True), "{false}"),
        ("=", interval(SECONDS, 1, 1), interval(MILLIS, 1_000, 1_000), "{true}"),
        ("<=>", null(INT), null(INT), "{true}"),
        ("<=>", null(INT), interval(INT), "{false}"),
        ("=", null(INT), interval(INT), "null"),
        ("<", interval(STRING, "a", "b"), interval(STRING, "c"), "{true}"),
    ],
)
def test_comparisons(operator, left, right, shown):
    assert str(logic.compare(operator, left, right)) == shown


STATES = [truth(true=True, false=False), truth(true=False, false=True), null(BOOLEAN)]
VALUES = [True, False, None]


def test_three_valued_logic():
    for a, one in zip(VALUES, STATES, strict=True):
        assert logic.negation(one) == (null(BOOLEAN) if a is None else STATES[VALUES.index(not a)])
        for b, other in zip(VALUES, STATES, strict=True):
            both = False if False in (a, b) else None if None in (a, b) else True
            either = True if True in (a, b) else None if None in (a, b) else False
            assert logic.conjunction([one, other]) == STATES[VALUES.index(both)]
            assert logic.disjunction([one, other]) == STATES[VALUES.index(either)]


def test_an_interval_knows_what_it_can_be():
    assert interval(INT, 3, 3).is_point
    assert not interval(INT, 3, 3, null=True).is_point
    assert not nothing(INT).feasible
    assert null(INT).feasible
    assert not null(INT).may_be_value
    assert isinstance(everything(INT), Interval)


@pytest.mark.parametrize(
    ("data_type", "listed"),
    [(INT, (1,)), (INT, (1, 2)), (STRING, ("a",)), (STRING, ("a", "b")), (Type("binary"), (b"a", b"b"))],
    ids=str,
)
def test_what_is_in_a_list_where_nothing_is_known_of_the_operand(data_type, listed):
    """Without bounds, an operand may be one of the values and another."""
    held = among(Options(data_type, listed), everything(data_type, null=False))
    assert (held.may_be_true, held.may_be_false, held.may_be_null) == (True, True, False)
