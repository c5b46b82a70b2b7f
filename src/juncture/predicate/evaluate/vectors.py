"""Arrow columns as plain vectors, and back.

A vector has the values of one type in the form of computation: integers, dates, timestamps and durations as 64-bit
steps, decimals as 128-bit decimals, and floats, booleans, strings and binary unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, days, plain_column, validity
from juncture.columnar.types import DAY_MS
from juncture.predicate.language.types import Type, Value, arrow_type, as_decimal, vector_type

Vector: TypeAlias = "pa.Array | pa.Scalar"
"""The values of an expression: one for each row, or one for all."""


def from_column(column: pa.Array | pa.ChunkedArray, data_type: Type) -> pa.Array:
    """Return a column of any encoding as a vector; one of the null type may have any Arrow type."""
    if data_type.kind == "null":
        return pa.nulls(len(column))
    array = plain_column(column)
    if pat.is_date(array.type):
        return array_of(days(array), pa.int64(), validity(array))
    target = vector_type(data_type)
    if pat.is_null(target):
        # Engines represent it with some other type.
        return pa.nulls(len(array))
    return array if array.type == target else array.cast(target)


def to_column(vector: Vector, data_type: Type, rows: int) -> pa.Array:
    """Return a vector as a column of the type's Arrow type."""
    array = pa.repeat(vector, rows) if isinstance(vector, pa.Scalar) else vector
    target = arrow_type(data_type)
    if pat.is_date64(target):
        # The first day begins before the least number of milliseconds.
        first = pc.equal(array, int(data_type.least))
        return pc.if_else(first, -(1 << 63), pc.multiply(array, DAY_MS)).cast(target)
    if pat.is_date32(target):
        return array.cast(pa.int32()).cast(target)
    return array if array.type == target else array.cast(target)


def constant(value: Value, data_type: Type) -> pa.Scalar:
    """Return a literal's value as a scalar vector."""
    return pa.scalar(_stored(value, data_type), vector_type(data_type))


def row_by_row(function: Callable[..., Value], data_type: Type, *operands: Vector) -> Vector:
    """Apply an exact function to each row without nulls, where no vectorized one is exact.

    A result that is None, or that the type cannot represent, becomes null. Costs about a microsecond per row.
    """
    lists = [_values(operand) for operand in operands]
    rows = next((len(operand) for operand in operands if not isinstance(operand, pa.Scalar)), 1)
    spread = [
        values * rows if isinstance(operand, pa.Scalar) else values
        for values, operand in zip(lists, operands, strict=True)
    ]
    results = [
        None if any(value is None for value in row) else _held(function(*row), data_type)
        for row in zip(*spread, strict=True)
    ]
    if all(isinstance(operand, pa.Scalar) for operand in operands):
        return pa.scalar(results[0], vector_type(data_type))
    return pa.array(results, vector_type(data_type))


def _values(vector: Vector) -> list[Any]:
    values = [vector.as_py()] if isinstance(vector, pa.Scalar) else vector.to_pylist()
    return [Fraction(value) if isinstance(value, Decimal) else value for value in values]


def _held(value: Value, data_type: Type) -> Any:
    """Return a result in Arrow's form, or None if the type cannot represent it."""
    if value is None or isinstance(value, bool | float | str | bytes):
        return value
    return _stored(value, data_type) if data_type.least <= value <= data_type.greatest else None


def _stored(value: Value, data_type: Type) -> Any:
    if data_type.kind == "decimal" and isinstance(value, int | Fraction):
        return as_decimal(value, data_type)
    return value
