from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.errors import SpecError
from juncture.ordered.duration import duration_ns, format_duration, is_duration

MINUTE = 60 * 10**9

DURATIONS = {
    "0s": 0,
    "7ns": 7,
    "7us": 7_000,
    "7µs": 7_000,  # the micro sign
    "7μs": 7_000,  # the Greek letter
    "50ms": 50_000_000,
    "2s": 2 * 10**9,
    "5m": 5 * MINUTE,
    "5 min": 5 * MINUTE,
    "1 h": 60 * MINUTE,
    "2 hours": 120 * MINUTE,
    "1h30m": 90 * MINUTE,
    "1 hour 30 minutes": 90 * MINUTE,
    "30m1h": 90 * MINUTE,
    "1d": 1_440 * MINUTE,
    "3 weeks": 3 * 7 * 1_440 * MINUTE,
    "  5m ": 5 * MINUTE,
    "+5m": 5 * MINUTE,
    "-5m": -5 * MINUTE,
    "- 1h30m": -90 * MINUTE,
    "1000000d": 1_000_000 * 1_440 * MINUTE,
}

NOT_DURATIONS = ["", " ", "5", "m", "5 parsecs", "m5", "1.5h", "5m!", "--5m", "5m -3s", "5M", "1h 30", "max_age"]


@pytest.mark.parametrize(("text", "nanoseconds"), DURATIONS.items())
def test_text(text, nanoseconds):
    assert is_duration(text)
    assert duration_ns(text, argument="tolerance") == nanoseconds


@pytest.mark.parametrize("text", NOT_DURATIONS)
def test_what_is_not_a_duration(text):
    assert not is_duration(text)
    with pytest.raises(SpecError, match=r"is not a duration\. Expected numbers with units .*\"1h30m\"") as error:
        duration_ns(text, argument="lower")
    assert error.value.message.startswith(f"lower={text!r}")


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [
        (timedelta(0), 0),
        (timedelta(microseconds=1), 1_000),
        (timedelta(days=2, hours=1), 49 * 60 * MINUTE),
        (timedelta(seconds=-1), -(10**9)),
        (timedelta.max, ((999_999_999 * 86_400 + 86_399) * 10**6 + 999_999) * 1_000),
        (timedelta.min, -999_999_999 * 86_400 * 10**9),
    ],
)
def test_timedelta_to_the_microsecond(value, nanoseconds):
    assert duration_ns(value, argument="tolerance") == nanoseconds


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0s"), (1, "1ns"), (90 * MINUTE, "1h30m"), (-90 * MINUTE, "-1h30m"), (86_400_001_000_000, "1d1ms")],
)
def test_format(nanoseconds, text):
    assert format_duration(nanoseconds) == text


@given(st.integers(-(2**70), 2**70))
def test_what_is_written_is_read_back(nanoseconds):
    assert duration_ns(format_duration(nanoseconds), argument="tolerance") == nanoseconds
