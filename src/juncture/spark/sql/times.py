"""Times and durations as integers, of days or microseconds, in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spec.values import DAY_S

if TYPE_CHECKING:
    from pyspark.sql import Column

DAY_MICROS = DAY_S * 1_000_000
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def micros(interval: Column) -> Column:
    """Return an interval's microseconds as a decimal without a fraction."""
    return (interval.cast("interval second").cast("decimal(20,6)") * 1_000_000).cast("decimal(20,0)")


def ntz_micros(value: Column) -> Column:
    """Return the microseconds from 1970 to a timestamp without a time zone."""
    return micros(value - F.expr(_EPOCH)).cast("long")


def whole_steps(value: Column, data_type: pa.DataType) -> Column:
    """Return an integer, the days of a date, or the microseconds of a timestamp or duration."""
    if pat.is_date(data_type):
        return F.unix_date(value).cast("long")
    if pat.is_timestamp(data_type):
        return F.unix_micros(value) if data_type.tz is not None else ntz_micros(value)
    return micros(value).cast("long") if pat.is_duration(data_type) else value.cast("long")
