"""Expressions that are equal in every match, as columns of a key."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from juncture.predicate.language.types import arrow_type
from juncture.spec.condition import EqualValues
from juncture.spec.schema import Side


def equal_types(equality: EqualValues, side: Side) -> list[pa.DataType]:
    """Return the types of the key columns that an equality makes of a side's values."""
    value = equality.type or arrow_type((equality.left if side == "left" else equality.right).type)
    return [pa.bool_(), value] if equality.null_safe else [value]


def equal_columns(equality: EqualValues, values: pa.Array) -> list[pa.Array]:
    """Return the key columns that an equality makes of a side's values of its expression."""
    if equality.type is not None:
        values = values.cast(equality.type, safe=False)
    if not equality.null_safe:
        return [values]
    return [pc.is_null(values), pc.fill_null(values, _zero(values.type))]


def _zero(data_type: pa.DataType) -> pa.Scalar:
    """Return a value that stands for nulls; their validity is compared separately."""
    if pa.types.is_boolean(data_type):
        return pa.scalar(False)
    if pa.types.is_decimal(data_type):
        return pa.scalar(Decimal(0), data_type)
    if pa.types.is_string(data_type):
        return pa.scalar("")
    if pa.types.is_binary(data_type):
        return pa.scalar(b"")
    if pa.types.is_date32(data_type):
        return pa.scalar(0, pa.int32()).cast(data_type)
    return pa.scalar(0, pa.int64()).cast(data_type)
