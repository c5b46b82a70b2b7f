"""Integers in SQL, as 64-bit integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

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

    def apart(self, left: Column, right: Column, /) -> Column:
        """Return the exact distance."""
        return F.abs(left.cast("decimal(20,0)") - right.cast("decimal(20,0)"))
