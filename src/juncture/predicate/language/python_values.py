"""Python values as literals of a predicate, and ends of intervals as Python values."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from juncture.errors import SpecError
from juncture.ordered.duration import TimeLength, length_ns, numpy_ns
from juncture.predicate.language.nodes import Literal
from juncture.predicate.language.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIME_STEPS, Type, Value, as_decimal
from juncture.values import plain

_EPOCH_DATE = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def literal_of(value: object, *, argument: str) -> Literal | None:
    """Return a Python, NumPy or pandas value as the narrowest exact literal; None for unsupported types."""
    value = plain(value)
    if isinstance(value, bool | int):
        return Literal(BOOLEAN if isinstance(value, bool) else BIGINT, int(value))
    if isinstance(value, str | bytes):
        return Literal(STRING if isinstance(value, str) else Type("binary"), value)
    if isinstance(value, float | Decimal | Fraction):
        return _number(value, argument)
    if isinstance(value, np.datetime64):
        return _numpy_moment(value, argument)
    if isinstance(value, TimeLength):
        return _timed(Type("duration"), length_ns(value, argument=argument))
    if isinstance(value, datetime):
        if value != value:
            raise _limits_nothing(argument, "NaT")
        epoch = _EPOCH if value.tzinfo is not None else _EPOCH.replace(tzinfo=None)
        zoned = value.tzinfo is not None
        return _timed(Type("timestamp", zoned=zoned), length_ns(value - epoch, argument=argument))
    return Literal(DATE, (value - _EPOCH_DATE).days) if isinstance(value, date) else None


def _limits_nothing(argument: str, bound: str) -> SpecError:
    return SpecError(
        f"{argument} has the bound {bound}, which limits nothing. Pass None for no bound.", name="JN-BOUND-FORM"
    )


def _number(value: float | Decimal | Fraction, argument: str) -> Literal:
    if not isinstance(value, Fraction) and math.isnan(value):
        raise _limits_nothing(argument, "NaN")
    if not isinstance(value, Decimal):
        return Literal(DOUBLE, value)
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        return Literal(DOUBLE, float(value))
    return Literal(Type("decimal", precision=38, scale=max(0, -exponent)), Fraction(value))


def _numpy_moment(value: np.datetime64, argument: str) -> Literal:
    """Return a date, or a timestamp without a zone, of any unit."""
    if np.isnat(value):
        raise _limits_nothing(argument, "NaT")
    if np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D"):
        return Literal(DATE, int(value.astype("datetime64[D]").astype(np.int64)))
    return _timed(Type("timestamp"), numpy_ns(value, argument=argument))


def _timed(data_type: Type, nanoseconds: int) -> Literal:
    """Return a timestamp or duration in microseconds, or in nanoseconds if needed."""
    unit = "ns" if nanoseconds % 1_000 else "us"
    steps = nanoseconds if unit == "ns" else nanoseconds // 1_000
    return Literal(Type(data_type.kind, unit=unit, zoned=data_type.zoned), steps)


def python_value(end: Value, data_type: Type, *, up: bool) -> Any:
    """Return an end of an interval as a Python value, rounded ``up`` or down to microseconds; None if out of range."""
    if data_type.kind == "decimal" and isinstance(end, int | Fraction):
        return as_decimal(end, data_type)
    if data_type.kind == "boolean" and end is not None:
        return bool(end)
    if not isinstance(end, int):
        return end
    try:
        if data_type.kind == "date":
            return _EPOCH_DATE + timedelta(days=end)
        if data_type.kind in ("timestamp", "duration"):
            exact = Fraction(end * TIME_STEPS["us"], TIME_STEPS[data_type.unit])
            length = timedelta(microseconds=math.ceil(exact) if up else math.floor(exact))
            if data_type.kind == "duration":
                return length
            return _EPOCH + length if data_type.zoned else _EPOCH.replace(tzinfo=None) + length
    except OverflowError:
        return None
    return end
