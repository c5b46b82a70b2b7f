"""Integers in SQL, as 64-bit integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.ordered.domain_sql import SqlDomain, literal_sign

if TYPE_CHECKING:
    from pyspark.sql import Column

_BITS: dict[type[st.DataType], int] = {st.ByteType: 8, st.ShortType: 16, st.IntegerType: 32, st.LongType: 64}


@dataclass(frozen=True)
class SqlIntegers(SqlDomain):
    """Integers as 64-bit integers."""

    def word(self, value: Column, data_type: pa.DataType) -> Column:  # noqa: ARG002 - all widths fit
        """Return the integer."""
        return value.cast("long")

    def literal(self, step: int | float, data_type: st.DataType, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return the integer."""
        return literal_sign(step, _BITS.get(type(data_type), 64)) or F.lit(step)

    def within_row(self, distance: list[Column], limit: Column, data_type: pa.DataType) -> Column:  # noqa: ARG002
        """Return whether a distance is at most an integer."""
        return (limit >= 0) & (distance[0] <= limit.cast("decimal(20,0)"))

    def apart(self, left: Column, right: Column) -> Column:
        """Return the exact distance."""
        return F.abs(left.cast("decimal(20,0)") - right.cast("decimal(20,0)"))

    def _steps(self, distance: Column, data_type: pa.DataType, *, upper: bool) -> tuple[Column, Column, Column]:  # noqa: ARG002
        return distance.cast("long"), F.lit(True), distance > 0
