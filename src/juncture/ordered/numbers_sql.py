"""Integers in SQL, as 64-bit integers, and floats, as doubles."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.ordered.arithmetic import LimitEnd
from juncture.ordered.domain_sql import SqlDomain, literal_sign

if TYPE_CHECKING:
    from pyspark.sql import Column


_BITS: dict[type[st.DataType], int] = {st.ByteType: 8, st.ShortType: 16, st.IntegerType: 32, st.LongType: 64}


@dataclass(frozen=True)
class SqlIntegers(SqlDomain):
    """Integers as 64-bit integers."""

    def literal(self, step: int | float, data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return the integer."""
        return literal_sign(step, _BITS.get(type(data_type), 64)) or F.lit(step)


@dataclass(frozen=True)
class SqlFloats(SqlDomain):
    """Floats as doubles. An open end cannot be closed by moving it a step."""

    is_whole: ClassVar[bool] = False

    def present(self, value: Column) -> Column:
        """Return a value, null if it is NaN."""
        return F.when(~F.isnan(value), value)

    def word(self, value: Column, _data_type: pa.DataType, /) -> Column:
        """Return the double, with one zero."""
        return self.present(value.cast("double") + F.lit(0.0))

    def literal(self, step: int | float, _data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return the double."""
        return F.lit(float(step))

    def limit(self, *, upper: bool) -> Column:
        """Return infinity."""
        return F.lit(float("inf") if upper else float("-inf"))

    def end(self, word: Column, offset: int | float | Fraction, _end: LimitEnd, /) -> Column:
        """Return the end, null for NaN."""
        return self.present(word + F.lit(float(offset))) if offset else word

    def row_end(self, word: Column, distance: Column, _data_type: pa.DataType, _end: LimitEnd, /) -> Column:
        """Return the end, null for NaN."""
        return self.present(word + distance.cast("double"))

    def distance(self, more: list[Column], less: list[Column]) -> list[Column]:
        """Return the difference; 0 between equal infinities, whose difference is NaN."""
        return [F.when(more[0] == less[0], 0.0).otherwise(more[0] - less[0])]

    def within(self, distance: list[Column], constant: int | float) -> Column:
        """Return whether a distance is at most a float."""
        return distance[0] <= F.lit(float(constant))

    def within_row(self, distance: list[Column], limit: Column, data_type: pa.DataType, /) -> Column:
        """Return whether a distance is at most a float or an integer."""
        near = limit.cast("double")
        if pat.is_floating(data_type):
            return ~F.isnan(limit) & (limit >= 0) & (distance[0] <= near)
        # Rounded to a float, the limit could grow to the distance.
        exceeds = near.cast("decimal(20,0)") > limit.cast("decimal(20,0)")
        return (limit >= 0) & ((distance[0] < near) | ((distance[0] == near) & ~exceeds))
