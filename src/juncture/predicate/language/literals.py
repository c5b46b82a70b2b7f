"""Dates, timestamps and intervals in SQL text, converted to whole steps and back without rounding."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from fractions import Fraction
from types import MappingProxyType

from juncture.columnar.types import DAY_S
from juncture.errors import SpecError, did_you_mean
from juncture.predicate.language.types import TIME_STEPS, Type

_EPOCH = date(1970, 1, 1).toordinal()
_MOST_STEPS = 2**63
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{1,2}(?::?\d{2})?)?"
)
UNIT_S: Mapping[str, Fraction | int] = MappingProxyType(
    {
        "week": 7 * DAY_S,
        "day": DAY_S,
        "hour": 3_600,
        "minute": 60,
        "second": 1,
        "millisecond": Fraction(1, 10**3),
        "microsecond": Fraction(1, 10**6),
        "nanosecond": Fraction(1, 10**9),
    }
)
"""The seconds of each unit of time of fixed length."""

_PART = re.compile(r"\s*([+-]?)\s*(\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})\s*([A-Za-z]+)")
_CLOCK = ("day", "hour", "minute", "second")


def read_date(text: str) -> int:
    """Return a date as days since 1970-01-01."""
    match = _DATE.fullmatch(text.strip())
    if match:
        year, month, day = (int(part) for part in match.groups())
        try:
            return date(year, month, day).toordinal() - _EPOCH
        except ValueError:
            pass
    raise SpecError(f"{text!r} is not a date. Expected for example '2024-02-29'.", name="JN-LITERAL-SYNTAX")


def read_timestamp(text: str, *, zoned: bool, zone: tzinfo | None) -> tuple[int, str]:
    """Return a timestamp as steps since 1970-01-01 and their unit: microseconds, or nanoseconds if needed.

    ``zoned`` is whether the result is an instant; ``zone`` is the zone of an instant whose text has none.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if not match:
        raise SpecError(
            f"{text!r} is not a timestamp. Expected for example '2024-02-29 12:30:00.5'.", name="JN-LITERAL-SYNTAX"
        )
    day, hours, minutes, seconds, digits, offset = match.groups()
    clock = [int(part or 0) for part in (hours, minutes, seconds)]
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        raise SpecError(
            f"{text!r} is not a timestamp: its time of day does not exist. Expected for example '2024-02-29 "
            "12:30:00.5'.",
            name="JN-LITERAL-SYNTAX",
        )
    epoch_s = read_date(day) * DAY_S + clock[0] * 3_600 + clock[1] * 60 + clock[2]
    if zoned:
        epoch_s -= _offset_s(text, offset, zone, epoch_s)
    elif offset:
        raise SpecError(
            f"{text!r} has a time zone, but is compared with timestamps without one. Remove the time zone.",
            name="JN-LITERAL-TIMEZONE",
        )
    digits = digits or ""
    unit = "ns" if len(digits) > 6 else "us"
    fraction = int(digits.ljust(9, "0")) // (10**9 // TIME_STEPS[unit])
    return _checked_steps(epoch_s * TIME_STEPS[unit] + fraction, unit, repr(text)), unit


def _offset_s(text: str, offset: str | None, zone: tzinfo | None, wall_s: int) -> int:
    """Return the offset of a wall clock from UTC, in seconds."""
    if offset in ("Z", "UTC"):
        return 0
    if offset:
        hours, minutes = int(offset[1:3].rstrip(":")), offset[3:].lstrip(":")
        return (-1 if offset[0] == "-" else 1) * (hours * 3_600 + int(minutes or 0) * 60)
    if zone is None:
        raise SpecError(
            f"{text!r} has no time zone, but is compared with timestamps that have one. Add its offset, such as "
            f"'{text}Z' or '{text}+02:00'.",
            name="JN-LITERAL-TIMEZONE",
        )
    wall = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=wall_s)
    try:
        utc_offset = wall.replace(tzinfo=zone).utcoffset()
    except OverflowError:
        raise SpecError(
            f"{text!r} is at the edge of the years 1 to 9999, where the offset of a time zone cannot be computed. Add "
            f"it, such as '{text}Z'.",
            name="JN-LITERAL-TIMEZONE",
        ) from None
    assert utc_offset is not None
    return int(utc_offset.total_seconds())


