"""Conversion of argument values, including those of NumPy and pandas, to plain Python values."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from juncture.errors import wrong_type

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
        raise wrong_type(argument, value, "a boolean", "True or False")
    return converted


def whole_number(value: object) -> int | None:
    """Return an integer as Python's; None for other values, including booleans."""
    value = plain(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
