"""Times and lengths of time as numbers of microseconds, in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["DAY_MICROS", "micros", "ntz_micros"]

DAY_MICROS = 86_400_000_000
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def micros(interval: Column) -> Column:
    """Return an interval's microseconds as a decimal without a fraction."""
    return (interval.cast("interval second").cast("decimal(20,6)") * 1_000_000).cast("decimal(20,0)")


def ntz_micros(value: Column) -> Column:
    """Return the microseconds from 1970 to a timestamp without a time zone."""
    return micros(value - F.expr(_EPOCH)).cast("long")