def interval_steps(text: str, unit: str | None) -> tuple[int, str]:
    """Return an interval as whole steps and their unit: microseconds, or nanoseconds if needed.

    ``unit`` follows the text, if present. With a unit ``A TO B`` the text is a reading such as ``1 02:03:04.5``.
    """
    if unit and " TO " in unit.upper():
        seconds = _clock_seconds(text, unit.upper())
    else:
        seconds = Fraction(0)
        rest = f"{text} {unit}" if unit else text
        rest = re.sub(r"^\s*interval\s+", "", rest, flags=re.IGNORECASE)
        while rest.strip():
            match = _PART.match(rest)
            if not match:
                raise SpecError(
                    f"INTERVAL {text!r} is not an interval. Expected numbers with units, such as INTERVAL '1 day 2 "
                    "hours'.",
                    name="JN-LITERAL-SYNTAX",
                )
            sign, number, name = match.groups()
            seconds += (-1 if sign == "-" else 1) * Fraction(number) * _unit_seconds(name)
            rest = rest[match.end() :]
    for name in ("us", "ns"):
        steps = seconds * TIME_STEPS[name]
        if steps.denominator == 1:
            return _checked_steps(int(steps), name, f"INTERVAL {text!r}"), name
    raise SpecError(
        f"INTERVAL {text!r} is finer than a nanosecond. Round it to nanoseconds.", name="JN-DURATION-PRECISION"
    )


def _checked_steps(steps: int, unit: str, what: str) -> int:
    """Return steps of a unit; raise SpecError if they exceed 64 bits."""
    if not -_MOST_STEPS <= steps < _MOST_STEPS:
        years = _MOST_STEPS // TIME_STEPS[unit] // (365 * DAY_S)
        name = {"us": "microseconds", "ns": "nanoseconds"}[unit]
        raise SpecError(
            f"{what} is out of range. In {name}, timestamps and intervals reach at most {years:,} years.",
            name="JN-LITERAL-RANGE",
        )
    return steps


def _unit_seconds(name: str) -> Fraction | int:
    unit = name.lower().removesuffix("s")
    if unit in ("month", "year", "quarter"):
        raise SpecError(
            f"INTERVAL in {name} has no fixed length. Write it in days, such as INTERVAL 30 DAYS.",
            name="JN-DURATION-VARIABLE",
        )
    if unit not in UNIT_S:
        units = [f"{each}s" for each in UNIT_S]
        raise SpecError(f"{name!r} is not a unit of INTERVAL. {did_you_mean(name, units)}", name="JN-LITERAL-SYNTAX")
    return UNIT_S[unit]


def _clock_seconds(text: str, unit: str) -> Fraction:
    """Return the seconds of a reading such as ``1 02:03`` whose fields the unit names, as in ``DAY TO MINUTE``."""
    for name in unit.split(" TO "):
        _unit_seconds(name)
    first, last = unit.lower().split(" to ")
    match = re.fullmatch(r"\s*([+-]?)\s*(.*?)\s*", text)
    assert match is not None
    fields = re.split(r"[ :]+", match[2])
    names = _CLOCK[_CLOCK.index(first) : _CLOCK.index(last) + 1] if {first, last} <= set(_CLOCK) else ()
    if len(fields) != len(names) or not all(re.fullmatch(r"\d{1,40}(\.\d{1,40})?", part) for part in fields):
        raise SpecError(
            f"INTERVAL {text!r} {unit} is not an interval. Expected for example INTERVAL '1 02:03:04.5' DAY TO SECOND.",
            name="JN-LITERAL-SYNTAX",
        )
    total = sum((Fraction(part) * UNIT_S[name] for part, name in zip(fields, names, strict=True)), Fraction(0))
    return -total if match[1] == "-" else total


def date_text(days: int) -> str:
    """Return days since 1970-01-01 as a date, or as ``epoch+N days`` beyond the calendar."""
    ordinal = days + _EPOCH
    if 1 <= ordinal <= date.max.toordinal():
        return date.fromordinal(ordinal).isoformat()
    return f"epoch{days:+d} days"


def timestamp_text(steps: int, data_type: Type) -> str:
    """Return a timestamp as text that `read_timestamp` parses."""
    seconds, fraction = divmod(steps, TIME_STEPS[data_type.unit])
    days, second = divmod(seconds, DAY_S)
    digits = len(str(TIME_STEPS[data_type.unit])) - 1
    tail = f".{fraction:0{digits}d}".rstrip("0") if fraction else ""
    clock = f"{second // 3_600:02d}:{second // 60 % 60:02d}:{second % 60:02d}{tail}"
    return f"{date_text(days)} {clock}{'Z' if data_type.zoned else ''}"


def duration_text(steps: int, unit: str) -> str:
    """Return a duration as text that `interval_steps` parses, such as ``1 day 2 hours 0.5 seconds``."""
    sign = "-" if steps < 0 else ""
    seconds, fraction = divmod(abs(steps), TIME_STEPS[unit])
    parts = []
    for name in ("day", "hour", "minute"):
        count, seconds = divmod(seconds, int(UNIT_S[name]))
        if count:
            parts.append(f"{sign}{count} {name}{'' if count == 1 else 's'}")
    digits = len(str(TIME_STEPS[unit])) - 1
    tail = f".{fraction:0{digits}d}".rstrip("0") if fraction else ""
    if seconds or fraction or not parts:
        parts.append(f"{sign}{seconds}{tail} second{'' if seconds == 1 and not fraction else 's'}")
    return " ".join(parts)
