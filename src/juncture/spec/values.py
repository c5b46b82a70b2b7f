"""Conversion of argument values, including those of NumPy and pandas, to plain Python values."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from juncture.errors import SpecError

DAY_S = 86_400
"""Seconds in a day."""

TimeLength: TypeAlias = timedelta | np.timedelta64
"""A duration of Python, pandas (a ``timedelta`` subclass with nanoseconds) or NumPy."""

_UNIT_NS: dict[str, Fraction | int] = {
    "W": 7 * DAY_S * 10**9,
    "D": DAY_S * 10**9,
    "h": 3_600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
    "ps": Fraction(1, 10**3),
    "fs": Fraction(1, 10**6),
    "as": Fraction(1, 10**9),
}


_PYTHON = frozenset((type(None), bool, int, float, str, tuple, list, dict))
"""Types whose values `plain` returns unchanged: looked up, since specs and statistics have many of them."""


def plain(value: Any) -> Any:
    """Return NumPy numbers, booleans and texts as Python's, and other values unchanged.

    A float has the value that it prints as, whatever its width: ``np.float32(0.1)`` is a tenth. A fraction with
    finitely many decimal digits becomes a decimal.

    Examples
    --------
    >>> plain(np.int8(5)), plain(np.bool_(True)), plain(np.float32(0.1)), plain(Fraction(1, 4))
    (5, True, 0.1, Decimal('0.250'))
    """
    if type(value) in _PYTHON:
        return value
    if isinstance(value, np.bool_ | np.str_ | np.bytes_):
        return value.item()
    if isinstance(value, np.integer) and not isinstance(value, np.timedelta64):
        return int(value)
    if isinstance(value, np.floating):
        return float(value) if isinstance(value, np.float64) else float(str(value))
    return _decimal(value) if isinstance(value, Fraction) else value


def _decimal(value: Fraction) -> Decimal | Fraction:
    """Return a fraction as a decimal; unchanged if its digits do not end."""
    rest = value.denominator
    digits = rest.bit_length()
    for factor in (2, 5):
        while rest % factor == 0:
            rest //= factor
    return Decimal(f"{value.numerator * 10**digits // value.denominator}E-{digits}") if rest == 1 else value


def flag(argument: str, value: object) -> bool:
    """Return a boolean as Python's; raise SpecError for other values."""
    converted = plain(value)
    if not isinstance(converted, bool):
        raise SpecError(
            f"{argument}={value!r} ({type(value).__name__}) is not a boolean. Expected True or False.",
            name="JN-ARGUMENT-TYPE",
        )
    return converted


def whole(value: object) -> int | None:
    """Return an integer as Python's; None for other values, including booleans."""
    value = plain(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def length_ns(value: TimeLength, *, argument: str) -> int:
    """Return a length of time in nanoseconds, exactly; raise SpecError if that is impossible.

    Examples
    --------
    >>> length_ns(np.timedelta64(1_500, "ns"), argument="tolerance")
    1500
    """
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
    if unit not in _UNIT_NS:
        what = "has no unit" if unit == "generic" else "has no fixed length"
        raise SpecError(
            f"{argument}={value!r} {what}. Pass weeks, days or a smaller unit, such as numpy.timedelta64(30, 'D').",
            name="JN-DURATION-VARIABLE",
        )
    exact = int(value.astype(np.int64)) * steps * Fraction(_UNIT_NS[unit])
    if exact.denominator != 1:
        raise SpecError(
            f"{argument}={value!r} is finer than a nanosecond. Round it to nanoseconds.", name="JN-DURATION-PRECISION"
        )
    return int(exact)


def map_entries(items: Any) -> Any:
    """Return the entries of a map in the order of keys, and other values unchanged. Only maps are lists of tuples."""
    if isinstance(items, list) and items and type(items[0]) is tuple:
        return sorted(items, key=lambda entry: entry[0])
    return items
