"""Durations as text: ``"50ms"``, ``"1h30m"``, ``"2 days"``."""

from __future__ import annotations

import re

from juncture.errors import SpecError
from juncture.spec.values import DAY_S, TimeLength, length_ns

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
_PART = re.compile(r"(\d{1,400})\s*([a-zA-Zµμ]+)\s*")
_WHOLE = re.compile(r"\s*([+-]?)\s*((?:\d{1,400}\s*[a-zA-Zµμ]+\s*)+)")


def is_duration(text: str) -> bool:
    """Return whether a text is a duration.

    Examples
    --------
    >>> is_duration("5m"), is_duration("max_age")
    (True, False)
    """
    whole = _WHOLE.fullmatch(text)
    return whole is not None and all(unit in _UNIT_OF for _, unit in _PART.findall(whole[2]))


def duration_ns(value: str | TimeLength, *, argument: str) -> int:
    """Return a duration in nanoseconds; raise SpecError if it is none.

    A text has numbers with units (``ns`` to ``w``, or English names), which are added, and an optional sign in front.

    Examples
    --------
    >>> duration_ns("1h30m", argument="tolerance")
    5400000000000
    >>> duration_ns("-2 hours", argument="lower")
    -7200000000000
    """
    if isinstance(value, TimeLength):
        return length_ns(value, argument=argument)
    if not is_duration(value):
        raise SpecError(
            f"{argument}={value!r} is not a duration. Expected numbers with units (ns, us, ms, s, m, h, d, w), such "
            'as "50ms", "1h30m" or "2 days", or a timedelta.',
            name="JN-DURATION-SYNTAX",
        )
    whole = _WHOLE.fullmatch(value)
    assert whole is not None
    total = sum(int(number) * NANOSECONDS[_UNIT_OF[unit]] for number, unit in _PART.findall(whole[2]))
    return -total if whole[1] == "-" else total


def format_duration(nanoseconds: int) -> str:
    """Return nanoseconds as text that `duration_ns` parses.

    Examples
    --------
    >>> format_duration(5_400_000_000_000)
    '1h30m'
    """
    if nanoseconds == 0:
        return "0s"
    rest, parts = abs(nanoseconds), []
    for unit in ("d", "h", "m", "s", "ms", "us", "ns"):
        count, rest = divmod(rest, NANOSECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if nanoseconds < 0 else "") + "".join(parts)
