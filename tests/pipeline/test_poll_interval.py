"""The interval at which a pipeline polls."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import juncture as jn
from juncture.pipeline.pipeline import poll_interval_ms


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (None, None),
        ("10s", 10_000),
        ("10 seconds", 10_000),
        ("1h30m", 5_400_000),
        ("0s", 0),
        ("1us", 1),
        (timedelta(seconds=2), 2000),
    ],
)
def test_it_is_a_duration(value: Any, milliseconds: int | None) -> None:
    assert poll_interval_ms(value) == milliseconds


@pytest.mark.parametrize(
    ("value", "message"),
    [("10", "is not a duration"), ("-1s", "is negative"), (10, r"10 \(int\) is not a duration")],
)
def test_other_values_are_refused(value: Any, message: str) -> None:
    with pytest.raises(jn.SpecError, match=f"--poll-interval=.*{message}"):
        poll_interval_ms(value, argument="--poll-interval")
