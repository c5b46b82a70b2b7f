"""The right rows that can matter by their ``on``: what lies beyond the reach of all left rows never moves.

The first and the last left ``on``, widened by the tolerance, limit what the right side has to send. A DataFrame gets a
filter, which Spark pushes down to its source; of files, the row groups beyond are not read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.local.arrays import plain
from juncture.local.codes import steps_of
from juncture.spark.files import FileSide
from juncture.spark.sides import FrameSide, Side
from juncture.spec.asof import ResolvedAsof
from juncture.spec.schema import Domain

__all__ = ["Extent", "extent_of", "reachable"]

Extent = tuple[Any, Any]
"""The least and the greatest ``on`` of a table, in steps of the join's domain."""

_EPOCH = datetime(1970, 1, 1)
_BITS: dict[type[st.DataType], int] = {st.ByteType: 8, st.ShortType: 16, st.IntegerType: 32, st.LongType: 64}


def extent_of(values: pa.Array, domain: Domain) -> Extent | None:
    """Return the extent that two values, the least and the greatest, stand for; None if there are none."""
    steps = steps_of(plain(values), domain)
    least, greatest = steps[0], steps[-1]
    return None if least is None or greatest is None else (least, greatest)


def reachable(join: ResolvedAsof, left: Extent, right: Side) -> tuple[Side, str]:
    """Return the right side without rows that no left row can match by the range of its ``on``, and what is left out.

    Parameters
    ----------
    join
        The join, which does not keep right rows without a match.
    left
        The extent of the left side.
    right
        The right side.
    """
    tolerance, distance = join.tolerance, None
    # A distance between floats is rounded, so that a limit would have to be, too.
    if tolerance is not None and tolerance.column is None and join.domain.kind != "float":
        distance = int(tolerance.constant or 0)
    low, high = join.reach(*left, distance)
    if isinstance(right, FileSide):
        fewer = _files_within(right, join, low, high)
        groups, kept = (len(side.footers.part_rows) for side in (right, fewer))
        return fewer, f"{groups - kept:,} of {groups:,} row groups of the right side" if kept < groups else ""
    assert isinstance(right, FrameSide)
    number = right.schema.names.index(join.right_on)
    data_type = right.spark_schema.fields[number].dataType
    names = [f"c{i}" for i in range(len(right.schema))]
    frame, on = right.frame.toDF(*names), F.col(names[number])
    conditions = [_not_below(on, low, data_type, join.domain), _not_above(on, high, data_type, join.domain)]
    used = [condition for condition in conditions if condition is not None]
    if not used:
        return right, ""
    for condition in used:
        frame = frame.where(condition)
    narrowed = FrameSide(frame.toDF(*right.schema.names), right.schema)
    return narrowed, f"right rows whose {join.right_on} lies beyond the reach of all left rows"


def _files_within(side: FileSide, join: ResolvedAsof, low: Any, high: Any) -> FileSide:
    """Leave out row groups that lie beyond. Those without statistics stay."""
    kept = []
    for part in range(len(side.footers.part_rows)):
        values = side.footers.extent(part, join.right_on)
        extent = None if values is None else extent_of(values, join.domain)
        if extent is None or ((high is None or extent[0] <= high) and (low is None or extent[1] >= low)):
            kept.append(part)
    return side.only(kept)


def _not_below(on: Column, low: Any, data_type: st.DataType, domain: Domain) -> Column | None:
    """Return the condition that a value is not less than a limit; None if none is."""
    if low is None:
        return None
    found = _literal(low, data_type, domain, up=True)
    return on >= found if isinstance(found, Column) else (F.lit(False) if found == 1 else None)


def _not_above(on: Column, high: Any, data_type: st.DataType, domain: Domain) -> Column | None:
    """Return the condition that a value is not greater than a limit; None if none is."""
    if high is None:
        return None
    found = _literal(high, data_type, domain, up=False)
    return on <= found if isinstance(found, Column) else (F.lit(False) if found == -1 else None)


def _literal(step: Any, data_type: st.DataType, domain: Domain, *, up: bool) -> Column | int | None:
    """Return a limit as a literal of a column's type, rounded up or down to it.

    Returns
    -------
    Column, int or None
        1 or -1 if it lies above or below all values of the type; None if the type has no literal for it.
    """
    if domain.kind == "float":
        return F.lit(float(step))
    if isinstance(data_type, st.DecimalType):
        coarser = 10 ** (domain.scale - data_type.scale)
        unscaled = -(-step // coarser) if up else step // coarser
        if abs(unscaled) >= 10**data_type.precision:
            return 1 if unscaled > 0 else -1
        with localcontext(prec=data_type.precision):
            text = f"{Decimal(unscaled).scaleb(-data_type.scale):f}"
        return F.expr(f"CAST('{text}' AS DECIMAL({data_type.precision}, {data_type.scale}))")
    bits = 32 if isinstance(data_type, st.DateType) else _BITS.get(type(data_type), 64)
    if not -(1 << bits - 1) <= step < 1 << bits - 1:
        return 1 if step > 0 else -1
    if isinstance(data_type, st.DateType):
        return F.expr(f"date_add(DATE '1970-01-01', {step})")
    if isinstance(data_type, st.TimestampType):
        return F.expr(f"timestamp_micros({step})")
    if isinstance(data_type, st.TimestampNTZType):
        try:
            return F.expr(f"TIMESTAMP_NTZ '{_EPOCH + timedelta(microseconds=step)}'")
        except OverflowError:
            return None
    return F.lit(step)
