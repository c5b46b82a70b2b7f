"""PostgreSQL types and their Arrow types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.types as pat

_SAME: Mapping[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.uint32(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
"""All other types except numeric and arrays are read as text."""

_HEADER = 4
"""Offset of type modifiers."""


@dataclass(frozen=True)
class _Type:
    name: str
    kind: str
    base: int
    modifier: int
    element: int


class Types:
    """The types of a database, including domains, enumerations and arrays."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        rows = connection.execute(
            "SELECT oid::int8, typname, typtype, typbasetype::int8, typtypmod, "
            "CASE WHEN typcategory = 'A' AND typlen = -1 THEN typelem::int8 ELSE 0 END FROM pg_catalog.pg_type"
        )
        self._types = {row[0]: _Type(*row[1:]) for row in rows}

    def arrow(self, oid: int, modifier: int) -> pa.DataType:
        """Return the Arrow type of a column."""
        found = self._types[oid]
        if found.kind == "d":
            return self.arrow(found.base, found.modifier if modifier < 0 else modifier)
        if found.element:
            return pa.list_(self.arrow(found.element, modifier))
        if found.name == "numeric":
            return _numeric(modifier)
        return _SAME.get(found.name, pa.string())


def _numeric(modifier: int) -> pa.DataType:
    """Return a decimal type with the same digits; text for a numeric without precision."""
    if modifier < 0:
        return pa.string()
    precision, scale = (modifier - _HEADER) >> 16, (modifier - _HEADER) & 0x7FF
    # The scale has eleven bits with a sign: numeric(3, -2) rounds to hundreds, numeric(2, 4) starts with two zeros.
    scale = (scale ^ 1024) - 1024
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    if precision > 76:
        return pa.string()
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def sql_type(data_type: pa.DataType) -> str:
    """Return the PostgreSQL type of an Arrow type."""
    if pat.is_dictionary(data_type):
        return sql_type(data_type.value_type)
    if pat.is_list(data_type) or pat.is_large_list(data_type):
        return f"{sql_type(data_type.value_type)}[]"
    if pat.is_decimal(data_type):
        return f"numeric({data_type.precision}, {data_type.scale})"
    if pat.is_timestamp(data_type):
        return "timestamp" if data_type.tz is None else "timestamptz"
    for test, name in _TESTS:
        if test(data_type):
            return name
    return "text"


_TESTS = (
    (pat.is_boolean, "boolean"),
    (pat.is_uint64, "numeric(20, 0)"),
    (lambda each: pat.is_int64(each) or pat.is_uint32(each), "bigint"),
    (lambda each: pat.is_int32(each) or pat.is_uint16(each), "integer"),
    (pat.is_integer, "smallint"),
    (pat.is_float64, "double precision"),
    (pat.is_floating, "real"),
    (pat.is_date, "date"),
    (pat.is_time, "time"),
    (lambda each: pat.is_binary(each) or pat.is_large_binary(each) or pat.is_fixed_size_binary(each), "bytea"),
)
