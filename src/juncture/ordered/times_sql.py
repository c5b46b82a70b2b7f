"""Dates, timestamps and durations in SQL, as integers of days or microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.columnar.types import DAY_S
from juncture.ordered.domain_sql import SqlDomain, literal_sign

if TYPE_CHECKING:
    from pyspark.sql import Column

DAY_MICROS = DAY_S * 1_000_000
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class _SqlTimes(SqlDomain):
    """Times as integers."""

    def number(self, value: Column, data_type: pa.DataType, /) -> Column:
        """Return a time in seconds."""
        return self.word(value, data_type).cast("double") * F.lit(self.step_ns / 1e9)

    def within_row(self, distance: list[Column], limit: Column, _data_type: pa.DataType, /) -> Column:
        """Return whether a distance is at most a duration."""
        length = micros(limit)
        return (length >= 0) & (self._micros(distance[0]) <= length)

    def _micros(self, steps: Column) -> Column:
        return steps


@dataclass(frozen=True)
class SqlDates(_SqlTimes):
    """Dates as days since 1970."""

    step_ns: ClassVar[int] = DAY_S * 10**9

    def word(self, value: Column, _data_type: pa.DataType, /) -> Column:
        """Return the days."""
        return F.unix_date(value).cast("long")

    def literal(self, step: int | float, _data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return a day as a date."""
        return literal_sign(step, 32) or F.expr(f"date_add(DATE '1970-01-01', {step})")

    def distance(self, more: list[Column], less: list[Column]) -> list[Column]:
        """Return the days between dates."""
        return [more[0] - less[0]]

    def _micros(self, steps: Column) -> Column:
        return steps * F.lit(DAY_MICROS)

    def _steps(self, distance: Column, _data_type: pa.DataType, /, *, upper: bool) -> tuple[Column, Column, Column]:
        whole, day = _whole_micros(distance), F.lit(DAY_MICROS)
        days, rest = F.call_function("div", whole, day), whole % day
        rounded = days - (rest < 0).cast("long") if upper else days + (rest > 0).cast("long")
        return rounded, rest == 0, whole > 0


@dataclass(frozen=True)
class SqlTimestamps(_SqlTimes):
    """Timestamps as microseconds since 1970."""

    step_ns: ClassVar[int] = 1_000

    def word(self, value: Column, data_type: pa.DataType, /) -> Column:
        """Return the microseconds."""
        if data_type.tz is not None:
            return F.unix_micros(value)
        return _whole_micros(value - F.expr(f"TIMESTAMP_NTZ '{_EPOCH}'"))

    def literal(self, step: int | float, data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return microseconds as a timestamp."""
        sign = literal_sign(step, 64)
        if sign is not None:
            return sign
        if isinstance(data_type, st.TimestampType):
            return F.expr(f"timestamp_micros({step})")
        try:
            return F.expr(f"TIMESTAMP_NTZ '{_EPOCH + timedelta(microseconds=step)}'")
        except OverflowError:
            return None

    def _steps(self, distance: Column, _data_type: pa.DataType, /, *, upper: bool) -> tuple[Column, Column, Column]:  # noqa: ARG002
        length = micros(distance)
        return length.cast("long"), F.lit(True), length > 0


@dataclass(frozen=True)
class SqlDurations(SqlTimestamps):
    """Durations as microseconds. Only the conditions of predicates compare them in SQL."""

    def word(self, value: Column, _data_type: pa.DataType, /) -> Column:
        """Return the microseconds."""
        return _whole_micros(value)

    def literal(self, _step: int | float, _data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return None: durations have no literals of 64 bits."""
        return None


def micros(interval: Column) -> Column:
    """Return an interval's microseconds as a decimal without a fraction."""
    return (interval.cast("interval second").cast("decimal(20,6)") * 1_000_000).cast("decimal(20,0)")


def _whole_micros(interval: Column) -> Column:
    """Return an interval's microseconds as an integer."""
    return micros(interval).cast("long")
