from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from juncture.errors import SpecError
from juncture.ordered.duration import length_ns
from juncture.values import flag, plain, whole_number

DAY_NS = 86_400 * 10**9


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int8(-5), -5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float64(0.1), 0.1),
        (np.float32(0.1), 0.1),
        (np.float16(0.1), 0.1),
        (np.float32("inf"), float("inf")),
        (np.bool_(False), False),
        (np.str_("5m"), "5m"),
        (Fraction(6, 3), Decimal(2)),
        (Fraction(-1, 80), Decimal("-0.0125")),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_numbers_in_their_plain_form(value, expected):
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)


def test_a_long_fraction_is_not_rounded():
    value = Fraction(10**60 + 1, 2**90)
    assert Fraction(plain(value)) == value


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [
        (timedelta(microseconds=-1), -1_000),
        (pd.Timedelta(1_500, "ns"), 1_500),
        (pd.Timedelta(-1, "ns"), -1),
        (pd.Timedelta(-1, "D") + pd.Timedelta(1, "ns"), 1 - DAY_NS),
        (pd.Timedelta(np.timedelta64(10**12, "s")), 10**21),
        (pd.Timedelta(np.timedelta64(-(10**15), "ms")), -(10**21)),
        (np.timedelta64(1_500, "ns"), 1_500),
        (np.timedelta64(2**62, "us"), 2**62 * 1_000),
        (np.timedelta64(3, "25s"), 75 * 10**9),
        (np.timedelta64(-2, "W"), -14 * DAY_NS),
        (np.timedelta64(2**62, "D"), 2**62 * DAY_NS),
        (np.timedelta64(5_000, "ps"), 5),
    ],
)
def test_lengths_of_time_to_the_nanosecond(value, nanoseconds):
    assert length_ns(value, argument="tolerance") == nanoseconds


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.timedelta64("NaT"), "tolerance=NaT would match nothing"),
        (np.timedelta64(5), "has no unit"),
        (np.timedelta64(5, "M"), "has no fixed length"),
        (np.timedelta64(5, "Y"), "has no fixed length"),
        (np.timedelta64(5, "ps"), "is finer than a nanosecond"),
    ],
)
def test_lengths_that_are_none(value, said):
    with pytest.raises(SpecError, match=said):
        length_ns(value, argument="tolerance")


def test_flags_and_counts():
    assert flag("coalesce", np.bool_(True)) is True
    with pytest.raises(SpecError, match=r"coalesce=np\.int64\(1\) \(int64\) is not a boolean"):
        flag("coalesce", np.int64(1))
    assert [whole_number(value) for value in (np.int64(3), 3, True, np.bool_(True), 3.0, "3")] == [
        3,
        3,
        None,
        None,
        None,
        None,
    ]
