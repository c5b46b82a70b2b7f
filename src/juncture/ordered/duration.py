"""Durations of Python and NumPy, and as text: ``"50ms"``, ``"1h30m"``, ``"2 days"``."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from juncture.columnar.types import DAY_S
from juncture.errors import SpecError

TimeLength: TypeAlias = timedelta | np.timedelta64
"""A duration of Python, pandas (a ``timedelta`` subclass with nanoseconds) or NumPy."""

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": DAY_S * 10**9,
    "w": 7 * DAY_S * 10**9,
}
_NUMPY_NS: dict[str, Fraction | int] = {
    **NANOSECONDS,
    "D": NANOSECONDS["d"],
    "W": NANOSECONDS["w"],
    "ps": Fraction(1, 10**3),
    "fs": Fraction(1, 10**6),
    "as": Fraction(1, 10**9),
}
_SPELLINGS = {
    "ns": ("ns", "nanosecond", "nanoseconds"),
    "us": ("us", "µs", "μs", "microsecond", "microseconds"),
    "ms": ("ms", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_UNIT_OF = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}
_TEXTS = 256  # texts that are remembered, since a join reads each several times
_PART = re.compile(r"(\d{1,400})\s*([a-zA-Zµμ]+)\s*")
_WHOLE = re.compile(r"\s*([+-]?)\s*((?:\d{1,400}\s*[a-zA-Zµμ]+\s*)+)")


def is_duration(text: str) -> bool:
    """Return whether a text is a duration."""
    return _nanoseconds(text) is not None


def duration_ns(value: str | TimeLength, *, argument: str) -> int:
    """Return a duration in nanoseconds; raise SpecError if it is none.

    A text has numbers with units (``ns`` to ``w``, or English names), which are added, and an optional sign in front.
    """
    if isinstance(value, TimeLength):
        return length_ns(value, argument=argument)
    nanoseconds = _nanoseconds(value)
    if nanoseconds is None:
        raise SpecError(
            f"{argument}={value!r} is not a duration. Expected numbers with units (ns, us, ms, s, m, h, d, w), such "
            'as "50ms", "1h30m" or "2 days", or a timedelta.',
            name="JN-DURATION-SYNTAX",
        )
    return nanoseconds


@lru_cache(maxsize=_TEXTS)
def _nanoseconds(text: str) -> int | None:
    """Return the nanoseconds of a text; None if it is no duration."""
    match = _WHOLE.fullmatch(text)
    parts = [] if match is None else _PART.findall(match[2])
    if match is None or any(unit not in _UNIT_OF for _, unit in parts):
        return None
    total = sum(int(number) * NANOSECONDS[_UNIT_OF[unit]] for number, unit in parts)
    return -total if match[1] == "-" else total


def format_duration(nanoseconds: int) -> str:
    """Return nanoseconds as text that `duration_ns` parses."""
    if nanoseconds == 0:
        return "0s"
    rest, parts = abs(nanoseconds), []
    for unit in ("d", "h", "m", "s", "ms", "us", "ns"):
        count, rest = divmod(rest, NANOSECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if nanoseconds < 0 else "") + "".join(parts)


def length_ns(value: TimeLength, *, argument: str) -> int:
    """Return a length of time in nanoseconds, exactly; raise SpecError if that is impossible."""
    if isinstance(value, timedelta):
        microseconds = (value.days * DAY_S + value.seconds) * 1_000_000 + value.microseconds
        return microseconds * 1_000 + int(getattr(value, "nanoseconds", 0))
    return numpy_ns(value, argument=argument)


def numpy_ns(value: np.timedelta64 | np.datetime64, *, argument: str) -> int:
    """Return a NumPy duration, or datetime since 1970, in nanoseconds, exactly; raise SpecError if impossible."""
    if np.isnat(value):
        raise SpecError(
            f"{argument}=NaT would match nothing. Pass a value, or None for no limit.", name="JN-DISTANCE-VALUE"
        )
    unit, steps = np.datetime_data(value.dtype)
    if unit not in _NUMPY_NS:
        what = "has no unit" if unit == "generic" else "has no fixed length"
        raise SpecError(
            f"{argument}={value!r} {what}. Pass weeks, days or a smaller unit, such as numpy.timedelta64(30, 'D').",
            name="JN-DURATION-VARIABLE",
        )
    exact = int(value.astype(np.int64)) * steps * Fraction(_NUMPY_NS[unit])
    if exact.denominator != 1:
        raise SpecError(
            f"{argument}={value!r} is finer than a nanosecond. Round it to nanoseconds.", name="JN-DURATION-PRECISION"
        )
    return int(exact)
